/* Keeps the profiler's cost within its budget, and measures what it costs.
 *
 *     a step ended ──▶ governor_step_end() ──▶ sums, experiments ──▶ cost of each kind
 *                                                                        │
 *     next step's flags ◀── governor_next() ◀── draw.h ◀── what fits ◀───┘
 *
 * A step is of one of three kinds:
 *
 *     bare        its mark alone: the control steps of the draw, and all that are not
 *                 recorded where nothing more fits
 *     ordinary    phases, and totals of memory where those fit too
 *     recorded    everything: operators, ranges, GPU work
 *
 * Two experiments compare recorded and ordinary steps with bare ones, so that the whole
 * cost is measured, in the job itself. Ordinary steps may take half of the budget: what
 * does not fit leaves them. Recorded steps get the rest: their rate goes down as soon as
 * (upper end of the cost's 95 % interval) x (share of recorded steps) is more than is
 * left, and up a rung when the next one would leave clear room. While an interval is too
 * wide to judge by, the calibrated cost with a safety factor takes its place, as far as
 * the interval allows it: a noisy job is neither punished for its noise nor trusted.
 *
 * The first steps are recorded and tagged: they tell what detail costs, and the page has
 * something to show at once. Where nothing fits, what is set aside for slow steps pays
 * for a look at a few steps now and then.
 *
 * Decisions change at block boundaries alone (draw.h). Control blocks are left in
 * peace: no burst, no window. One owner, the thread that ends steps; no clock, no
 * memory beside the struct, no system call. About 20 ns a step, a microsecond when a
 * pair of an experiment is complete.
 */
#ifndef PROBE_GOVERNOR_H
#define PROBE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/budget/draw.h"
#include "probe/budget/experiment.h"
#include "wire/event.h"
#include "wire/segment.h"

#define GOVERNOR_BURST_STEPS     3u    /* after a slow step */
#define GOVERNOR_LEARN_STEPS     3u    /* at the start: what a recorded step costs */
#define GOVERNOR_SHOW_STEPS      7u    /* then, for the page: so many more, while */
#define GOVERNOR_SHOW_NS         2e9   /* the first so much time has not passed */
#define GOVERNOR_BURST_STEPS_MAX 1000u /* on request */

struct governor_options {
    double budget; /* share of training time, 0 to 1 */
    enum wire_level level;
    uint64_t seed;        /* draw_seed(): the same on all ranks */
    uint32_t block_steps; /* 0: DRAW_BLOCK_STEPS; longer where a GPU runs behind. No
                             common divisor with a job's periods; same on all ranks */
};

/* A step, or a validation batch, that ended. Costs are calibrated ones. */
struct governor_step {
    uint64_t number; /* of a training step */
    uint32_t flags; /* EVENT_STEP_*, RECORDING_*: what governor_next() said of it, or-ed
                        with VALIDATION and FIRST, and with TAGGED if something else
                        recorded it */
    double duration_ns;
    double phases_ns; /* marks and wrappers; of a bare step, its mark */
    double memory_ns; /* the allocator's calls */
    double detail_ns; /* what only recorded steps carry; of a GPU some steps later */
};

/* Over the last one to two thousand steps, in per cent of their time. */
struct governor_report {
    double budget_pct;
    bool known;               /* a step has ended; else all costs are 0 */
    double measured_pct;      /* detail + burst + fixed */
    bool interval_known;      /* in auto, from the first step on */
    double low_pct, high_pct; /* 95 % interval of measured_pct; while an experiment has
                                 too few pairs, from 0 to GOVERNOR_COST_MAX times the
                                 calibrated cost */
    double detail_pct, burst_pct, fixed_pct;
    double recorded_share; /* of the steps, 0 to 1; drawn ones, without bursts */
    double phases_share;   /* of the steps, 0 to 1: their phases are known */
    double cost_factor; /* measured cost of a recorded step over the calibrated, or 1 */
    uint64_t recorded_steps; /* compared so far: recorded or ordinary ones, */
    uint64_t control_steps;  /* with these */
    uint64_t steps_needed;   /* more, until the interval is narrower than the budget */
    uint32_t rate;           /* 1 step in 2^rate; DRAW_RATE_NONE: none */
    enum wire_governor_state state;
};

#define GOVERNOR_COST_MAX 4.0 /* real over calibrated cost: 0.5 to 3 seen */

/* The recent past: halved when full, so that it is always one to two times as long. */
struct governor_sums {
    double steps, recorded_steps, phase_steps;
    double time_ns;
    double bare_ns, ordinary_ns, recorded_ns,
        burst_ns;     /* calibrated, by kind of step */
    double detail_ns; /* of recorded_ns */
    double start_ns;  /* of burst_ns: the first steps, which are paid for once */
};

/* What one kind of steps costs, against bare ones. */
struct governor_cost {
    struct experiment experiment;
    struct experiment_result result; /* as of the newest pair */
    uint64_t result_pairs;
};

struct governor {
    struct governor_options options;
    uint32_t sources; /* EVENT_STEP_OPS | EVENT_STEP_KERNELS that can be recorded */
    unsigned rate;
    /* What ordinary steps carry: RECORDING_PHASES and perhaps _MEMORY, or 0: bare. */
    uint32_t ordinary_flags;
    double left_factor[2];   /* real over calibrated cost as of when ordinary steps lost
                               phases [0], or memory [1]; 0: they never did */
    uint64_t ordinary_block; /* of the last change of it */
    struct governor_cost recorded, ordinary;
    /* The block in progress. */
    uint64_t block;
    uint32_t block_flags; /* what was drawn for its steps */
    uint32_t compared;    /* steps of it in the two sums */
    bool spoiled;         /* not all of it was as drawn */
    double block_sum_ns, block_predicted_ns;
    /* What a step is like. */
    double typical_ns;           /* without stalls */
    double spread_ns;            /* mean absolute deviation from it, clipped */
    double phases_ns, memory_ns; /* calibrated cost in one; 0: not known */
    double detail_ns;            /* in a recorded one, as of the newest pools: */
    double pool_ns;              /* detail that came */
    uint32_t pool_steps;         /* in so many recorded ones */
    uint64_t steps_seen;
    /* Bursts. */
    uint32_t learn_left; /* steps whose detail tells what detail costs; auto alone */
    uint32_t show_left;  /* steps for the page to begin with */
    double show_left_ns;
    uint64_t start_step; /* the newest of both */
    uint32_t burst_left;
    double burst_credit_ns; /* what slow steps may still cost */
    /* The ladder. */
    uint64_t changed_block;  /* of the last change of the rate */
    uint64_t hold_blocks;    /* before the next step up */
    bool stepped_up;         /* the last change was one */
    double changed_error_ns; /* of the experiment at that change; 0: none was known */
    bool nothing_fits;
    struct governor_sums sums;
    struct governor_sums auto_sums; /* those of auto, while another level is on */
};

void governor_init(struct governor *governor, const struct governor_options *options);

/* What a fixed level records, as far as there are sources for it; for auto, what steps
 * carry before the first is drawn. */
uint32_t governor_level_flags(enum wire_level level);

/* What can be recorded has changed: begins to learn its cost anew. */
void governor_set_sources(struct governor *governor, uint32_t sources);

/* Both take effect at the next governor_next(). `budget` is cut to 0 to 1. */
void governor_set_level(struct governor *governor, enum wire_level level);
void governor_set_budget(struct governor *governor, double budget);

/* The next `steps` steps that are no control steps are recorded in full and tagged; at
 * most GOVERNOR_BURST_STEPS_MAX. */
void governor_burst(struct governor *governor, uint32_t steps);

/* Folds in what ended. A validation batch counts for the sums alone, and the decision
 * about the coming training step stands. */
void governor_step_end(struct governor *governor, const struct governor_step *step);

/* EVENT_STEP_OPS | KERNELS | TAGGED | CONTROL and RECORDING_* for training step `number`.
 * Once per step, after governor_step_end() of the one before. */
uint32_t governor_next(struct governor *governor, uint64_t number);

/* Time of a step that shares are reckoned with; compilation and stalls do not make the
 * budget seem larger than it will be. */
double governor_mean_step_ns(const struct governor *governor);

/* Everything it knows. Up to half a microsecond: call it once in a few steps. */
void governor_report(const struct governor *governor, struct governor_report *report);

#endif
