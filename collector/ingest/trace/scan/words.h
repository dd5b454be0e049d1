/* The words that a trace file is made of, found by their bytes: keys of an event, keys
 * of its args, categories. */
#ifndef INGEST_TRACE_SCAN_WORDS_H
#define INGEST_TRACE_SCAN_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "wire/attributes.h"

enum trace_key {
    KEY_NONE,
    /* of an event */
    KEY_PHASE,
    KEY_NAME,
    KEY_CATEGORY,
    KEY_PID,
    KEY_TID,
    KEY_TIME,
    KEY_DURATION,
    KEY_ARGS,
    KEY_ID,
    KEY_SCOPE,
    KEY_BINDING,
    /* of an event or its args */
    KEY_FINISHED,
    /* of its args */
    KEY_CORRELATION,
    KEY_EXTERNAL_ID,
    KEY_DEVICE,
    KEY_STREAM,
    KEY_CONTEXT,
    KEY_BYTES,
    KEY_TOTAL_ALLOCATED,
    KEY_TOTAL_RESERVED,
    KEY_ADDRESS,
    KEY_DEVICE_TYPE,
    KEY_DEVICE_ID,
    KEY_GRID,
    KEY_BLOCK,
    KEY_REGISTERS,
    KEY_SHARED_MEMORY,
    KEY_OCCUPANCY,
    KEY_SEQUENCE,
    KEY_FORWARD_THREAD,
    KEY_SHAPES,
    KEY_TYPES,
    KEY_STACK,
    KEY_MODULE,
    KEY_PYTHON_ID,
    KEY_PYTHON_PARENT_ID,
    KEY_PYTHON_MODULE_ID,
    KEY_COLLECTIVE,
};

#define WORD_SLOTS     256u /* four times the words: chains are short */
#define WORD_BYTES_MAX 32u

struct word {
    uint64_t first; /* its first eight bytes, zeros behind a shorter one */
    uint32_t length;
    uint32_t value;                        /* 0: the slot is free */
    uint64_t rest[WORD_BYTES_MAX / 8 - 1]; /* eight bytes each, likewise */
};

struct words {
    struct word slots[WORD_SLOTS];
};

/* Adds a word of 1 to WORD_BYTES_MAX bytes. */
void words_add(struct words *words, const char *word, uint32_t value);
void words_add_keys(struct words *words);       /* enum trace_key */
void words_add_categories(struct words *words); /* enum trace_category */

/* The first eight bytes of a text that may be shorter; eight must be readable. */
ALWAYS_INLINE uint64_t words_first(const char *text, uint32_t length)
{
    uint64_t first;

    memcpy(&first, text, sizeof(first));
    return length >= 8 ? first : first & ((UINT64_C(1) << 8 * length) - 1);
}

ALWAYS_INLINE uint32_t words_slot(uint64_t first, uint32_t length)
{
    return (uint32_t)(((first ^ length) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Are the bytes behind the first eight those of the word? */
ALWAYS_INLINE bool words_rest_is(const struct word *word, const char *text,
                                 uint32_t length)
{
    for (uint32_t i = 0; i < WORD_BYTES_MAX / 8 - 1; i++) {
        if (length <= 8 * (i + 2))
            return words_first(text + 8 * (i + 1), length - 8 * (i + 1)) ==
                   word->rest[i];
        uint64_t bytes;

        memcpy(&bytes, text + 8 * (i + 1), sizeof(bytes));
        if (bytes != word->rest[i])
            return false;
    }
    return true;
}

/* The value of a word, 0 of any other text; eight bytes behind it must be readable. */
ALWAYS_INLINE uint32_t words_find(const struct words *words, const char *text,
                                  uint32_t length)
{
    uint64_t first = words_first(text, length);
    uint32_t slot = words_slot(first, length);

    for (; words->slots[slot].value != 0; slot = (slot + 1) % WORD_SLOTS) {
        const struct word *word = &words->slots[slot];

        if (word->first == first && word->length == length &&
            (length <= 8 || words_rest_is(word, text, length)))
            return word->value;
    }
    return 0;
}

#endif
