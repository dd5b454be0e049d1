/* Events of one process become work of its devices, launches and what its host did.
 *
 * Wire events come in with stamps in ns and names as texts, in any order, as long as
 * all that began before `until` came before gpu_settle(until). Collector's thread only.
 */
#ifndef AGGREGATE_GPU_H
#define AGGREGATE_GPU_H

#include "aggregate/gpu_state.h"
#include "aggregate/gpu_time.h"

void gpu_init(struct gpu *gpu);
void gpu_free(struct gpu *gpu);

/* The span begins here, unless a part of it is final already; and this device is in it
 * although it has not worked yet. */
void gpu_begin(struct gpu *gpu, int64_t from_ns);
struct gpu_table *gpu_device(struct gpu *gpu, uint16_t device);

/* A step, before what came in it is settled: whether work was recorded in it. Also while
 * no device is known. A long one may be told ahead, and comes again when it has ended. */
void gpu_fold_step(struct gpu *gpu, const struct event *event);

/* Work of [since_ns, until_ns] was lost: steps that reach into it were not recorded. */
uint64_t gpu_lose(struct gpu *gpu, int64_t since_ns, int64_t until_ns);

/* Events of one thread; those of other kinds are passed over. */
void gpu_fold(struct gpu *gpu, const struct texts *texts, const struct event *events,
              uint32_t count);

/* A call, op or range of the host before its time: events come when they end, and what
 * lasts long may end when gaps in it were settled. It may come again in its place. */
void gpu_fold_ahead(struct gpu *gpu, const struct texts *texts,
                    const struct event *event);

/* The table of a device; NULL when there is none. */
const struct gpu_table *gpu_find(const struct gpu *gpu, uint16_t device);

#endif
