/* GPU time: each instant once, by use, and what an idle GPU waits for. */
#ifndef QUERY_GPU_QUERY_H
#define QUERY_GPU_QUERY_H

#include "aggregate/gpu.h"
#include "query/answer.h"
#include "query/hardware_query.h"

struct gpu_point {
    int64_t time_ns;
    double use_share[GPU_USES], idle_share[GPU_IDLES];
};

struct gpu_device {
    const char *device; /* "cuda:0" */
    const char *name;   /* as the driver says, "" unknown */
    double busy_ns;     /* in the window */
    double span_ns;     /* of the window, as far as it was watched: busy and idle */
    double overlap_ns;  /* compute beside communication */
    double all_use_ns[GPU_USES], all_idle_ns[GPU_IDLES]; /* in the window */
    double use_ns[GPU_USES], idle_ns[GPU_IDLES]; /* per step; NaN without steps */
    uint64_t works;     /* kernels, copies and memsets of the whole run */
    uint64_t uncounted; /* of them: without memory, or too late to be busy time */
    struct gpu_point *points;
    uint32_t point_count;
};

struct gpu_request {
    uint32_t points; /* 0 = 600 */
};

/* Without a source: no devices, and head.reason is the capability's own sentence. */
struct gpu_answer {
    struct answer head;
    struct gpu_device *devices;
    uint32_t device_count;
    uint64_t uncounted; /* work of devices beyond GPU_TABLES */
    struct hardware_answer hardware; /* of gpu_query() alone */
};

MUST_CHECK int gpu_query(struct store *store, const struct selection *selection,
                         const struct gpu_request *request, struct gpu_answer *answer);

/* Stream, as memory_since(). */
MUST_CHECK int gpu_since(struct store *store, const struct selection *selection,
                         uint64_t *cursor, uint32_t max, struct gpu_answer *answer);

#endif
