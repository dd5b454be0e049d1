/* What rules read of all ops of a window, also of those that stand too low to be listed.
 * Names decide: libraries and torch call the same work the same. */
#ifndef QUERY_OPS_SUMS_H
#define QUERY_OPS_SUMS_H

#include "aggregate/ops.h"
#include "query/ops_query.h"

/* Adds a row, which is no overflow and has its numbers per step. */
void ops_sums_add(const struct op_row *row, struct ops_answer *answer);

/* After all rows, of a window of `steps` that shows a running job as it goes: checkpoints
 * that come seldom are judged by the distance between those of the run. */
void ops_sums_saving(const struct ops_saving *saving, double steps,
                     struct ops_answer *answer);

/* Kernels of several devices, those that run side by side and those that ran outside of the
 * steps together take longer than a device computes in a step, `compute_ns`: their sums, but
 * those of collectives, count as far as they fit into it. NaN: as they are. */
void ops_sums_fit(double compute_ns, struct ops_answer *answer);

#endif
