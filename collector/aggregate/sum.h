/* Sums of lengths that another process wrote: any number of any lengths adds up to no
 * more than SUM_MAX_NS, so that a hostile job spoils its own figures and nothing else. */
#ifndef AGGREGATE_SUM_H
#define AGGREGATE_SUM_H

#include <stdint.h>

#include "wire/attributes.h"

/* 36 years; two of them still add up. */
#define SUM_MAX_NS ((int64_t)1 << 60)

ALWAYS_INLINE int64_t sum_ns(int64_t sum, int64_t more)
{
    int64_t whole;

    if (UNLIKELY(__builtin_add_overflow(sum, more, &whole)))
        return more > 0 ? SUM_MAX_NS : -SUM_MAX_NS;
    return whole > SUM_MAX_NS ? SUM_MAX_NS : whole < -SUM_MAX_NS ? -SUM_MAX_NS : whole;
}

/* A time, so much later: of any two numbers, at most the last that there is. */
ALWAYS_INLINE int64_t time_after(int64_t time_ns, int64_t length_ns)
{
    int64_t later;

    if (UNLIKELY(__builtin_add_overflow(time_ns, length_ns, &later)))
        return length_ns > 0 ? INT64_MAX : INT64_MIN;
    return later;
}

#endif
