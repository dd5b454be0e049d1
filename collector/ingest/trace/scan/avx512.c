/* The scan with AVX-512: a block is one register, its entries one compression. */
#include <immintrin.h>

#include "ingest/trace/scan/scan_block.h"

ALWAYS_INLINE struct scan_bits classify(const char *block)
{
    __m512i bytes = _mm512_loadu_si512(block);
    /* [ ] and { } differ in this bit */
    __m512i folded = _mm512_or_si512(bytes, _mm512_set1_epi8(0x20));

    return (struct scan_bits){
        _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\\')),
        _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('"')),
        _mm512_cmpeq_epi8_mask(folded, _mm512_set1_epi8('{')) |
            _mm512_cmpeq_epi8_mask(folded, _mm512_set1_epi8('}')),
    };
}

ALWAYS_INLINE uint64_t parity(uint64_t bits)
{
    __m128i sum = _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)bits),
                                       _mm_set1_epi8((char)0xff), 0);

    return (uint64_t)_mm_cvtsi128_si64(sum);
}

ALWAYS_INLINE void write_entries(uint64_t bits, uint32_t base, uint32_t *index)
{
    const __m512i numbers =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48,
                        47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32,
                        31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
                        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i packed = _mm512_maskz_compress_epi8(bits, numbers);
    __m512i from = _mm512_set1_epi32((int)base);
    int count = __builtin_popcountll(bits);

    /* Few blocks have more than sixteen. */
    _mm512_storeu_si512(
        index,
        _mm512_add_epi32(from, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed))));
    if (UNLIKELY(count > 16))
        _mm512_storeu_si512(
            index + 16,
            _mm512_add_epi32(
                from, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 1))));
    if (UNLIKELY(count > 32)) {
        _mm512_storeu_si512(
            index + 32,
            _mm512_add_epi32(
                from, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 2))));
        _mm512_storeu_si512(
            index + 48,
            _mm512_add_epi32(
                from, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 3))));
    }
}

uint32_t trace_scan_avx512(const char *text, uint32_t from, uint32_t to,
                           struct trace_scan_state *state, uint32_t *index)
{
    return scan_with((struct scan_way){classify, parity, write_entries},
                     (struct scan_text){text, from, to}, state, index);
}
