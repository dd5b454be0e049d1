/* Memory of the devices of one process: a point per step, the newest 16,384 one by one,
 * all of them as series; and the process's resident size, sampled by the collector. */
#ifndef AGGREGATE_MEMORY_H
#define AGGREGATE_MEMORY_H

#include <stdint.h>

#include "aggregate/memory_kept.h"
#include "aggregate/series.h"
#include "wire/event.h"

#define MEMORY_DEVICES 32u
#define MEMORY_OPS     16u
#define MEMORY_POINTS  16384u /* 2.1 MB per device */

/* What an allocator asked of the driver since the sample before. */
struct memory_driver {
    uint32_t known;            /* 0: nothing of it is, but for the failures */
    uint32_t got, given_back;  /* segments */
    uint32_t retries;          /* refused, and asked again */
    uint32_t ooms_known, ooms; /* refused for good */
    int32_t held;              /* segments now; -1 unknown */
    int64_t calls_ns;          /* that all this took */
};

struct memory_sample {
    uint64_t sequence; /* among the samples of all devices, from 1 */
    int64_t time_ns;
    int64_t allocated, reserved; /* reserved -1: unknown */
    int64_t peak, peak_time_ns;
    uint32_t peak_op;            /* text */
    uint32_t allocations, frees; /* since the sample before */
    uint32_t counted;            /* 0: allocations and bytes are not known */
    uint32_t failed; /* taken where an allocation failed, at no step's end */
    uint64_t bytes;  /* allocated since the sample before */
    struct memory_kept kept;
    struct memory_driver driver;
};

/* An op and the largest block that it allocated at once, in any recorded step. */
struct memory_op {
    uint32_t op; /* text */
    int64_t bytes;
};

struct memory_table {
    uint16_t device; /* EVENT_DEVICE() */
    uint32_t largest_count;
    struct memory_op
        largest[MEMORY_OPS]; /* the ops with the largest blocks; no order */
    struct memory_sample *ring;
    uint32_t capacity;
    uint64_t count;
    struct memory_sample run_peak; /* the sample with the highest peak of the run */
    int64_t total_bytes;           /* of the device; -1 unknown */
    /* From single allocations, until the next sample. */
    int64_t pending_peak, pending_peak_ns;
    uint64_t allocations, frees, bytes; /* of the run */
    bool partial; /* totals lack the allocator's calls of bare steps */
    struct memory_kept_sizes
        *sizes;           /* of the running step; NULL before an allocation */
    struct series series; /* allocated, reserved, peak */
};

struct memory {
    struct memory_table tables[MEMORY_DEVICES];
    uint32_t count;
    uint64_t refused;  /* samples of devices beyond the limit */
    uint64_t sequence; /* samples of all devices, since the start */
};

void memory_free(struct memory *memory);

/* EVENT_MEMORY with `more` EVENT_MORE records behind it; EVENT_ALLOC. */
void memory_fold(struct memory *memory, const struct event *events, uint32_t more);
void memory_fold_alloc(struct memory *memory, const struct event *event);

uint32_t memory_remembered(const struct memory_table *table);
const struct memory_sample *memory_at(const struct memory_table *table, uint32_t i);

/* Index of the first remembered sample at or after `time_ns`. */
uint32_t memory_after(const struct memory_table *table, int64_t time_ns);

#endif
