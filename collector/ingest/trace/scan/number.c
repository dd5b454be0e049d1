#include "ingest/trace/scan/number.h"

#include <stdbool.h>

/* A number of any length: where its digits are, and by what power of ten they count. */
struct decimal {
    const char *digits; /* the first that is not 0 */
    const char *end;    /* behind the last digit or the point */
    int64_t point;      /* digits before the point, counted from `digits` */
    int64_t exponent;
    bool negative;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Exponents beyond this make any number that fits in memory 0 or too large. */
#define EXPONENT_MAX 100000000

static const char *read_exponent(const char *at, int64_t *exponent)
{
    const char *digits = at + 1;
    bool negative = *digits == '-';

    *exponent = 0;
    digits += *digits == '-' || *digits == '+';
    if (!is_digit(*digits))
        return NULL;
    for (at = digits; is_digit(*at); at++)
        if (*exponent < EXPONENT_MAX)
            *exponent = *exponent * 10 + (*at - '0');
    if (negative)
        *exponent = -*exponent;
    return at;
}

/* Where the number ends; NULL when there is none. */
static const char *read_decimal(const char *text, struct decimal *decimal)
{
    const char *at = text + (*text == '-' || *text == '+'), *point = NULL,
               *first = NULL;
    int64_t digits = 0;

    decimal->negative = *text == '-';
    for (; is_digit(*at) || (*at == '.' && point == NULL); at++) {
        if (*at == '.') {
            point = at;
            continue;
        }
        digits++;
        if (first == NULL && *at != '0')
            first = at;
    }
    if (digits == 0)
        return NULL;
    decimal->end = at;
    decimal->digits = first == NULL ? at : first;
    if (point == NULL)
        point = at;
    /* The point is no digit: it counts where it stands between. */
    decimal->point = point - decimal->digits + (point < decimal->digits);
    decimal->exponent = 0;
    return (*at | 0x20) == 'e' ? read_exponent(at, &decimal->exponent) : at;
}

const char *number_scaled(const char *text, int scale, int64_t *value)
{
    struct decimal decimal;
    const char *end = read_decimal(text, &decimal), *at;
    uint64_t sum = 0;

    if (end == NULL)
        return NULL;
    int64_t whole = decimal.point + decimal.exponent + scale; /* digits that count */

    at = decimal.digits;
    for (int64_t i = 0; i < whole; i++) {
        at += *at == '.' && at < decimal.end;
        unsigned digit = at < decimal.end ? (unsigned)(*at++ - '0') : 0;

        if (sum == 0 && at >= decimal.end && digit == 0)
            break; /* a zero with a large exponent */
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, digit, &sum) || sum > INT64_MAX)
            return NULL;
    }
    at += at < decimal.end && *at == '.';
    if (whole >= 0 && at < decimal.end && *at >= '5')
        sum++;
    if (sum > INT64_MAX)
        return NULL;
    *value = decimal.negative ? -(int64_t)sum : (int64_t)sum;
    return end;
}

const char *number_real(const char *text, double *value)
{
    struct decimal decimal;
    const char *end = read_decimal(text, &decimal), *at;
    double sum = 0;
    int taken = 0;

    if (end == NULL)
        return NULL;
    for (at = decimal.digits; at < decimal.end && taken < 18; at++) {
        if (*at == '.')
            continue;
        sum = sum * 10 + (*at - '0');
        taken++;
    }
    int64_t power = decimal.point + decimal.exponent - taken;

    if (power > 310 || (sum > 0 && power < -330))
        power = power > 310 ? 310 : -330;
    for (; power > 0; power--)
        sum *= 10;
    for (; power < 0; power++)
        sum /= 10;
    if (!(sum <= 1e300))
        return NULL;
    *value = decimal.negative ? -sum : sum;
    return end;
}
