/* What the next step records: the one place where that is decided, and where its cost
 * is added up and published.
 *
 *     events x calibrated cost ──▶ governor.h ──▶ flags of the next step
 *                                      └──▶ header->governor, for the page
 *
 * boundary.c calls, one thread at a time, between steps; no allocation, no system call.
 */
#ifndef PROBE_DECIDE_H
#define PROBE_DECIDE_H

#include <stdint.h>

#include "probe/probe.h"
#include "wire/control.h"

/* The segment is mapped and nobody writes yet. Reads TRAINGLASS_LEVEL,
 * TRAINGLASS_BUDGET (per cent) and what makes ranks draw alike. Returns what is
 * recorded before the first step: everything at a fixed level, no detail in auto. */
uint32_t decide_open(void);

/* Step `number` begins, and none ended before it. Returns EVENT_STEP_OPS, _KERNELS,
 * _TAGGED, _CONTROL and RECORDING_* for it. */
uint32_t decide_begin(uint64_t number);

/* A step ended (`ended->number` is STEPS_NO_NUMBER after a validation batch) and step
 * `next` begins: what it records, as decide_begin(). `mark_ticks`: what the marks
 * of an earlier step like it took. */
uint32_t decide_next(const struct probe_step *ended, uint64_t next,
                     uint64_t mark_ticks);

/* What was written since the last boundary belongs to no step. */
void decide_skip_costs(void);

/* The process joined a group of ranks: from the next step on it draws as they do. */
void decide_ranks(void);

/* A request that was checked and not seen before; takes effect with the next step. */
void decide_request(const struct control *control);
/* The same from within the process; below 0, or no steps: as it is. */
void decide_ask(int32_t level, int64_t budget_ppm, uint32_t steps);

#endif
