/* What the implementations of scan.h share: 64 bytes at a time, once they are bitmaps.
 * Each gives its way to classify, to sum bits up and to write entries, all inlined. */
#ifndef INGEST_TRACE_SCAN_SCAN_BLOCK_H
#define INGEST_TRACE_SCAN_SCAN_BLOCK_H

#include <string.h>

#include "ingest/trace/scan/scan.h"

/* Bit n says what byte n is. */
struct scan_bits {
    uint64_t backslash, quote, brace;
};

typedef struct scan_bits scan_classify(const char *block);
/* Bit n of the result is the parity of bits 0..n. */
typedef uint64_t scan_parity(uint64_t bits);
/* Writes base + n for each bit n; may write TRACE_SCAN_SLACK entries. */
typedef void scan_write(uint64_t bits, uint32_t base, uint32_t *index);

struct scan_way {
    scan_classify *classify;
    scan_parity *parity;
    scan_write *write;
};

struct scan_text {
    const char *bytes;
    uint32_t from, to;
};

/* Which bytes stand behind an odd run of backslashes; `carry` as in the state. */
ALWAYS_INLINE uint64_t scan_escaped(uint64_t backslash, uint64_t *carry)
{
    const uint64_t even = UINT64_C(0x5555555555555555);

    if (LIKELY(backslash == 0)) {
        uint64_t escaped = *carry;

        *carry = 0;
        return escaped;
    }
    backslash &= ~*carry; /* an escaped backslash escapes nothing */
    uint64_t behind = backslash << 1 | *carry;
    uint64_t odd_starts = backslash & ~even & ~behind, ends;

    /* Adding the starts carries each run to the bit behind it. */
    *carry = __builtin_add_overflow(odd_starts, backslash, &ends);
    return (even ^ ends << 1) & behind;
}

ALWAYS_INLINE uint32_t scan_with(struct scan_way way, struct scan_text text,
                                 struct trace_scan_state *state, uint32_t *index)
{
    uint32_t count = 0;
    uint64_t in_string = state->in_string, carry = state->escaped;

    for (uint32_t at = text.from; at < text.to; at += 64) {
        struct scan_bits bits = way.classify(text.bytes + at);
        uint32_t left = text.to - at;

        if (UNLIKELY(left < 64)) {
            uint64_t within = (UINT64_C(1) << left) - 1;

            bits.backslash &= within;
            bits.quote &= within;
            bits.brace &= within;
        }
        uint64_t escaped = scan_escaped(bits.backslash, &carry);
        uint64_t quotes = bits.quote & ~escaped;
        uint64_t inside = way.parity(quotes) ^ in_string;

        if (UNLIKELY(left < 64))
            carry = escaped >> left & 1;
        in_string = (uint64_t)((int64_t)inside >> 63);
        uint64_t entries = quotes | (bits.brace & ~inside);

        way.write(entries, at, index + count);
        count += (uint32_t)__builtin_popcountll(entries);
    }
    state->in_string = in_string;
    state->escaped = carry;
    return count;
}

/* Without vectors: eight entries at once, as most blocks have no more than sixteen. */
ALWAYS_INLINE void scan_write_bits(uint64_t bits, uint32_t base, uint32_t *index)
{
    while (bits != 0) {
        for (int i = 0; i < 8; i++) { /* beyond the last bit: written over later */
            index[i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
            bits &= bits - (bits != 0);
        }
        index += 8;
    }
}

#endif
