/* A hash table of spellings, each with the id of the text that it stands for:
 *
 *     a\/b  ──▶ 7        spelled with an escape: found only among JSON's spellings
 *     a/b   ──▶ 7 ◀── 7  what it means; as it needs no escape also a spelling itself
 *
 * So a text is cleaned when it is first seen, and afterwards found by its raw bytes.
 */
#define XXH_INLINE_ALL
#include "ingest/trace/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ingest/trace/grow.h"
#include "ingest/trace/scan/text.h"

#define CHUNK_BYTES ((size_t)256 * 1024)
/* A spelling that is longer is cleaned each time that it comes. */
#define RAW_BYTES_MAX (2 * TRACE_NAME_BYTES_MAX)
#define SPELLED       1 /* found as bytes of a file */
#define MEANT         2 /* found as a text */

struct spelling {
    const char *bytes;
    uint32_t length, hash;
    uint32_t id;
    uint8_t use; /* SPELLED, MEANT */
};

struct text {
    const char *bytes;
    uint32_t length;
};

struct chunk {
    struct chunk *older;
    size_t used, size;
    char bytes[];
};

struct trace_names {
    struct spelling *spellings;
    struct text *texts;
    uint32_t *slots; /* index of a spelling + 1; 0 = free */
    uint32_t mask;
    uint32_t spelling_count, spelling_room, text_count, text_room;
    size_t bytes;
    struct chunk *chunks;
};

static char *reserve(struct trace_names *names, size_t size)
{
    struct chunk *chunk = names->chunks;

    if (names->bytes > TRACE_NAMES_BYTES_MAX - size)
        return NULL;
    if (chunk == NULL || size > chunk->size - chunk->used) {
        chunk = malloc(sizeof(*chunk) + CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        *chunk = (struct chunk){.older = names->chunks, .size = CHUNK_BYTES};
        names->chunks = chunk;
    }
    char *bytes = chunk->bytes + chunk->used;

    chunk->used += size;
    names->bytes += size;
    return bytes;
}

static uint32_t hash_of(const char *bytes, size_t length)
{
    return (uint32_t)XXH3_64bits(bytes, length);
}

static struct spelling *find(const struct trace_names *names, const char *bytes,
                             uint32_t length, uint8_t use)
{
    uint32_t hash = hash_of(bytes, length);

    for (uint32_t slot = hash & names->mask; names->slots[slot] != 0;
         slot = (slot + 1) & names->mask) {
        struct spelling *found = &names->spellings[names->slots[slot] - 1];

        if (found->hash == hash && found->length == length && (found->use & use) != 0 &&
            memcmp(found->bytes, bytes, length) == 0)
            return found;
    }
    return NULL;
}

static void place(struct trace_names *names, uint32_t spelling)
{
    uint32_t slot = names->spellings[spelling].hash & names->mask;

    while (names->slots[slot] != 0)
        slot = (slot + 1) & names->mask;
    names->slots[slot] = spelling + 1;
}

static bool grow_slots(struct trace_names *names)
{
    uint32_t mask = names->mask * 2 + 1;
    uint32_t *slots = calloc((size_t)mask + 1, sizeof(*slots));

    if (slots == NULL)
        return false;
    free(names->slots);
    names->slots = slots;
    names->mask = mask;
    for (uint32_t i = 0; i < names->spelling_count; i++)
        place(names, i);
    return true;
}

/* `bytes` are kept by the caller for as long as the names live. */
static bool add_spelling(struct trace_names *names, struct spelling spelling)
{
    if (!grow_array(&names->spellings, names->spelling_count, &names->spelling_room,
                    1024, sizeof(*names->spellings)))
        return false;
    if (names->spelling_count >= names->mask / 2 && !grow_slots(names))
        return false;
    spelling.hash = hash_of(spelling.bytes, spelling.length);
    names->spellings[names->spelling_count] = spelling;
    place(names, names->spelling_count++);
    return true;
}

/* A new text; TRACE_NAMES_OTHER when there is no room. */
static uint32_t add_text(struct trace_names *names, const char *clean, uint32_t length)
{
    if (names->text_count >= TRACE_NAMES_MAX ||
        !grow_array(&names->texts, names->text_count, &names->text_room, 1024,
                    sizeof(*names->texts)))
        return TRACE_NAMES_OTHER;
    char *bytes = reserve(names, length + 1u);

    if (bytes == NULL)
        return TRACE_NAMES_OTHER;
    memcpy(bytes, clean, length);
    bytes[length] = '\0';
    uint8_t use = memchr(clean, '\\', length) == NULL ? MEANT | SPELLED : MEANT;
    struct spelling spelling = {
        .bytes = bytes, .length = length, .id = names->text_count, .use = use};

    if (!add_spelling(names, spelling))
        return TRACE_NAMES_OTHER;
    names->texts[names->text_count] = (struct text){bytes, length};
    return names->text_count++;
}

struct trace_names *trace_names_new(void)
{
    struct trace_names *names = calloc(1, sizeof(*names));

    if (names == NULL)
        return NULL;
    names->mask = 4095;
    names->slots = calloc(names->mask + 1, sizeof(*names->slots));
    if (names->slots == NULL || add_text(names, "", 0) != TRACE_NAMES_NONE ||
        add_text(names, "(other)", 7) != TRACE_NAMES_OTHER || names->text_count != 2) {
        trace_names_free(names);
        return NULL;
    }
    return names;
}

void trace_names_free(struct trace_names *names)
{
    if (names == NULL)
        return;
    while (names->chunks != NULL) {
        struct chunk *older = names->chunks->older;

        free(names->chunks);
        names->chunks = older;
    }
    free(names->spellings);
    free(names->texts);
    free(names->slots);
    free(names);
}

static uint32_t intern_new(struct trace_names *names, const char *json, size_t length)
{
    char clean[TRACE_NAME_BYTES_MAX + 1], *bytes;
    uint32_t clean_length = text_unescape(json, length, clean, sizeof(clean));
    const struct spelling *found = find(names, clean, clean_length, MEANT);
    uint32_t id = found != NULL ? found->id : add_text(names, clean, clean_length);

    /* Remembers that these raw bytes stand for it; without room it is found the slow way
     * each time. */
    if (id != TRACE_NAMES_OTHER &&
        (clean_length != length || memcmp(clean, json, length) != 0) &&
        names->spelling_count < 2 * TRACE_NAMES_MAX &&
        (uint32_t)length <= RAW_BYTES_MAX &&
        (bytes = reserve(names, (uint32_t)length)) != NULL) {
        memcpy(bytes, json, (uint32_t)length);
        (void)add_spelling(names, (struct spelling){.bytes = bytes,
                                                    .length = (uint32_t)length,
                                                    .id = id,
                                                    .use = SPELLED});
    }
    return id;
}

uint32_t trace_names_intern(struct trace_names *names, const char *json, size_t length)
{
    const struct spelling *found = find(names, json, (uint32_t)length, SPELLED);

    return LIKELY(found != NULL) ? found->id : intern_new(names, json, length);
}

const char *trace_names_get(const struct trace_names *names, uint32_t id,
                            uint32_t *length)
{
    const struct text *text =
        &names->texts[id < names->text_count ? id : TRACE_NAMES_NONE];

    if (length != NULL)
        *length = text->length;
    return text->bytes;
}

uint32_t trace_names_count(const struct trace_names *names)
{
    return names->text_count;
}

bool trace_names_number(const struct trace_names *names, uint32_t id, int64_t *number)
{
    uint32_t length;
    const char *text = trace_names_get(names, id, &length), *at = text;
    uint64_t sum = 0;

    at += *at == '-';
    if (length > 19 || at == text + length)
        return false;
    for (; *at >= '0' && *at <= '9'; at++)
        sum = sum * 10 + (uint64_t)(*at - '0');
    if (at != text + length || sum > INT64_MAX)
        return false;
    *number = *text == '-' ? -(int64_t)sum : (int64_t)sum;
    return true;
}
