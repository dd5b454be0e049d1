#include "probe/budget/experiment.h"

#include <string.h>

#define CLIP_SPREADS    3.5     /* 1.5 standard deviations of a normal distribution */
#define CLIP_NS_MIN     10.0    /* equal durations: clocks resolve no better */
#define ROUNDS          8       /* Newton's from the median; 3 to 5 change anything */
#define NORMAL_975      1.95996 /* quantile of the normal distribution */
#define ERROR_NS_MIN    1.0     /* no batch may weigh more than the clock is good for */
#define FADE            (31.0 / 32) /* of a batch's weight when the next one is folded */
#define HUBER_PAIRS_MIN 12u         /* below, the densest third is luck */
#define COMBINE_PAIRS   32u /* a smaller open batch adds more noise than knowledge */

struct estimate {
    double effect_ns, error_ns, freedom;
};

struct score {
    double sum_ns, squares;
    unsigned inside; /* differences that were not clipped */
};

void experiment_init(struct experiment *experiment)
{
    *experiment = (struct experiment){.count = 0};
}

/* libm is not linked. Newton from a power of two within sqrt(2) of the root: 5 rounds
 * reach 52 bits. */
static double square_root(double value)
{
    if (!(value > 0))
        return 0;

    uint64_t bits;
    double root;

    memcpy(&bits, &value, sizeof(bits));
    bits =
        (bits >> 1) + (UINT64_C(0x1ff8) << 48); /* half the exponent, bias restored */
    memcpy(&root, &bits, sizeof(root));
    for (int round = 0; round < 5; round++)
        root = 0.5 * (root + value / root);
    return root;
}

/* 0.975 quantile of Student's t: the Cornish-Fisher expansion (Abramowitz and Stegun
 * 26.7.5), off by less than 0.1 % from 5 degrees on. */
static double student_975(double freedom)
{
    double inverse = 1 / freedom;

    return NORMAL_975 + inverse * (2.3722 + inverse * (2.8225 + inverse * 2.5558));
}

/* Half the length of the shortest stretch that holds a third of the differences. It
 * stays the spread of pairs of like steps while up to two thirds compare unlike ones.
 */
static double densest_spread(const double *sorted, unsigned count)
{
    unsigned third = count / 3;
    double shortest = sorted[third] - sorted[0];

    for (unsigned i = 1; i + third < count; i++)
        if (sorted[i + third] - sorted[i] < shortest)
            shortest = sorted[i + third] - sorted[i];
    return shortest / 2;
}

/* Huber's score of the differences from `center`: each counts up to `clip`. */
static struct score score_of(const double *sorted, unsigned count, double center,
                             double clip)
{
    struct score score = {.inside = 0};

    for (unsigned i = 0; i < count; i++) {
        double difference = sorted[i] - center;

        score.inside += difference < clip && difference > -clip;
        difference = difference > clip ? clip : difference;
        difference = difference < -clip ? -clip : difference;
        score.sum_ns += difference;
        score.squares += difference * difference;
    }
    return score;
}

static struct estimate huber_estimate(const double *sorted, unsigned count)
{
    double clip = CLIP_SPREADS * densest_spread(sorted, count);
    double center = 0.5 * (sorted[count / 2] + sorted[(count - 1) / 2]);
    double moved = clip = clip > CLIP_NS_MIN ? clip : CLIP_NS_MIN;
    struct score score = score_of(sorted, count, center, clip);

    for (int round = 0; round < ROUNDS && moved > clip / 1024; round++) {
        double shift = score.sum_ns / (score.inside > 0 ? score.inside : count);

        center += shift;
        moved = shift < 0 ? -shift : shift;
        score = score_of(sorted, count, center, clip);
    }

    double inside = score.inside > 6 ? score.inside : 6;
    double error = square_root(score.squares * count / (count - 1)) / inside;

    return (struct estimate){.effect_ns = center,
                             .error_ns = error > ERROR_NS_MIN ? error : ERROR_NS_MIN,
                             .freedom = inside - 1};
}

/* Weights are inverse variances: where a distribution is symmetric its centre and its
 * spread are uncorrelated, so the weights bring no bias. */
static void batch_fold(struct experiment *experiment)
{
    struct estimate batch = huber_estimate(experiment->sorted, experiment->count);
    double weight = 1 / (batch.error_ns * batch.error_ns);
    double predicted_ns = experiment->predicted_sum_ns / experiment->count;

    experiment->weight = FADE * experiment->weight + weight;
    experiment->weight_squares = FADE * FADE * experiment->weight_squares + weight;
    experiment->weighted_effect =
        FADE * experiment->weighted_effect + weight * batch.effect_ns;
    experiment->weighted_predicted =
        FADE * experiment->weighted_predicted + weight * predicted_ns;
    experiment->weighted_pairs = FADE * experiment->weighted_pairs + experiment->count;
    experiment->count = 0;
    experiment->predicted_sum_ns = 0;
}

static void difference_insert(struct experiment *experiment, double difference_ns)
{
    unsigned at = 0, end = experiment->count;

    while (at < end) {
        unsigned middle = (at + end) / 2;

        if (experiment->sorted[middle] < difference_ns)
            at = middle + 1;
        else
            end = middle;
    }
    memmove(&experiment->sorted[at + 1], &experiment->sorted[at],
            (experiment->count - at) * sizeof(experiment->sorted[0]));
    experiment->sorted[at] = difference_ns;
    experiment->count++;
}

static void pair_add(struct experiment *experiment, const struct experiment_unit *unit)
{
    const struct experiment_unit *pending = &experiment->pending;
    bool recorded_first = pending->arm == DRAW_RECORDED;
    const struct experiment_unit *recorded = recorded_first ? pending : unit;
    const struct experiment_unit *control = recorded_first ? unit : pending;

    difference_insert(experiment, recorded->step_ns - control->step_ns);
    experiment->predicted_sum_ns += recorded->predicted_ns;
    experiment->order_balance += recorded_first ? 1 : -1;
    experiment->pairs++;
    if (experiment->count == EXPERIMENT_BATCH)
        batch_fold(experiment);
}

void experiment_add(struct experiment *experiment, const struct experiment_unit *unit)
{
    const struct experiment_unit *pending = &experiment->pending;

    if (unit->arm == DRAW_IDLE)
        return;
    experiment->units[unit->arm]++;
    if (pending->arm == DRAW_IDLE || pending->arm == unit->arm) {
        experiment->pending = *unit; /* the nearest in time to a partner to come */
        return;
    }

    /* Where one arm is rare its neighbour would always have come first, and a drift
     * would look like a cost: the two orders take turns. A unit whose turn it is not
     * waits for its other neighbour. */
    int turn = pending->arm == DRAW_RECORDED ? 1 : -1;

    if (experiment->order_balance == turn && !experiment->pending_waits) {
        experiment->pending = *unit;
        experiment->pending_waits = true;
        return;
    }
    pair_add(experiment, unit);
    experiment->pending.arm = DRAW_IDLE;
    experiment->pending_waits = false;
}

/* Of fewer pairs than a spread can be told from: the sign test's interval, from the
 * smallest to the largest of up to 8 differences, without both of up to 11: 96 % and more,
 * whatever their distribution is. */
static void sign_result(const struct experiment *experiment,
                        struct experiment_result *result)
{
    unsigned count = experiment->count, out = count > 8 ? 1 : 0;
    const double *sorted = experiment->sorted;
    double low_ns = sorted[out], high_ns = sorted[count - 1 - out];

    *result = (struct experiment_result){
        .known = true,
        .effect_ns = 0.5 * (sorted[count / 2] + sorted[(count - 1) / 2]),
        .low_ns = low_ns,
        .high_ns = high_ns,
        .error_ns = (high_ns - low_ns) / (2 * NORMAL_975) + ERROR_NS_MIN,
        .predicted_ns = experiment->predicted_sum_ns / count,
        .pairs = count,
    };
}

void experiment_result(const struct experiment *experiment,
                       struct experiment_result *result)
{
    double weight = experiment->weight, squares = experiment->weight_squares;
    double effect = experiment->weighted_effect;
    double predicted = experiment->weighted_predicted;
    double pairs = experiment->weighted_pairs, freedom = pairs;
    unsigned count = experiment->count;

    *result = (struct experiment_result){.known = false};
    if (!(weight > 0) && count >= EXPERIMENT_PAIRS_MIN && count < HUBER_PAIRS_MIN) {
        sign_result(experiment, result);
        return;
    }
    if (count >= (weight > 0 ? COMBINE_PAIRS : HUBER_PAIRS_MIN)) {
        struct estimate batch = huber_estimate(experiment->sorted, count);
        double batch_weight = 1 / (batch.error_ns * batch.error_ns);

        weight += batch_weight;
        squares += batch_weight;
        effect += batch_weight * batch.effect_ns;
        predicted += batch_weight * experiment->predicted_sum_ns / count;
        pairs += count;
        freedom += batch.freedom;
    }
    if (!(weight > 0))
        return;

    double error_ns = square_root(squares) / weight;
    double half_width_ns = student_975(freedom) * error_ns;

    *result = (struct experiment_result){
        .known = true,
        .effect_ns = effect / weight,
        .low_ns = effect / weight - half_width_ns,
        .high_ns = effect / weight + half_width_ns,
        .error_ns = error_ns,
        .predicted_ns = predicted / weight,
        .pairs = pairs,
    };
}

double experiment_pairs_needed(const struct experiment_result *result,
                               double half_width_ns)
{
    if (!result->known || !(half_width_ns > 0))
        return 0;

    double ratio = NORMAL_975 * result->error_ns / half_width_ns;
    double pairs = result->pairs * ratio * ratio;

    return pairs > EXPERIMENT_PAIRS_MIN ? pairs : EXPERIMENT_PAIRS_MIN;
}
