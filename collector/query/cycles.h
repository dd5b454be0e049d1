/* The price of what comes again and again, as a renewal with rewards: a mean extra time over
 * a mean distance. It is as sure as both of them are. That few of many steps have it makes
 * it no less sure: what comes at even distances is known after some of them.
 */
#ifndef QUERY_CYCLES_H
#define QUERY_CYCLES_H

#include <stdint.h>

#include "query/numbers.h"

/* All zero: none yet. */
struct cycles {
    struct numbers_series extras, gaps; /* ns; places from one to the next */
    uint32_t first_at, last_at;         /* places of the first and the last */
    uint32_t count;
};

/* The next one, with `ns` at a place behind all others; 0 where it has no extra time. */
void cycles_add(struct cycles *cycles, uint32_t at, double ns);

struct cycles_price {
    double ns_per_step;
    double error_ns; /* half of its 95 % interval; NaN of fewer than three */
    double steps;    /* over which they are spread */
};

/* Of one at least that come at even distances, among `places` of which those before the
 * first and behind the last belong to cycles that are not whole. The distance is no less
 * than so many among them allow: some that follow each other closely are not all. */
struct cycles_price cycles_even(const struct cycles *cycles, uint32_t places);

/* Of one at least at any distances: the places as they are, whose end goes on at their
 * beginning. */
struct cycles_price cycles_uneven(const struct cycles *cycles, uint32_t places);

#endif
