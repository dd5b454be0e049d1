/* Where a device's time went, over time: buckets of the whole run, which double in width
 * when it outgrows them, and the newest minutes in buckets of GPU_RECENT_NS. */
#ifndef AGGREGATE_GPU_BUCKETS_H
#define AGGREGATE_GPU_BUCKETS_H

#include "aggregate/gpu_state.h"

/* Bucket i is [gpu->from_ns + i * width_ns, gpu->from_ns + (i + 1) * width_ns). */
struct gpu_buckets {
    int64_t width_ns, first, end; /* those that are there: [first, end) */
    const struct gpu_cell *cells; /* of the table; bucket i at i % count */
    int64_t count;
};

void gpu_cell_add(struct gpu_cell *to, const struct gpu_cell *from);

/* To one of a cell's sums, by its place in it: offsetof. */
void gpu_cell_add_ns(struct gpu_cell *cell, size_t place, int64_t ns);

/* Adds the span to the sum at `place` of gpu_cell in each bucket that it lies in. */
void gpu_buckets_add(struct gpu *gpu, struct gpu_table *table, size_t place,
                     const struct gpu_span *span);

/* The finest that reach back to `since_ns`, or to the start of the span. */
struct gpu_buckets gpu_buckets_since(const struct gpu *gpu,
                                     const struct gpu_table *table, int64_t since_ns);

const struct gpu_cell *gpu_bucket(const struct gpu_buckets *buckets, int64_t i);

/* Width of the newest buckets, on all devices. */
int64_t gpu_newest_bucket_ns(const struct gpu *gpu);

/* Sum over [range[0], range[1]), to the width of a bucket at its edges; empty where the
 * middle of no bucket lies in it. */
void gpu_sum_time(const struct gpu *gpu, const struct gpu_table *table,
                  const int64_t range[2], struct gpu_cell *sum);

#endif
