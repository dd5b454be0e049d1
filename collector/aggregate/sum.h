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

#endif
