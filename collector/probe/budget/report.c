/* What the governor knows, for the page: shares of the recent past, and the interval. The
 * one rule: it reads, and decides nothing. */
#include "probe/budget/governor.h"

#define SHARE_MIN 1e-9 /* of the steps: less is the rounding of a difference */
#define OLD_COST_SHARE                                                                 \
    0.05 /* of the budget: what steps carried once has nearly faded */
#define MARK_COST_MAX                                                                  \
    2.0 /* real over calibrated cost of a bare step's mark, which is timed */

/* Pairs come once per two arms' worth of blocks, and ever more slowly while the control
 * group shrinks: summed over stretches of a quarter of the job so far. */
static double blocks_until(const struct governor *governor, double share, double pairs)
{
    double blocks = 0;

    for (unsigned stretch = 0; stretch < 64 && pairs > 0; stretch++) {
        double at = (double)governor->block + blocks, span = at / 4 + 1;
        double control = draw_control_share((uint64_t)(at + span / 2));
        double gain = span * share * control / (share + control + 1e-9);

        blocks += gain > pairs ? span * pairs / gain : span;
        pairs -= gain;
    }
    return blocks;
}

/* Until the interval of what these steps cost, `share` of all, is narrow enough. */
static double pairs_needed(const struct governor *governor,
                           const struct governor_cost *cost, double share)
{
    double half_width_ns =
        governor->options.budget / 2 * governor_mean_step_ns(governor) / share;

    if (!cost->result.known)
        return EXPERIMENT_PAIRS_MIN - (double)cost->experiment.pairs;
    return experiment_pairs_needed(&cost->result, half_width_ns) - cost->result.pairs;
}

static uint64_t steps_needed(const struct governor *governor)
{
    double recorded = draw_recorded_share(governor->block, governor->rate);
    double ordinary = 1 - recorded - draw_control_share(governor->block);
    double blocks[2] = {0, 0};

    if (recorded > 0)
        blocks[0] = blocks_until(governor, recorded,
                                 pairs_needed(governor, &governor->recorded, recorded));
    if (ordinary > SHARE_MIN && governor->ordinary_flags != 0)
        blocks[1] = blocks_until(governor, ordinary,
                                 pairs_needed(governor, &governor->ordinary, ordinary));
    return (uint64_t)(governor->options.block_steps *
                      (blocks[0] > blocks[1] ? blocks[0] : blocks[1]));
}

/* A part of the cost: its mean and the ends of its interval, over the calibrated cost. */
struct part {
    double mean, low, high;
    bool measured;
};

static struct part part_of(const struct governor *governor,
                           const struct experiment_result *result)
{
    if (governor->options.level != WIRE_LEVEL_AUTO || !result->known ||
        !(result->predicted_ns > 0))
        return (struct part){1, 0, GOVERNOR_COST_MAX, false};
    return (struct part){result->effect_ns / result->predicted_ns,
                         result->low_ns / result->predicted_ns,
                         result->high_ns / result->predicted_ns, true};
}

static enum wire_governor_state state_of(const struct governor *governor,
                                         const struct governor_report *report,
                                         bool measured)
{
    if (governor->options.level != WIRE_LEVEL_AUTO)
        return WIRE_GOVERNOR_FIXED;
    if (governor->nothing_fits)
        return WIRE_GOVERNOR_NOTHING_FITS;
    return measured && report->high_pct - report->low_pct <= report->budget_pct
               ? WIRE_GOVERNOR_SETTLED
               : WIRE_GOVERNOR_MEASURING;
}

void governor_report(const struct governor *governor, struct governor_report *report)
{
    const struct governor_sums *sums = &governor->sums;
    double percent = sums->time_ns > 0 ? 100 / sums->time_ns : 0;
    double recorded_pct = sums->recorded_ns * percent;
    double ordinary_pct = sums->ordinary_ns * percent;
    double burst_pct = sums->burst_ns * percent, bare_pct = sums->bare_ns * percent;
    struct part recorded = part_of(governor, &governor->recorded.result);
    struct part ordinary = part_of(governor, &governor->ordinary.result);
    const struct experiment *compared = governor->rate == DRAW_RATE_NONE
                                            ? &governor->ordinary.experiment
                                            : &governor->recorded.experiment;
    uint64_t block =
        governor->options.block_steps > 1 ? governor->options.block_steps - 1 : 1;
    bool measured = (recorded.measured || !(recorded_pct + burst_pct > 0)) &&
                    (ordinary.measured ||
                     ordinary_pct <= OLD_COST_SHARE * 100 * governor->options.budget);

    *report = (struct governor_report){
        .budget_pct = 100 * governor->options.budget,
        .known = sums->time_ns > 0,
        .detail_pct = sums->detail_ns * percent * recorded.mean,
        .burst_pct = burst_pct * recorded.mean,
        .fixed_pct = (recorded_pct - sums->detail_ns * percent) * recorded.mean +
                     ordinary_pct * ordinary.mean + bare_pct,
        .interval_known =
            governor->options.level == WIRE_LEVEL_AUTO && sums->time_ns > 0,
        .low_pct = (recorded_pct + burst_pct) * recorded.low +
                   ordinary_pct * ordinary.low + bare_pct / MARK_COST_MAX,
        .high_pct = (recorded_pct + burst_pct) * recorded.high +
                    ordinary_pct * ordinary.high + bare_pct * MARK_COST_MAX,
        .recorded_share = sums->steps > 0 ? sums->recorded_steps / sums->steps : 0,
        .phases_share = sums->steps > 0 ? sums->phase_steps / sums->steps : 0,
        .cost_factor = recorded.mean,
        .recorded_steps = compared->units[DRAW_RECORDED] * block,
        .control_steps = compared->units[DRAW_CONTROL] * block,
        .rate = governor->rate,
    };
    report->measured_pct = report->detail_pct + report->burst_pct + report->fixed_pct;
    report->state = state_of(governor, report, measured);
    if (report->state == WIRE_GOVERNOR_MEASURING)
        report->steps_needed = steps_needed(governor);
    if (!report->interval_known)
        report->low_pct = report->high_pct = 0;
}
