/* What the host did, for the causes of idle time; a part of gpu.c. */
#ifndef AGGREGATE_GPU_HOST_H
#define AGGREGATE_GPU_HOST_H

#include "aggregate/gpu_state.h"

/* What a name says. */
#define GPU_NAME_KNOWN         128u
#define GPU_NAME_COMMUNICATION 64u         /* of a kernel */
#define GPU_NAME_CALL(use)     ((use)&48u) /* one of these three: */
#define GPU_NAME_LAUNCHES      16u
#define GPU_NAME_CAPTURES      32u        /* begins to capture a graph */
#define GPU_NAME_CAPTURED      48u        /* and ends it */
#define GPU_NAME_SETS_UP       8u         /* a call that does, where it takes long */
#define GPU_NAME_HOST(use)     ((use)&7u) /* enum gpu_host of a call or op */

/* With GPU_NAME_KNOWN, by the name alone; any thread. */
uint8_t gpu_name_classify(const char *text);
uint8_t gpu_name_use(struct gpu *gpu, const struct texts *texts, uint32_t text);

/* A call of that class that lasts as long makes a context or streams, or loads what it
 * launches. */
bool gpu_name_sets_up(uint8_t use, double ns);

/* The host was in `kind` for that time. */
void gpu_host_add(struct gpu *gpu, enum gpu_host kind, int64_t start_ns,
                  int64_t end_ns);

/* What came joins what is known; what ended before every cursor is forgotten. */
void gpu_host_settle(struct gpu *gpu);
void gpu_host_forget(struct gpu *gpu, int64_t before_ns);

/* A call that launches work. */
void gpu_launch_add(struct gpu *gpu, const struct gpu_launch *launch);

/* The newest with that correlation; NULL: it is not known. */
struct gpu_launch *gpu_launch_find(const struct gpu *gpu, uint64_t correlation);

/* When the call began that launched it; INT64_MIN unknown. */
int64_t gpu_launched_ns(const struct gpu *gpu, uint64_t correlation);

/* The same for the first work of a launch that begins: of a graph's other nodes
 * INT64_MIN. */
int64_t gpu_launch_begin(struct gpu *gpu, uint64_t correlation);

struct gpu_cause {
    enum gpu_idle idle;
    int64_t until_ns; /* from here on the gap has a cause of its own */
};

/* For at least half of it the training thread did. */
bool gpu_waits_for_data(const struct gpu *gpu, const struct gpu_span *gap);

/* What the host did in a gap in which no work was queued. */
struct gpu_cause gpu_cause(const struct gpu *gpu, const struct gpu_span *gap);

#endif
