/* What the next step records: the one place where that is decided.
 *
 * boundary.c asks once at each step boundary, on the training thread. Fixed levels are
 * all that there is here.
 */
#ifndef PROBE_DECIDE_H
#define PROBE_DECIDE_H

#include <stdint.h>

#include "probe/probe.h"
#include "wire/control.h"

/* The segment is there, no step has begun. Reads TRAINGLASS_LEVEL and
 * TRAINGLASS_BUDGET. Returns what step 0 records, as decide_next(). */
uint32_t decide_open(void);

/* A step ended (`ended->number` is STEPS_NO_NUMBER after a validation batch) and step
 * `next` begins: EVENT_STEP_OPS, _KERNELS, _TAGGED, _CONTROL for it. Called once per
 * boundary; no allocation, no system call. */
uint32_t decide_next(const struct probe_step *ended, uint64_t next);

/* A request that was checked and not seen before; takes effect with the next step. */
void decide_request(const struct control *control);

#endif
