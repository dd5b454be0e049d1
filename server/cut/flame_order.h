/* The paths of a tree of calls by their weight: each with all below it, and its children,
 * the largest first, as far as they are among the largest of all.
 *
 * A path weighs no less than what it calls, so who is shown has its callers shown.
 */
#ifndef CUT_FLAME_ORDER_H
#define CUT_FLAME_ORDER_H

#include "ingest/file/paths.h"

enum flame_metric { FLAME_CPU, FLAME_DEVICE };

struct flame_order {
    const struct file_paths *paths; /* borrowed */
    int64_t *total;                 /* ns of a path and all below */
    int64_t *sorted;                /* totals, the largest first */
    uint32_t *order;                /* paths by parent, the largest first */
    uint32_t *first, *next;         /* in `order`: of a path's children; behind the last
                                       that flame_order_next() gave */
    int64_t least;                  /* what has less is left out; at least 1 */
    uint32_t most, left_out; /* paths: at most so many; with time, and left out */
};

/* false without memory; flame_order_close() is owed in any case. */
MUST_CHECK bool flame_order_open(struct flame_order *order,
                                 const struct file_paths *paths, uint32_t most);
void flame_order_close(struct flame_order *order);

/* Totals and the order of children for one weight. */
void flame_order_weigh(struct flame_order *order, enum flame_metric metric);

/* The next child that is worth its place, the largest first; 0 none. */
uint32_t flame_order_next(struct flame_order *order, uint32_t path);

#endif
