#include "findings/gone.h"

#include <math.h>

/* How fast the former level follows: looks come once a second, windows hold ten and more
 * of them. */
#define FOLLOW 0.2

/* Of the price that must surely be gone. */
#define GONE_MEASURED  0.5
#define GONE_ESTIMATED 0.25

struct gone_level gone_level_of(const struct bottlenecks_answer *summary,
                                double least_ns)
{
    const struct steps_summary *train = &summary->steps.train;
    struct gone_level level = {
        .first_step = summary->head.window.first_step,
        .full = (double)train->count / train->steps_per_s * 1e9 >= least_ns,
        .left_ns = summary->rhythm.other_left_ns,
        .left_error_ns = summary->rhythm.other_left_error_ns};

    _Static_assert((int)PART_OTHER == (int)EVENT_PHASES, "a phase is a claim's part");
    bool rare = train->typical.rare > 0; /* of parts what is typical: it is surer */

    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        level.ns[i] = rare ? train->typical.phase_ns[i] : train->phase_ns[i];
        level.error_ns[i] =
            rare ? train->typical.phase_error_ns[i] : train->phase_error_ns[i];
    }
    level.ns[PART_OTHER] = rare ? train->typical.other_ns : train->other_ns;
    level.error_ns[PART_OTHER] =
        rare ? train->typical.other_error_ns : train->other_error_ns;
    level.ns[CLAIM_PARTS] = train->mean_ns;
    level.error_ns[CLAIM_PARTS] = train->mean_ns * train->error_pct / 100;
    return level;
}

static uint32_t part_of(const struct finding *finding)
{
    uint32_t part = finding->claim_count > 0 ? finding->claims[0].part : CLAIM_PARTS;

    for (uint32_t i = 1; i < finding->claim_count; i++)
        part = finding->claims[i].part == part ? part : CLAIM_PARTS;
    return part;
}

void gone_follow(struct gone_former *former, const struct finding *finding,
                 const struct gone_level *level, bool first)
{
    uint32_t part = part_of(finding);
    double own = level->ns[part], step = level->ns[CLAIM_PARTS];
    double left = finding->rule->left_of_other ? level->left_ns : (double)NAN;
    bool anew = first || part != former->part || isnan(former->part_ns) ||
                isnan(former->step_ns);

    *former = (struct gone_former){
        .part = part,
        .risk = !(finding->ns_per_step > 0),
        .claims = finding->claim_count > 0,
        .estimated = finding->estimated,
        .price_ns = finding->ns_per_step,
        .price_error_ns = finding->error_ns,
        .part_ns = anew ? own : former->part_ns + FOLLOW * (own - former->part_ns),
        .part_error_ns = level->error_ns[part],
        .step_ns = anew ? step : former->step_ns + FOLLOW * (step - former->step_ns),
        .step_error_ns = level->error_ns[CLAIM_PARTS],
        .left_ns = anew || isnan(former->left_ns)
                       ? left
                       : former->left_ns + FOLLOW * (left - former->left_ns),
        .left_error_ns = level->left_error_ns,
    };
}

bool gone_is_tellable(const struct gone_former *former)
{
    return former->risk || former->claims;
}

/* The lower end of F - N. NaN where an interval is not known: then nothing is sure. */
static double least_gone(double before, double before_error, double price_error,
                         double after, double after_error)
{
    double own = before_error * before_error - price_error * price_error;

    return before - after - sqrt((own < 0 ? 0 : own) + after_error * after_error);
}

double gone_price(const struct gone_former *former, double price_ns)
{
    return price_ns > 0 || !(former->price_ns > 0) ? price_ns : former->price_ns;
}

bool gone_is_sure(const struct gone_former *former, double price_ns,
                  const struct gone_level *after)
{
    double needed = gone_price(former, price_ns) *
                    (former->estimated ? GONE_ESTIMATED : GONE_MEASURED);
    double of_part =
        least_gone(former->part_ns, former->part_error_ns, former->price_error_ns,
                   after->ns[former->part], after->error_ns[former->part]);
    double of_step =
        least_gone(former->step_ns, former->step_error_ns, former->price_error_ns,
                   after->ns[CLAIM_PARTS], after->error_ns[CLAIM_PARTS]);
    double of_left =
        least_gone(former->left_ns, former->left_error_ns, former->price_error_ns,
                   after->left_ns, after->left_error_ns);

    if (!after->full)
        return false;
    return former->risk || (former->claims && (of_part >= needed || of_step >= needed ||
                                               of_left >= needed));
}
