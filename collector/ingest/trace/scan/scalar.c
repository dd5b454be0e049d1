/* The scan on any machine: eight bytes in one register. The one that the others are
 * compared with. */
#include "ingest/trace/scan/scan_block.h"

#define BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Bit n is set where byte n of `word` is 0. */
ALWAYS_INLINE uint64_t zero_bytes(uint64_t word)
{
    uint64_t low = (word & BYTES(0x7f)) + BYTES(0x7f);
    uint64_t zero = ~(low | word | BYTES(0x7f)); /* 0x80 in each zero byte */

    return zero * UINT64_C(0x02040810204081) >> 56;
}

ALWAYS_INLINE struct scan_bits classify(const char *block)
{
    struct scan_bits bits = {0, 0, 0};

    for (unsigned i = 0; i < 64; i += 8) {
        uint64_t word;

        memcpy(&word, block + i, sizeof(word));
        uint64_t folded = word | BYTES(0x20); /* [ ] and { } differ in this bit */

        bits.backslash |= zero_bytes(word ^ BYTES('\\')) << i;
        bits.quote |= zero_bytes(word ^ BYTES('"')) << i;
        bits.brace |=
            (zero_bytes(folded ^ BYTES('{')) | zero_bytes(folded ^ BYTES('}'))) << i;
    }
    return bits;
}

ALWAYS_INLINE uint64_t parity(uint64_t bits)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

uint32_t trace_scan_scalar(const char *text, uint32_t from, uint32_t to,
                           struct trace_scan_state *state, uint32_t *index)
{
    return scan_with((struct scan_way){classify, parity, scan_write_bits},
                     (struct scan_text){text, from, to}, state, index);
}
