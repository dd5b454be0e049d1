/* Gaps and work of a device become final: what each instant of it was, in all and by step. */
#ifndef AGGREGATE_GPU_TIME_H
#define AGGREGATE_GPU_TIME_H

#include "aggregate/gpu_state.h"

/* Gaps up to `until_ns`, with what is known of the host by now. */
void gpu_settle_all(struct gpu *gpu, int64_t until_ns);

/* All that began before `until_ns` has come, but for what the host does: of that, what
 * lasts no more than host_late_ns may still come. */
void gpu_settle(struct gpu *gpu, int64_t until_ns);

/* The span ends: what is left becomes final. */
void gpu_finish(struct gpu *gpu, int64_t to_ns);

int64_t gpu_busy_ns(const struct gpu_cell *cell);
int64_t gpu_idle_ns(const struct gpu_cell *cell);

/* The first remembered step that ends after `since_ns`; step_count where none does. */
uint64_t gpu_step_after(const struct gpu *gpu, int64_t since_ns);

/* The first step that the ring still holds, of step_count. */
uint64_t gpu_oldest_step(const struct gpu *gpu);

/* Is the i-th step known from its first to its last instant? Its end may not be told yet,
 * and at its start the device may have been busy with what was launched unrecorded. */
bool gpu_knows_step(const struct gpu *gpu, const struct gpu_table *table, uint64_t i);

/* Is that step known of all devices, or of one and the others are silent? Also where there
 * is none; not where it is no longer remembered, or was not recorded. */
bool gpu_knows_all(const struct gpu *gpu, int64_t start_ns);

/* Of the run, those recorded_steps of which all is final. */
uint64_t gpu_settled_steps(const struct gpu *gpu);

/* Remembered steps that lie in [range[0], range[1]], known or not. */
uint64_t gpu_steps_in(const struct gpu *gpu, const int64_t range[2]);

/* Sum over remembered steps that lie in [range[0], range[1]] and whose work is known, and
 * how many. */
uint64_t gpu_sum_steps(const struct gpu *gpu, const struct gpu_table *table,
                       const int64_t range[2], struct gpu_cell *sum);

#endif
