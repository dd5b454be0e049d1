/* What fits: of the kinds of steps, and of their rate. */
#include "probe/budget/governor_inside.h"

/* Of marks, whose calibrated cost is that of steps with cold caches; as SAFETY. */
#define ORDINARY_SAFETY 1.0
#define FACTOR_MIN      0.1 /* below, an interval is luck: recording is never free */
#define TIMED_SHARE     (1.0 / 3) /* of the calibrated cost of marks: seen by the clock */
#define WIDE            0.25 /* of the budget: half an interval that decides nothing */
#define FEW_PAIRS       64.0 /* below, a burst of noise must not pass for a cost: */
/* Of half an interval, 1 in 1,000, for it is looked at after every pair. */
#define UNLIKELY_WIDTHS 1.7
#define ROOM            0.8 /* of the budget: a rung up must stay below */
#define HOLD_MAX        8192u
#define ORDINARY_SHARE                                                                 \
    0.5 /* of the budget, for what steps carry that are not recorded */
#define STALL_MEAN_MAX 2.0 /* mean step over typical that the budget is reckoned with */
/* Memory of what a kind of steps cost when it was given up. */
#define FADE_BLOCKS 8192.0

double governor_mean_step_ns(const struct governor *governor)
{
    const struct governor_sums *sums = &governor->sums;
    double mean_ns = sums->steps > 0 ? sums->time_ns / sums->steps : 0;

    return max_of(1, min_of(mean_ns, STALL_MEAN_MAX * governor->typical_ns));
}

/* Real cost over the calibrated one, of steps that are `share` of all: on the safe side,
 * and `unmeasured` until the experiment tells. */
static double factor_bound(const struct governor *governor,
                           const struct experiment_result *result, double share,
                           double unmeasured)
{
    if (!result->known || !(result->predicted_ns > 0))
        return unmeasured;

    double widths = result->pairs < FEW_PAIRS ? UNLIKELY_WIDTHS : 1;
    double low = (result->effect_ns - widths * (result->effect_ns - result->low_ns)) /
                 result->predicted_ns;
    double high = result->high_ns / result->predicted_ns;
    double half_width = (result->high_ns - result->low_ns) / 2 * share;
    bool wide =
        half_width > WIDE * governor->options.budget * governor_mean_step_ns(governor);

    /* Looked at after every pair, a wide interval is far off now and then. */
    low = min_of(low, GOVERNOR_COST_MAX);
    return max_of(FACTOR_MIN, wide ? min_of(high, max_of(unmeasured, low)) : high);
}

static double ordinary_share(const struct governor *governor, unsigned rate)
{
    return 1 - draw_control_share(governor->block) -
           draw_recorded_share(governor->block, rate);
}

/* Upper bound of what one ordinary step costs that carries `flags`: its interval is judged
 * as that of all steps, however few of them are ordinary. */
static double ordinary_bound_ns(const struct governor *governor, uint32_t flags)
{
    bool memory = (flags & RECORDING_MEMORY) != 0;
    double ns = governor->phases_ns + (memory ? governor->memory_ns : 0);
    double factor = governor->left_factor[memory];

    if (flags == 0)
        return 0;
    if (flags == governor->ordinary_flags && governor->ordinary.result.known)
        factor = max_of(TIMED_SHARE, factor_bound(governor, &governor->ordinary.result,
                                                  1, ORDINARY_SAFETY));
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
            factor_bound(governor, &governor->ordinary.result, 1, ORDINARY_SAFETY);
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

void governor_fit(struct governor *governor)
{
    ordinary_adapt(governor);
    rate_adapt(governor);
}
