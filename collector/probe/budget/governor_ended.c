/* What ended: sums, what a step is like and costs, and the experiments. */
#include "probe/budget/governor_inside.h"

#define SUM_STEPS      2048.0 /* sums are halved here */
#define BURST_SHARE    0.1    /* of the budget, for slow steps */
#define SLOW_SPREADS   8.0  /* beyond typical: 6 standard deviations of a normal job */
#define SLOW_SHARE     1.3  /* of typical, at least */
#define CLIP_SPREADS   4.0  /* a stall moves what is typical by no more */
#define TYPICAL_STEPS  16.0 /* memory of what is typical */
#define WARM_STEPS     32u  /* of the run: the cheapest of them counts */
#define COST_TIMES_MAX 3.0  /* of what a step costs, in one step */
#define COST_STEPS     8.0  /* memory of what a step costs */
#define POOL_STEPS     8u   /* recorded ones, whose detail is looked at together */
#define POOLS          2.0  /* memory of what detail costs */

static void sums_halve(struct governor_sums *sums)
{
    sums->steps /= 2;
    sums->recorded_steps /= 2;
    sums->phase_steps /= 2;
    sums->time_ns /= 2;
    sums->bare_ns /= 2;
    sums->ordinary_ns /= 2;
    sums->recorded_ns /= 2;
    sums->burst_ns /= 2;
    sums->detail_ns /= 2;
    sums->start_ns /= 2;
}

static double carried_of(const struct governor_step *step)
{
    return step->phases_ns + step->memory_ns;
}

static void sums_add(struct governor *governor, const struct governor_step *step)
{
    struct governor_sums *sums = &governor->sums;
    bool validation = (step->flags & EVENT_STEP_VALIDATION) != 0;
    bool tagged = (step->flags & (EVENT_STEP_TAGGED | EVENT_STEP_WINDOW)) != 0;
    bool recorded = (step->flags & DETAIL) != 0 && !tagged;
    bool phases = (step->flags & RECORDING_PHASES) != 0;

    if (sums->steps >= SUM_STEPS)
        sums_halve(sums);
    sums->steps += validation ? 0 : 1;
    sums->recorded_steps += recorded && !validation ? 1 : 0;
    sums->phase_steps += phases && !validation ? 1 : 0;
    sums->time_ns += step->duration_ns;
    *(tagged     ? &sums->burst_ns
      : recorded ? &sums->recorded_ns
      : phases   ? &sums->ordinary_ns
                 : &sums->bare_ns) += carried_of(step);
    /* In whatever step it arrives, detail is what recorded steps cost. */
    *(tagged ? &sums->burst_ns : &sums->recorded_ns) += step->detail_ns;
    sums->detail_ns += tagged ? 0 : step->detail_ns;
    sums->start_ns += tagged && step->number == governor->start_step
                          ? carried_of(step) + step->detail_ns
                          : 0;
}

/* Typical step and spread without a memory of steps: each moves them, a stall by no
 * more than an unusual step does. The first steps only warm up: the shortest counts. */
static void typical_add(struct governor *governor, double duration_ns)
{
    governor->steps_seen++;
    if (governor->steps_seen <= 4) {
        if (governor->steps_seen == 1 || duration_ns < governor->typical_ns)
            governor->typical_ns = duration_ns;
        governor->spread_ns = governor->typical_ns / 8;
        return;
    }

    double limit_ns = CLIP_SPREADS * governor->spread_ns;
    double beyond_ns = duration_ns - governor->typical_ns;
    double clipped_ns = max_of(-limit_ns, min_of(limit_ns, beyond_ns));
    double size_ns = clipped_ns < 0 ? -clipped_ns : clipped_ns;

    governor->typical_ns += clipped_ns / TYPICAL_STEPS;
    governor->spread_ns += (size_ns - governor->spread_ns) / (2 * TYPICAL_STEPS);
    governor->spread_ns = max_of(governor->spread_ns, governor->typical_ns / 256);
}

/* Bursts after slow steps live on a credit of their own, so that a job whose every
 * 50th step is slow by design does not spend the budget on the steps after it. */
static void slow_step_check(struct governor *governor, double duration_ns)
{
    double burst_ns = GOVERNOR_BURST_STEPS * SAFETY * recorded_ns(governor);
    double slow_ns =
        governor->typical_ns + max_of(SLOW_SPREADS * governor->spread_ns,
                                      (SLOW_SHARE - 1) * governor->typical_ns);

    if (governor->options.level != WIRE_LEVEL_AUTO)
        return;
    governor->burst_credit_ns =
        min_of(2 * burst_ns, governor->burst_credit_ns +
                                 BURST_SHARE * governor->options.budget * duration_ns);
    if (governor->burst_left > 0 || governor->steps_seen < SLOW_STEPS ||
        (duration_ns <= slow_ns && !governor->nothing_fits) || !(burst_ns > 0) ||
        governor->burst_credit_ns < burst_ns)
        return;
    governor->burst_credit_ns -= burst_ns;
    governor->burst_left = GOVERNOR_BURST_STEPS;
}

static void compare(struct governor_cost *cost, const struct experiment_unit *unit)
{
    experiment_add(&cost->experiment, unit);
    if (cost->experiment.pairs == cost->result_pairs)
        return;
    cost->result_pairs = cost->experiment.pairs;
    experiment_result(&cost->experiment, &cost->result);
}

/* A whole block was as drawn: a bare one is the control of both other kinds. */
static void block_compare(struct governor *governor)
{
    struct experiment_unit unit = {
        .arm = governor->block_flags & RECORDING_PHASES ? DRAW_RECORDED : DRAW_CONTROL,
        .step_ns = governor->block_sum_ns / governor->compared,
        .predicted_ns = governor->block_predicted_ns / governor->compared,
    };
    bool recorded = (governor->block_flags & DETAIL) != 0;

    unit.predicted_ns += recorded ? governor->detail_ns : 0;
    if (recorded || unit.arm == DRAW_CONTROL)
        compare(&governor->recorded, &unit);
    if (!recorded)
        compare(&governor->ordinary, &unit);
}

/* A block's first step carries what the block before left behind: not compared. */
static void block_add(struct governor *governor, const struct governor_step *step)
{
    uint32_t length = governor->options.block_steps;
    uint32_t position = (uint32_t)(step->number % length);
    uint32_t is =
        step->flags & (DETAIL | CARRIED | EVENT_STEP_TAGGED | EVENT_STEP_CONTROL);

    /* FIRST: compilation, warm-up, or a boundary that was known too late. WINDOW: what
     * torch.profiler takes has nothing to do with us. */
    if (step->number / length != governor->block || is != governor->block_flags ||
        (step->flags & (EVENT_STEP_FIRST | EVENT_STEP_WINDOW)) != 0)
        governor->spoiled = true;
    if (position > 0 || length == 1) {
        governor->block_sum_ns += step->duration_ns;
        governor->block_predicted_ns += carried_of(step);
        governor->compared++;
    }
    if (position == length - 1 && !governor->spoiled &&
        governor->compared == (length > 1 ? length - 1 : 1) &&
        draw_control_share(governor->block) > 0)
        block_compare(governor);
}

/* What another process took of a step is no cost of ours, however long it was. */
static void follow(double *mean_ns, double ns)
{
    if (*mean_ns > 0)
        ns = min_of(ns, COST_TIMES_MAX * *mean_ns);
    *mean_ns += *mean_ns > 0 ? (ns - *mean_ns) / COST_STEPS : max_of(ns, 1);
}

/* The first step of a block has sources that switch in its marks: it is no measure of the
 * others, unless none is known yet. Of the run's first steps, whose code is new to the
 * caches, the cheapest counts. */
static void follow_carried(struct governor *governor, const struct governor_step *step)
{
    uint32_t length = governor->options.block_steps;
    bool first = length > 1 && step->number % length == 0;
    double *phases_ns = &governor->phases_ns;

    if ((step->flags & RECORDING_PHASES) && !(first && *phases_ns > 0)) {
        if (*phases_ns > 0 && governor->steps_seen < WARM_STEPS)
            *phases_ns = min_of(*phases_ns, max_of(step->phases_ns, 1));
        else
            follow(phases_ns, step->phases_ns);
    }
    if ((step->flags & RECORDING_MEMORY) && !(first && governor->memory_ns > 0))
        follow(&governor->memory_ns, step->memory_ns);
}

/* What a GPU did comes when its buffers are read, some steps later. */
static void follow_detail(struct governor *governor, const struct governor_step *step)
{
    bool known = governor->detail_ns > 0;

    governor->pool_ns += step->detail_ns;
    governor->pool_steps += (step->flags & DETAIL) != 0 ? 1 : 0;
    if (governor->pool_steps < (known && governor->learn_left == 0 ? POOL_STEPS : 1))
        return;

    double ns = max_of(1, governor->pool_ns / governor->pool_steps);

    governor->detail_ns += (ns - governor->detail_ns) / (known ? POOLS : 1);
    governor->pool_ns = 0;
    governor->pool_steps = 0;
}

void governor_step_end(struct governor *governor, const struct governor_step *step)
{
    sums_add(governor, step);
    if (step->flags & EVENT_STEP_VALIDATION)
        return;
    follow_carried(governor, step);
    follow_detail(governor, step);
    governor->show_left_ns -= step->duration_ns;
    /* What a deep window takes was asked for: it is neither slow nor typical. */
    if (!(step->flags & EVENT_STEP_WINDOW) &&
        (!(step->flags & EVENT_STEP_FIRST) || governor->steps_seen == 0)) {
        slow_step_check(governor, step->duration_ns);
        typical_add(governor, step->duration_ns);
    }
    if (governor->options.level == WIRE_LEVEL_AUTO)
        block_add(governor, step);
}
