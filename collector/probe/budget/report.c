/* What the governor knows, for the page: shares of the recent past, and the interval. The
 * one rule: it reads, and decides nothing. */
#include "probe/budget/governor.h"

/* Pairs come once per two arms' worth of blocks, and ever more slowly while the control
 * group shrinks: summed over stretches of a quarter of the job so far. */
static double blocks_until(const struct governor *governor, double pairs)
{
    double blocks = 0;

    for (unsigned stretch = 0; stretch < 64 && pairs > 0; stretch++) {
        double at = (double)governor->block + blocks, span = at / 4 + 1;
        uint64_t middle = (uint64_t)(at + span / 2);
        double control = draw_control_share(middle);
        double recorded = draw_recorded_share(middle, governor->rate);
        double gain = span * recorded * control / (recorded + control + 1e-9);

        blocks += gain > pairs ? span * pairs / gain : span;
        pairs -= gain;
    }
    return blocks;
}

static uint64_t steps_needed(const struct governor *governor)
{
    const struct experiment_result *result = &governor->result;
    double share = draw_recorded_share(governor->block, governor->rate);

    if (!result->known || !(share > 0))
        return 0;

    double half_width_ns =
        governor->options.budget / 2 * governor_mean_step_ns(governor) / share;
    double pairs = experiment_pairs_needed(result, half_width_ns) - result->pairs;

    return (uint64_t)(governor->options.block_steps * blocks_until(governor, pairs));
}

void governor_report(const struct governor *governor, struct governor_report *report)
{
    const struct experiment_result *result = &governor->result;
    const struct governor_sums *sums = &governor->sums;
    double percent = sums->time_ns > 0 ? 100 / sums->time_ns : 0;
    double detail_pct = sums->detail_ns * percent;
    uint64_t compared =
        governor->options.block_steps > 1 ? governor->options.block_steps - 1 : 1;
    bool automatic = governor->options.level == WIRE_LEVEL_AUTO;

    *report = (struct governor_report){
        .budget_pct = 100 * governor->options.budget,
        .detail_pct = detail_pct,
        .burst_pct = sums->burst_ns * percent,
        .fixed_pct = sums->fixed_ns * percent,
        .recorded_share = sums->steps > 0 ? sums->recorded_steps / sums->steps : 0,
        .cost_factor = 1,
        .recorded_steps = governor->experiment.units[DRAW_RECORDED] * compared,
        .control_steps = governor->experiment.units[DRAW_CONTROL] * compared,
        .rate = governor->rate,
        .state = !automatic               ? WIRE_GOVERNOR_FIXED
                 : governor->nothing_fits ? WIRE_GOVERNOR_NOTHING_FITS
                                          : WIRE_GOVERNOR_MEASURING,
    };
    if (automatic && result->known && result->predicted_ns > 0) {
        double spent_pct = report->burst_pct + report->fixed_pct;

        report->interval_known = true;
        report->cost_factor = result->effect_ns / result->predicted_ns;
        report->detail_pct = detail_pct * report->cost_factor;
        report->low_pct =
            detail_pct * result->low_ns / result->predicted_ns + spent_pct;
        report->high_pct =
            detail_pct * result->high_ns / result->predicted_ns + spent_pct;
        report->steps_needed = steps_needed(governor);
        if (report->state == WIRE_GOVERNOR_MEASURING &&
            report->high_pct - report->low_pct <= report->budget_pct)
            report->state = WIRE_GOVERNOR_SETTLED;
    }
    report->measured_pct = report->detail_pct + report->burst_pct + report->fixed_pct;
}
