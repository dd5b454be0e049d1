/* Decimal text to integers, exactly: no double in between, whatever the number of digits.
 *
 * Each takes text that is followed by TRACE_SCAN_SLACK readable bytes, of which a NUL
 * ends every number, and returns where the number ended; NULL when there is none or it
 * does not fit. What stands behind it is the caller's to judge.
 */
#ifndef INGEST_TRACE_SCAN_NUMBER_H
#define INGEST_TRACE_SCAN_NUMBER_H

#include <stdint.h>
#include <string.h>

#include "wire/attributes.h"

/* Any number times 10^scale, rounded half away from zero. The slow and general way. */
const char *number_scaled(const char *text, int scale, int64_t *value);

/* For shares and rates; good to 15 digits. */
const char *number_real(const char *text, double *value);

/* How many of the first eight bytes are digits; their value. */
ALWAYS_INLINE unsigned number_digits(const char *text, uint64_t *value)
{
    const uint64_t low = UINT64_C(0x000000ff000000ff);
    uint64_t word;

    memcpy(&word, text, sizeof(word));
    word ^= UINT64_C(0x3030303030303030);
    /* Carries only run beyond the first byte that is no digit. */
    uint64_t other =
        ((word + UINT64_C(0x7676767676767676)) | word) & UINT64_C(0x8080808080808080);
    unsigned count = other == 0 ? 8 : (unsigned)__builtin_ctzll(other) / 8;

    if (count == 0) {
        *value = 0;
        return 0;
    }
    word <<= 64 - 8 * count; /* as if zeros stood before it */
    word = word * 10 + (word >> 8);
    word = ((word & low) * (100 + (UINT64_C(1000000) << 32)) +
            ((word >> 16) & low) * (1 + (UINT64_C(10000) << 32))) >>
           32;
    *value = (uint32_t)word;
    return count;
}

static const uint32_t number_powers[] = {1,      10,      100,      1000,     10000,
                                         100000, 1000000, 10000000, 100000000};

/* A whole number of up to 16 digits; any other goes the slow way. */
ALWAYS_INLINE const char *number_integer(const char *text, int64_t *value)
{
    const char *at = text + (*text == '-');
    uint64_t high, low = 0;
    unsigned count = number_digits(at, &high);

    at += count;
    if (count == 8) {
        count = number_digits(at, &low);
        high = high * number_powers[count] + low;
        at += count;
        count = count == 8 ? 0 : 8; /* there may be more of them */
    }
    if (UNLIKELY(count == 0 || *at == '.' || (*at | 0x20) == 'e'))
        return number_scaled(text, 0, value);
    *value = *text == '-' ? -(int64_t)high : (int64_t)high;
    return at;
}

/* us as decimal text to ns, rounded half away from zero. */
ALWAYS_INLINE const char *number_us_to_ns(const char *text, int64_t *ns)
{
    uint64_t high, low, part = 0;
    const char *at = text;
    unsigned count = number_digits(at, &high), digits = 3;

    at += count;
    if (count == 8) {
        unsigned more = number_digits(at, &low);

        high = high * number_powers[more] + low;
        at += more;
    }
    if (*at == '.') {
        digits = number_digits(at + 1, &part);
        at += 1 + digits;
    }
    /* Nothing before the point, signs, exponents, a long number, parts of a ns. */
    if (UNLIKELY(count == 0 || digits - 1 > 2 || (*at | 0x20) == 'e' ||
                 (unsigned)(*at - '0') < 10 || high >= INT64_MAX / 1000))
        return number_scaled(text, 3, ns);
    *ns = (int64_t)(high * 1000 + part * number_powers[3 - digits]);
    return at;
}

#endif
