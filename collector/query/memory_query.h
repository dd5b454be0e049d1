/* Memory per device and of the host: now, over time, peaks, and where it leads. */
#ifndef QUERY_MEMORY_QUERY_H
#define QUERY_MEMORY_QUERY_H

#include "aggregate/memory_kept.h"
#include "query/answer.h"

#define MEMORY_PEAKS_LEAST 20u
#define MEMORY_PEAK_HIGH   1.2
#define MEMORY_PEAK_ALIKE  0.01

struct memory_point {
    int64_t time_ns;
    double allocated, reserved; /* bytes; highest of the point's stretch; NaN unknown */
};

/* What stays allocated between steps, over the window: its lower envelope. */
struct memory_growth {
    double slope_bytes_per_s, error_bytes_per_s; /* half of its 95 %; NaN: too short */
    bool sure; /* it grows, beyond what its noise explains */
    /* Until there is no room at this slope, and at the interval's ends: the highest step
     * of now meets the limit first. NaN unless it is sure; `latest` also where the lower
     * end of the slope does not grow. */
    double full_in_s, earliest_s, latest_s;
};

struct memory_largest {
    const char *op;
    double bytes;
};

struct memory_device {
    const char *device;                     /* "cpu", "cuda:0" */
    double allocated_bytes, reserved_bytes; /* newest; NaN unknown */
    double peak_bytes;                      /* in the window */
    bool partial; /* of these, what bare steps allocated and freed was not seen */
    int64_t peak_time_ns;
    int64_t peak_step;   /* NOT_KNOWN: in none that is remembered, or in validation */
    const char *peak_op; /* "" unknown */
    /* Of the peaks of single steps: their median and the lowest, how many lie over the
     * median by a fifth, and how many on either side of it by more than a hundredth; what
     * stayed allocated at the emptiest end of a step. NaN with fewer than
     * MEMORY_PEAKS_LEAST steps. */
    double usual_peak_bytes, least_peak_bytes, floor_bytes;
    uint32_t peaks, high_peaks, other_peaks;
    double total_bytes; /* of the device; NaN unknown */
    double
        usable_bytes; /* of them: not held outside of the allocator now, as far as told */
    double allocations_per_s, frees_per_s, bytes_per_s; /* in the window; NaN unknown */
    double allocations_per_step, bytes_per_step;
    /* What the allocator asked of the driver, in the window; NaN unknown. */
    double segments; /* that it holds now */
    /* Of them what is free, and cannot go back to the driver, for live blocks stand beside it:
     * as the allocator said last, once a second. NaN where it is not torch's own of CUDA. */
    double inactive_split_bytes;
    double segments_got, segments_given_back, retries, ooms;
    double driver_ns;         /* per step, in these calls */
    double driver_lasting_ns; /* in the half of the window that has less of it */
    struct memory_growth growth;
    /* Of the run's recorded steps: the largest block of an op, the largest first. */
    struct memory_largest *largest;
    uint32_t largest_count;
    /* Of the steps of the window that tell it, `kept_steps`: the size of block of which
     * most stays, how much in a mean step, and the ops that take such blocks; 0 where
     * nothing stays, or it may be anybody's. */
    double kept_block_bytes, kept_bytes_per_step;
    const char *kept_ops[MEMORY_KEPT_OPS];
    uint32_t kept_op_count, kept_steps;
    struct memory_point *points;
    uint32_t point_count;
};

struct memory_host {
    double rss_bytes;       /* of this process; NaN unknown */
    double job_bytes;       /* of all processes of the session together */
    double limit_bytes;     /* container's or machine's, whichever is lower */
    double used_bytes;      /* against that limit */
    const char *limit_name; /* "container" or "machine" */
    double shared_bytes, shared_used_bytes; /* of /dev/shm, live; NaN unknown */
    struct memory_growth growth;
    struct memory_point *points; /* allocated: rss of the process */
    uint32_t point_count;
};

struct memory_request {
    uint32_t points; /* per device, 0 = 600 */
};

struct memory_answer {
    struct answer head;
    struct memory_device *devices;
    uint32_t device_count;
    const char *unseen; /* why allocations of accelerators are not seen; "" they are */
    struct memory_host host;
};

MUST_CHECK int memory_query(struct store *store, const struct selection *selection,
                            const struct memory_request *request,
                            struct memory_answer *answer);

/* Stream: points after *cursor (0 = from the newest on) of all devices, at most `max`
 * of each; only device, allocated, reserved and points are filled, and the newest three
 * points of the host. */
MUST_CHECK int memory_since(struct store *store, const struct selection *selection,
                            uint64_t *cursor, uint32_t max,
                            struct memory_answer *answer);

#endif
