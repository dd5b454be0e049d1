/* The scan with AVX2 and carry-less multiplication. */
#include <immintrin.h>

#include "ingest/trace/scan/scan_block.h"

ALWAYS_INLINE uint64_t equal(__m256i low, __m256i high, char byte)
{
    __m256i bytes = _mm256_set1_epi8(byte);
    uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, bytes));
    uint32_t second = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, bytes));

    return first | (uint64_t)second << 32;
}

ALWAYS_INLINE struct scan_bits classify(const char *block)
{
    __m256i low = _mm256_loadu_si256((const __m256i_u *)block);
    __m256i high = _mm256_loadu_si256((const __m256i_u *)(block + 32));
    __m256i fold = _mm256_set1_epi8(0x20); /* [ ] and { } differ in this bit */
    struct scan_bits bits = {equal(low, high, '\\'), equal(low, high, '"'), 0};

    low = _mm256_or_si256(low, fold);
    high = _mm256_or_si256(high, fold);
    bits.brace = equal(low, high, '{') | equal(low, high, '}');
    return bits;
}

ALWAYS_INLINE uint64_t parity(uint64_t bits)
{
    __m128i sum = _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)bits),
                                       _mm_set1_epi8((char)0xff), 0);

    return (uint64_t)_mm_cvtsi128_si64(sum);
}

/* Eight entries at once: most blocks have no more. */
ALWAYS_INLINE void write_entries(uint64_t bits, uint32_t base, uint32_t *index)
{
    while (bits != 0) {
        for (int i = 0; i < 8; i++) { /* beyond the last bit: written over later */
            index[i] = base + (uint32_t)_tzcnt_u64(bits);
            bits = _blsr_u64(bits);
        }
        index += 8;
    }
}

uint32_t trace_scan_avx2(const char *text, uint32_t from, uint32_t to,
                         struct trace_scan_state *state, uint32_t *index)
{
    return scan_with((struct scan_way){classify, parity, write_entries},
                     (struct scan_text){text, from, to}, state, index);
}
