/* Self time on one thread. Ranges arrive when they end, children before parents: what
 * began inside a range that ends now, and has no parent yet, is its child. */
#ifndef AGGREGATE_NEST_H
#define AGGREGATE_NEST_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

/* Siblings that wait for a parent; 256 KB. Of more (a compiled backward that calls each op
 * by itself, a thread that never closes an outer range) neighbours wait in groups, as if
 * they were one that began with the first: a parent that began within a group misses the
 * rest of it, of n siblings some 4 * n / NEST_MAX. */
#define NEST_MAX 16384u

struct nest_range {
    int64_t start_ns, duration_ns;
};

struct nest { /* zero: empty */
    uint32_t count, capacity;
    struct nest_range *waiting; /* owned */
    uint32_t *sizes, sized;     /* owned; of the first `sized`, which were once grouped */
};

/* Room for one more; false when out of memory. */
bool nest_make_room(struct nest *nest);
void nest_free(struct nest *nest);

/* Self time of a range that ends now. */
ALWAYS_INLINE int64_t nest_close(struct nest *nest, int64_t start_ns,
                                 int64_t duration_ns)
{
    int64_t self_ns = duration_ns;
    uint32_t count = nest->count;

    while (count > 0 && nest->waiting[count - 1].start_ns >= start_ns)
        self_ns -= nest->waiting[--count].duration_ns;
    nest->count = count;
    if (UNLIKELY(count == nest->capacity)) {
        if (!nest_make_room(nest))
            return self_ns > 0 ? self_ns : 0;
        count = nest->count;
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
