/* Whether a device computes longer and longer for the same steps. */
#ifndef QUERY_GPU_DRIFT_H
#define QUERY_GPU_DRIFT_H

#include "query/gpu_query.h"

/* Fills compute_first_ns and compute_last_ns from the steps in [range[0], range[1]).
 * Returns 0, or -ENOMEM. */
MUST_CHECK int gpu_drift(struct arena *arena, const struct gpu *gpu,
                         const struct gpu_table *table, const int64_t range[2],
                         struct gpu_device *device);

#endif
