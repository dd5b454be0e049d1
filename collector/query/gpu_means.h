/* What a device does in an average step of the window. */
#ifndef QUERY_GPU_MEANS_H
#define QUERY_GPU_MEANS_H

#include "query/gpu_query.h"
#include "query/pick.h"

/* Fills use_ns and idle_ns, on how many steps they stand, and why on none. 0 or -ENOMEM. */
MUST_CHECK int gpu_means(const struct pick *pick, const struct gpu_table *table,
                         struct gpu_device *device);

/* Why of no step the work is known though it was recorded; "" that cannot be said. */
const char *gpu_why_unknown(const struct process *process);

#endif
