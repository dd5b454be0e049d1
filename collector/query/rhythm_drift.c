/* Steps that become slower and slower, and those that are longer for the size of their batch. */

#include "query/rhythm_inside.h"

/* Buckets for a trend. */
#define DRIFT_POINTS NUMBERS_SLOPE_MAX
#define DRIFT_LEAST  0.1 /* of the first level: less is no trend worth a name */

/* One that began lately is looked for among the newest half of the steps, and the newest of
 * that, and so on: in so many tries noise finds a rise, but none as steep. Of short steps
 * they are those of some seconds: less is a neighbour who came. */
#define DRIFT_STEEP     0.5
#define DRIFT_NEWEST    64u
#define DRIFT_NEWEST_NS INT64_C(2500000000)

/* Medians of neighbouring steps, from the item `first` on: `part` RHYTHM_PARTS for what is left of
 * whole steps. */
static uint32_t levels(struct rhythm_work *work, uint32_t first, uint32_t part,
                       double *times, double *values)
{
    uint32_t count = work->count - first;
    uint32_t points = count < 4 * DRIFT_POINTS ? count / 4 : DRIFT_POINTS;

    for (uint32_t p = 0; p < points; p++) {
        uint32_t from = first + (uint32_t)((uint64_t)count * p / points);
        uint32_t to = first + (uint32_t)((uint64_t)count * (p + 1) / points);

        for (uint32_t i = from; i < to; i++) {
            double ns = part == RHYTHM_PARTS
                            ? work->items[i].left
                            : rhythm_part_ns(work->items[i].step, part);

            work->numbers[i - from] = isnan(ns) ? 0 : ns;
        }
        times[p] = (from + to) / 2.0;
        values[p] = numbers_median(work->numbers, to - from);
    }
    return points;
}

/* Among the items from `from` on; false where there is none. */
static bool drifts(struct rhythm_work *work, uint32_t from, struct rhythm *rhythm)
{
    double times[DRIFT_POINTS], values[DRIFT_POINTS], most = 0;
    double count = work->count - from;
    uint32_t points = levels(work, from, RHYTHM_PARTS, times, values);

    if (!numbers_rises(values, points, DRIFT_LEAST / 4))
        return false;
    struct numbers_trend trend = numbers_trend(times, values, points);
    double rise = trend.slope * count;

    if (!(trend.sure || trend.climbs) || !(rise > 0))
        return false;
    double middle = from == 0 ? work->median : numbers_median(values, points);
    double first = middle > rise / 2 ? middle - rise / 2 : 0;
    double error = trend.climbs ? fmin(trend.error, trend.walked) : trend.error;

    if (rise < (from == 0 ? DRIFT_LEAST : DRIFT_STEEP) * first)
        return false;
    rhythm->first_ns = first;
    rhythm->last_ns = first + rise;
    rhythm->drift.ns_per_step = rise / 2 * count / work->count;
    rhythm->drift.steps = work->count - from;
    rhythm->drift.error_ns = error * count / 2 * count / work->count;
    rhythm->drift.part = EVENT_PHASES;
    rhythm->drift.worst_step = (int64_t)work->items[work->count - 1].step->number;
    rhythm->drift.worst_ns = rise;
    for (uint32_t part = 0; part < RHYTHM_PARTS; part++) {
        int sure = 0;

        points = levels(work, from, part, times, values);
        double slope = numbers_slope(times, values, points, &sure);
        if (sure && slope > most) {
            most = slope;
            rhythm->drift.part = part;
        }
    }
    /* Of a whole window the median is the middle of the rise. */
    for (uint32_t i = from; from > 0 && i < work->count; i++)
        work->items[i].left -=
            fmin(rise * (i - from + 0.5) / count, rhythm_over(work, i));
    return true;
}

/* So many of the newest tell whether they drift. */
static bool are_enough(const struct rhythm_work *work, uint32_t count)
{
    return count >= DRIFT_NEWEST &&
           work->items[work->count - 1].step->start_ns -
                   work->items[work->count - count].step->start_ns >=
               DRIFT_NEWEST_NS;
}

void rhythm_find_drift(struct rhythm_work *work, struct rhythm *rhythm)
{
    uint32_t count = work->count;

    while (!drifts(work, work->count - count, rhythm) && are_enough(work, count / 2))
        count /= 2;
}

/* ---- batches of different size: what longer texts or larger images take is work ------ */

/* Two factors are alike where neither changes by more than twice what the other does: of a
 * step some is the same for all sizes, and in forward it may be more than in backward. A
 * pause lies in one of them. */
#define ALIKE 2.0

/* Forward and backward are so many times as long as usual; false where the size of the
 * batch is not what makes them so. */
static bool grew_alike(const struct rhythm_work *work, const struct step *step,
                       double *least, double *most)
{
    double forward =
        rhythm_part_ns(step, EVENT_PHASE_FORWARD) / work->medians[EVENT_PHASE_FORWARD];
    double backward = rhythm_part_ns(step, EVENT_PHASE_BACKWARD) /
                      work->medians[EVENT_PHASE_BACKWARD];
    double one = forward - 1, other = backward - 1;

    *least = fmin(forward, backward);
    *most = fmax(forward, backward);
    /* NaN, where a phase is not known: none of it holds. */
    return one * other > 0 && fabs(one) <= ALIKE * fabs(other) &&
           fabs(other) <= ALIKE * fabs(one);
}

/* How much longer the step is for its size, less where it is shorter: forward and backward,
 * and the others as far as they grew by no more than these. */
static double size_ns(const struct rhythm_work *work, const struct step *step)
{
    double least, most, sum = 0;

    if (!grew_alike(work, step, &least, &most))
        return 0;
    for (uint32_t part = 0; part < RHYTHM_PARTS; part++) {
        double median = work->medians[part];
        double grown = rhythm_part_ns(step, part) - median;

        if (isnan(grown))
            continue;
        if (part != EVENT_PHASE_FORWARD && part != EVENT_PHASE_BACKWARD)
            grown = fmax(fmin(grown, fmax(most - 1, 0) * median),
                         fmin(least - 1, 0) * median);
        sum += grown;
    }
    return sum;
}

void rhythm_take_sizes(struct rhythm_work *work, struct rhythm *rhythm)
{
    struct rhythm_sums sums = {0};

    for (uint32_t i = 0; i < work->count; i++) {
        double over = work->items[i].left - work->median;
        double ns = size_ns(work, work->items[i].step);

        /* What is explained already is not explained again. */
        ns = fmax(fmin(ns, fmax(over, 0)), fmin(over, 0));
        if (ns != 0)
            rhythm_take(work, &sums, i, ns);
    }
    if (sums.extra.steps > 0)
        rhythm->sizes = rhythm_finish(work, &sums);
}
