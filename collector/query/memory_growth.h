/* What stays allocated between steps, and where it leads: memory_query's own. */
#ifndef QUERY_MEMORY_GROWTH_H
#define QUERY_MEMORY_GROWTH_H

#include "query/memory_query.h"

#define ENVELOPE_PARTS 24u

/* The lowest value of each part of the window, from the first part on that has one. */
struct envelope {
    double times[ENVELOPE_PARTS], lows[ENVELOPE_PARTS];
    uint32_t count;
    int64_t from_ns, to_ns; /* the window */
};

/* In the order of time. */
void envelope_add(struct envelope *envelope, int64_t time_ns, double value);

/* `left` bytes are free; NaN unknown. */
struct memory_growth envelope_growth(const struct envelope *envelope, double left);

#endif
