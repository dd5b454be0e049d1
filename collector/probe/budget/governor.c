#include "probe/budget/governor.h"

#define DETAIL    ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))
#define SUM_STEPS 2048.0 /* sums are halved here */
#define CARRIED   ((uint32_t)(RECORDING_PHASES | RECORDING_MEMORY))
#define SAFETY    2.0 /* real over calibrated cost, until measured; 0.9-1.6 seen */
#define ORDINARY_SAFETY                                                                \
    1.0 /* of marks, whose calibrated cost is that of steps with cold caches */
#define FACTOR_MIN 0.1 /* below, an interval is luck: recording is never free */
#define TIMED_SHARE                                                                    \
    (1.0 / 3)          /* of what marks are reckoned to cost: seen by the clock */
#define WIDE      0.25 /* of the budget: half an interval that decides nothing */
#define FEW_PAIRS 64.0 /* below, a burst of noise must not pass for a cost: */
#define UNLIKELY_WIDTHS                                                                \
    1.7 /* of half an interval, 1 in 1,000, for it is looked at after every pair */
#define ROOM        0.8 /* of the budget: a rung up must stay below */
#define HOLD_BLOCKS 8u  /* before a rung up: what came before has shown */
#define HOLD_MAX    8192u
#define BURST_SHARE 0.1 /* of the budget, for slow steps */
#define ORDINARY_SHARE                                                                 \
    0.5 /* of the budget, for what steps carry that are not recorded */
#define SLOW_SPREADS  8.0  /* beyond typical: 6 standard deviations of a normal job */
#define SLOW_SHARE    1.3  /* of typical, at least */
#define SLOW_STEPS    64u  /* that a step is compared with */
#define CLIP_SPREADS  4.0  /* a stall moves what is typical by no more */
#define TYPICAL_STEPS 16.0 /* memory of what is typical */
#define STALL_MEAN_MAX                                                                 \
    2.0 /* mean step over typical that the budget is reckoned with    \
                          */
#define FADE_BLOCKS                                                                    \
    8192.0 /* memory of what a kind of steps cost when it was given up */
#define WARM_STEPS     32u
#define COST_TIMES_MAX 3.0 /* of that, in one step */
#define COST_STEPS     8.0 /* memory of what a step costs */
#define POOL_STEPS     8u  /* recorded ones, whose detail is looked at together */
#define POOLS          2.0 /* memory of what detail costs */

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

void governor_init(struct governor *governor, const struct governor_options *options)
{
    *governor = (struct governor){
        .options = *options,
        .rate = DRAW_RATE_NONE,
        .block = UINT64_MAX,
        .hold_blocks = HOLD_BLOCKS,
    };
    if (governor->options.block_steps == 0)
        governor->options.block_steps = DRAW_BLOCK_STEPS;
    governor->ordinary_flags = CARRIED;
    governor_set_budget(governor, options->budget);
}

uint32_t governor_level_flags(enum wire_level level)
{
    switch (level) {
    case WIRE_LEVEL_OFF:
        return 0;
    case WIRE_LEVEL_OPS:
        return CARRIED | EVENT_STEP_OPS;
    case WIRE_LEVEL_KERNELS:
        return CARRIED | EVENT_STEP_KERNELS;
    case WIRE_LEVEL_ALL:
        return CARRIED | DETAIL;
    default:
        return CARRIED;
    }
}

static void cost_forget(struct governor_cost *cost)
{
    *cost = (struct governor_cost){.result_pairs = 0};
}

void governor_set_sources(struct governor *governor, uint32_t sources)
{
    sources &= DETAIL;
    if (sources == governor->sources)
        return;
    governor->sources = sources;
    governor->detail_ns = governor->pool_ns = 0;
    governor->pool_steps = 0;
    governor->rate = DRAW_RATE_NONE;
    governor->spoiled = true;
    cost_forget(&governor->recorded);
    governor->changed_block = 0;
    governor->learn_left = GOVERNOR_LEARN_STEPS;
    governor->show_left = GOVERNOR_SHOW_STEPS;
    governor->show_left_ns = GOVERNOR_SHOW_NS;
}

void governor_set_level(struct governor *governor, enum wire_level level)
{
    if (level == governor->options.level)
        return;
    /* Sums are of one level; what was learnt in auto still holds when it comes back. */
    if (governor->options.level == WIRE_LEVEL_AUTO)
        governor->auto_sums = governor->sums;
    governor->sums = level == WIRE_LEVEL_AUTO ? governor->auto_sums
                                              : (struct governor_sums){.steps = 0};
    governor->options.level = level;
    governor->spoiled = true;
}

void governor_set_budget(struct governor *governor, double budget)
{
    governor->options.budget = budget > 0 ? min_of(budget, 1) : 0;
    governor->hold_blocks = HOLD_BLOCKS;
}

void governor_burst(struct governor *governor, uint32_t steps)
{
    if (steps > GOVERNOR_BURST_STEPS_MAX)
        steps = GOVERNOR_BURST_STEPS_MAX;
    if (governor->burst_left < steps)
        governor->burst_left = steps;
}

/* ---- what ended ---------------------------------------------------------------- */

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

/* Calibrated cost of a recorded step; 0: not known yet. */
static double recorded_ns(const struct governor *governor)
{
    return governor->detail_ns > 0
               ? governor->phases_ns + governor->memory_ns + governor->detail_ns
               : 0;
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
    bool first = step->number % governor->options.block_steps == 0;
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

/* ---- what comes ---------------------------------------------------------------- */

double governor_mean_step_ns(const struct governor *governor)
{
    const struct governor_sums *sums = &governor->sums;
    double mean_ns = sums->steps > 0 ? sums->time_ns / sums->steps : 0;

    return max_of(1, min_of(mean_ns, STALL_MEAN_MAX * governor->typical_ns));
}

/* Real cost over the calibrated one, of steps that are `share` of all: on the safe side,
 * and `untold` until the experiment tells. */
static double factor_bound(const struct governor *governor,
                           const struct experiment_result *result, double share,
                           double untold)
{
    if (!result->known || !(result->predicted_ns > 0))
        return untold;

    double widths = result->pairs < FEW_PAIRS ? UNLIKELY_WIDTHS : 1;
    double low = (result->effect_ns - widths * (result->effect_ns - result->low_ns)) /
                 result->predicted_ns;
    double high = result->high_ns / result->predicted_ns;
    double half_width = (result->high_ns - result->low_ns) / 2 * share;
    bool wide =
        half_width > WIDE * governor->options.budget * governor_mean_step_ns(governor);

    return max_of(FACTOR_MIN, wide ? min_of(high, max_of(untold, low)) : high);
}

static double ordinary_share(const struct governor *governor, unsigned rate)
{
    return 1 - draw_control_share(governor->block) -
           draw_recorded_share(governor->block, rate);
}

/* Upper bound of what an ordinary step costs that carries `flags`. */
static double ordinary_bound_ns(const struct governor *governor, uint32_t flags)
{
    bool memory = (flags & RECORDING_MEMORY) != 0;
    double ns = governor->phases_ns + (memory ? governor->memory_ns : 0);
    double factor = governor->left_factor[memory];

    if (flags == 0)
        return 0;
    if (flags == governor->ordinary_flags && governor->ordinary.result.known)
        factor =
            max_of(TIMED_SHARE, factor_bound(governor, &governor->ordinary.result,
                                             ordinary_share(governor, governor->rate),
                                             ORDINARY_SAFETY));
    return ns * (factor > 0 ? factor : ORDINARY_SAFETY);
}

/* Upper bound of what recorded and ordinary steps cost at a rate, as a share of time. */
static double cost_bound(const struct governor *governor, unsigned rate)
{
    double share = draw_recorded_share(governor->block, rate);
    double bound_ns = recorded_ns(governor) *
                      factor_bound(governor, &governor->recorded.result, share, SAFETY);

    return (share * bound_ns +
            ordinary_share(governor, rate) *
                ordinary_bound_ns(governor, governor->ordinary_flags)) /
           governor_mean_step_ns(governor);
}

/* ---- what ordinary steps carry --------------------------------------------------- */

static void ordinary_set(struct governor *governor, uint32_t flags)
{
    bool memory = (governor->ordinary_flags & RECORDING_MEMORY) != 0;

    if (flags < governor->ordinary_flags && governor->ordinary.result.known)
        governor->left_factor[memory] =
            factor_bound(governor, &governor->ordinary.result,
                         ordinary_share(governor, governor->rate), ORDINARY_SAFETY);
    governor->ordinary_flags = flags;
    governor->ordinary_block = governor->block;
    cost_forget(&governor->ordinary);
}

/* As much as half of the budget allows; more than now only after a while, and with room. */
static void ordinary_adapt(struct governor *governor)
{
    static const uint32_t rows[] = {RECORDING_PHASES | RECORDING_MEMORY,
                                    RECORDING_PHASES, 0};
    double allowed_ns =
        ORDINARY_SHARE * governor->options.budget * governor_mean_step_ns(governor);
    bool waited = governor->block >= governor->ordinary_block + HOLD_BLOCKS;

    for (int i = 0; i < 2; i++) /* a noisy hour is forgotten */
        if (governor->left_factor[i] > 0)
            governor->left_factor[i] +=
                (ORDINARY_SAFETY - governor->left_factor[i]) / FADE_BLOCKS;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool more = rows[i] > governor->ordinary_flags;
        double bound_ns = ordinary_bound_ns(governor, rows[i]);

        if ((more && !waited) || bound_ns > (more ? ROOM : 1) * allowed_ns)
            continue;
        if (rows[i] != governor->ordinary_flags)
            ordinary_set(governor, rows[i]);
        return;
    }
}

/* ---- how many are recorded ------------------------------------------------------- */

static void rate_set(struct governor *governor, unsigned rate)
{
    bool up = rate < governor->rate;
    uint64_t stayed = governor->block - governor->changed_block;

    /* A rung up that did not hold: the next try waits longer. */
    if (!up && governor->stepped_up && stayed < 16 * governor->hold_blocks &&
        governor->hold_blocks < HOLD_MAX)
        governor->hold_blocks *= 4;
    governor->stepped_up = up && governor->rate != DRAW_RATE_NONE;
    governor->changed_block = governor->block;
    governor->changed_error_ns =
        governor->recorded.result.known ? governor->recorded.result.error_ns : 0;
    governor->rate = rate;
}

/* A rung up waits, so that what came before has shown; but not when that was judged by
 * a wide interval, which has become half as wide. */
static bool waited(const struct governor *governor)
{
    uint64_t blocks = governor->block - governor->changed_block;
    const struct experiment_result *result = &governor->recorded.result;
    bool narrower = result->known && 2 * result->error_ns < governor->changed_error_ns;

    return blocks >= governor->hold_blocks || (narrower && blocks >= HOLD_BLOCKS);
}

static void rate_adapt(struct governor *governor)
{
    const struct governor_sums *sums = &governor->sums;
    unsigned rate = governor->rate;

    bool young = governor->steps_seen < SLOW_STEPS;

    if (!(governor->detail_ns > 0) || !(sums->time_ns > 0))
        return; /* nothing was recorded yet: its cost is not known */
    if (sums->steps < SLOW_STEPS && !young)
        return; /* the level has just changed: what the last rate was is still good */

    /* What the first steps cost is shown, but not held against the next thousand. */
    double spent = (sums->bare_ns + sums->burst_ns - sums->start_ns) / sums->time_ns;
    double left = governor->options.budget - spent;

    while (rate <= DRAW_RATE_LAST && cost_bound(governor, rate) > left)
        rate++;
    if (rate != governor->rate) {
        rate_set(governor, rate);
    } else if (rate == DRAW_RATE_NONE && governor->changed_block == 0) {
        rate = DRAW_RATE_LAST; /* the start: as high as fits at once */
        while (rate > 0 && cost_bound(governor, rate - 1) <= ROOM * left)
            rate--;
        if (cost_bound(governor, rate) <= ROOM * left)
            rate_set(governor, rate);
    } else if (rate > 0 && waited(governor) &&
               cost_bound(governor, rate - 1) <= ROOM * left) {
        rate_set(governor, rate - 1);
    }
    governor->nothing_fits = governor->rate == DRAW_RATE_NONE;
}

static void block_start(struct governor *governor, uint64_t number)
{
    uint32_t length = governor->options.block_steps;

    governor->block = number / length;
    governor->compared = 0;
    governor->block_sum_ns = 0;
    governor->block_predicted_ns = 0;
    governor->spoiled = number % length != 0;
    ordinary_adapt(governor);
    rate_adapt(governor);
    switch (draw_arm(governor->options.seed, governor->block, governor->rate)) {
    case DRAW_CONTROL:
        governor->block_flags = EVENT_STEP_CONTROL;
        break;
    case DRAW_RECORDED:
        governor->block_flags = governor->sources | CARRIED;
        break;
    default:
        governor->block_flags = governor->ordinary_flags;
        break;
    }
}

uint32_t governor_next(struct governor *governor, uint64_t number)
{
    bool automatic = governor->options.level == WIRE_LEVEL_AUTO;
    uint32_t flags =
        governor_level_flags(governor->options.level) & (governor->sources | CARRIED);
    uint32_t *left = &governor->burst_left;

    if (automatic) {
        if (number / governor->options.block_steps != governor->block)
            block_start(governor, number);
        flags = governor->block_flags;
        if (flags & EVENT_STEP_CONTROL)
            return flags;
        if (governor->options.budget > 0 && governor->burst_left == 0)
            left = governor->learn_left > 0     ? &governor->learn_left
                   : governor->show_left_ns > 0 ? &governor->show_left
                                                : left;
    }
    if (*left == 0 || governor->sources == 0)
        return flags;
    (*left)--;
    if (left != &governor->burst_left)
        governor->start_step = number;
    return (flags & DETAIL) == governor->sources
               ? flags
               : governor->sources | CARRIED | EVENT_STEP_TAGGED;
}
