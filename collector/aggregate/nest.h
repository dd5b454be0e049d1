/* Self time on one thread. Ranges arrive when they end, children before parents: what
 * began inside a range that ends now, and has no parent yet, is its child. */
#ifndef AGGREGATE_NEST_H
#define AGGREGATE_NEST_H

#include <stdint.h>
#include <string.h>

#include "wire/attributes.h"

/* Siblings that wait for a parent. More are rare (a thread that never closes an outer
 * range) and lose their claim, oldest first. */
#define NEST_MAX 2048u

struct nest_range {
    int64_t start_ns, duration_ns;
};

struct nest {
    uint32_t count;
    struct nest_range *waiting; /* [NEST_MAX] */
    uint64_t forgotten;
};

/* Self time of a range that ends now. */
ALWAYS_INLINE int64_t nest_close(struct nest *nest, int64_t start_ns,
                                 int64_t duration_ns)
{
    int64_t self_ns = duration_ns;
    uint32_t count = nest->count;

    while (count > 0 && nest->waiting[count - 1].start_ns >= start_ns)
        self_ns -= nest->waiting[--count].duration_ns;
    if (UNLIKELY(count == NEST_MAX)) {
        memmove(nest->waiting, nest->waiting + NEST_MAX / 2,
                NEST_MAX / 2 * sizeof(nest->waiting[0]));
        nest->forgotten += NEST_MAX / 2;
        count = NEST_MAX / 2;
    }
    nest->waiting[count] =
        (struct nest_range){.start_ns = start_ns, .duration_ns = duration_ns};
    nest->count = count + 1;
    return self_ns > 0 ? self_ns : 0;
}

/* Nothing that ended so far has a parent to come: at a step's end, on its thread. */
ALWAYS_INLINE void nest_clear(struct nest *nest)
{
    nest->count = 0;
}

#endif
