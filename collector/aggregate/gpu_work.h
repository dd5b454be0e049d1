/* What a device was given in all that was recorded of the run: copies by direction, how
 * long work waited from its launch to its start, how busy each stream was. A part of gpu.c.
 *
 * The queue's mean depth is Little's law: waiting times summed, by the span's length.
 */
#ifndef AGGREGATE_GPU_WORK_H
#define AGGREGATE_GPU_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/histogram.h"

#define GPU_COPY_WAYS    6u  /* enum event_copy; 0: not told */
#define GPU_WORK_STREAMS 64u /* one by one; the others together */

/* The host's memory that is copied; inside of a device there is none. */
enum gpu_side {
    GPU_SIDE_PINNED, /* or none */
    GPU_SIDE_PAGEABLE,
    GPU_SIDE_UNKNOWN,
    GPU_COPY_SIDES,
};

struct gpu_moves {
    uint64_t count, bytes;
    int64_t ns;
    /* Of them those since the first step that was recorded, not what went before it, as
     * weights do. */
    uint64_t step_count, step_bytes;
    int64_t step_ns;
    uint64_t unsized; /* of all, those whose bytes are not known */
};

struct gpu_stream {
    uint32_t id;
    uint64_t works;
    int64_t busy_ns;  /* each instant once */
    int64_t until_ns; /* end of what was added last */
};

struct gpu_work {
    struct gpu_moves copies[GPU_COPY_WAYS][GPU_COPY_SIDES];
    struct gpu_moves memsets;
    /* Of work whose launch is known; of a graph's nodes the first that begins. */
    uint64_t delays;
    int64_t delay_ns, delay_max_ns; /* from the start of the launching call */
    uint64_t delay_cells[HISTOGRAM_CELLS];
    struct gpu_stream streams[GPU_WORK_STREAMS], other_streams;
    uint32_t stream_count;
};

struct gpu_item;

/* The item begins, as far as it is known now; INT64_MIN: its launch is not, or had begun
 * work before. `trains`: since the first step that was recorded. */
void gpu_work_begin(struct gpu_work *work, const struct gpu_item *item,
                    int64_t launched_ns, bool trains);

#endif
