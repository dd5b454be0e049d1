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

struct gpu_run_copies {     /* of one direction */
    uint32_t way;           /* enum event_copy; 0 not told */
    bool pageable, unknown; /* the host's memory; unknown: it may be either */
    bool unsized;           /* the bytes of some are not known */
    uint64_t count, bytes;
    double ns, bytes_per_s;
    /* Of these, since the first step that was recorded. */
    uint64_t step_count;
    double step_bytes, step_ns;
};

struct gpu_run_stream {
    uint32_t id;
    uint64_t works;
    double busy_ns;
};

/* What the device was given in all that was recorded of the run: amounts are not scaled
 * to the other steps. NaN where nothing tells. */
struct gpu_run {
    uint64_t steps;                /* for training, of the run */
    uint64_t recorded_steps;       /* of them: all work of them was recorded */
    struct gpu_run_copies *copies; /* those that there were */
    uint32_t copy_count;
    uint64_t memset_count, memset_bytes;
    bool memset_unsized; /* as of copies */
    double memset_ns, memset_step_ns;
    /* From the start of the launching call to the start of the work. */
    uint64_t delays;
    double delay_mean_ns, delay_p50_ns, delay_p95_ns, delay_p99_ns, delay_max_ns;
    double queue_depth;             /* launched and not begun, mean over time */
    struct gpu_run_stream *streams; /* busiest first */
    /* That a file has for numbers from GPU_STREAM_LABELS on; GPU_STREAM_ADDRESSES. */
    const uint64_t *stream_addresses;
    uint32_t stream_count;
    uint64_t streams_not_shown_works;
    double streams_busy; /* while it is busy, mean */
};

struct gpu_device {
    const char *device; /* "cuda:0" */
    const char *name;   /* as the driver says, "" unknown */
    double busy_ns;     /* in the window; NaN where none of its time is known */
    double span_ns;     /* of the window, as far as it was watched: busy and idle */
    double overlap_ns;  /* compute beside communication */
    double all_use_ns[GPU_USES], all_idle_ns[GPU_IDLES]; /* in the window */
    /* Of an average step, weighed by the steps around it (gpu_means.c); NaN where of none
     * the work is known. */
    double use_ns[GPU_USES], idle_ns[GPU_IDLES];
    double queued_ns; /* likewise, of GPU_IDLE_LAUNCH: launched before the gap began */
    double data_ns;   /* likewise, of the host: phase data; NaN unknown */
    uint64_t known_steps;  /* of the window, from their first to their last instant */
    uint64_t behind_steps; /* recorded, while the device worked off what was not */
    /* Of how many of them busy_ns, span_ns and all_*_ns are the sums; NOT_KNOWN: of all
     * time in the window in which work was recorded. */
    int64_t summed_steps;
    const char *reason; /* why none is known though some were recorded; else "" */
    /* Compute per step at both ends of the window, where it surely grew; else NaN. */
    double compute_first_ns, compute_last_ns;
    uint64_t works; /* kernels, copies and memsets that came, in whole steps or not */
    uint64_t uncounted; /* of them: without memory, or too late to be busy time */
    struct gpu_run run;
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
    /* What it says of an average step is of other steps than the head's. */
    bool of_others;
    uint64_t uncounted;              /* work of devices beyond GPU_TABLES */
    uint64_t lost_launches;          /* of a file: those whose work is not in it */
    struct hardware_answer hardware; /* of gpu_query() alone */
};

/* In an average step; NaN unknown. */
double gpu_device_busy_ns(const struct gpu_device *device);

/* The device that works most per step, among equals the first. A rank works on one: of the
 * others, which it touched at most, the idle time is no loss. NULL where no step tells. */
const struct gpu_device *gpu_busiest(const struct gpu_answer *answer);

MUST_CHECK int gpu_query(struct store *store, const struct selection *selection,
                         const struct gpu_request *request, struct gpu_answer *answer);

/* Stream, as memory_since(). */
MUST_CHECK int gpu_since(struct store *store, const struct selection *selection,
                         uint64_t *cursor, uint32_t max, struct gpu_answer *answer);

#endif
