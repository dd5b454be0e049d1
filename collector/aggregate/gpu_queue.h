/* What waits in a device's queue while the device is idle; a part of gpu.c.
 *
 * From the return of the call that launched it on, work waits for the device and no longer
 * for the host: whatever the host does then is not why the device is idle. Nor is it known to
 * be idle at all behind a launch whose work was not recorded. In a recording with launches,
 * work whose own launch is missing may have been queued during the whole gap before it. */
#ifndef AGGREGATE_GPU_QUEUE_H
#define AGGREGATE_GPU_QUEUE_H

#include "aggregate/gpu_state.h"

/* The items behind the gap, by their starts; none at the end of the span. */
struct gpu_ahead {
    const struct gpu_item *items;
    uint32_t count;
};

struct gpu_queued {
    int64_t from_ns;    /* up to here the gap is the host's; its end: all of it */
    enum gpu_idle idle; /* from there on */
    bool queued;        /* GPU_IDLE_LAUNCH: the device's own moment */
};

struct gpu_queued gpu_queue_find(const struct gpu *gpu, const struct gpu_table *table,
                                 const struct gpu_span *gap,
                                 const struct gpu_ahead *ahead);

/* Launches of a file without their work; sorted here. False when out of memory. */
MUST_CHECK bool gpu_queue_lose(struct gpu *gpu, const struct gpu_span *calls,
                               uint32_t count);

#endif
