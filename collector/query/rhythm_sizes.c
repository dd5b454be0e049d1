/* Batches of different size: what longer texts or larger images take is work. */

#include "query/rhythm_inside.h"

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
