/* What the files of the governor share, and nobody else. */
#ifndef PROBE_GOVERNOR_INSIDE_H
#define PROBE_GOVERNOR_INSIDE_H

#include "probe/budget/governor.h"

#define DETAIL      ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))
#define CARRIED     ((uint32_t)(RECORDING_PHASES | RECORDING_MEMORY))
#define SAFETY      2.0 /* real over calibrated cost, until measured; 0.9-1.6 seen */
#define SLOW_STEPS  64u /* that a step is compared with */
#define HOLD_BLOCKS 8u  /* before a rung up: what came before has shown */

static inline double min_of(double a, double b)
{
    return a < b ? a : b;
}

static inline double max_of(double a, double b)
{
    return a > b ? a : b;
}

/* Calibrated cost of a recorded step; 0: not known yet. */
static inline double recorded_ns(const struct governor *governor)
{
    return governor->detail_ns > 0
               ? governor->phases_ns + governor->memory_ns + governor->detail_ns
               : 0;
}

static inline void cost_forget(struct governor_cost *cost)
{
    *cost = (struct governor_cost){.result_pairs = 0};
}

/* At the start of a block: what ordinary steps carry, and how many are recorded. */
void governor_fit(struct governor *governor);

#endif
