#include "query/parts.h"

#define MOST_STEPS  100u /* what is slow for longer is how the run is */
#define SLOW        1.5  /* medians; what varies by less is no warm-up */
#define USUAL_STEPS 64u  /* whose median is one */

bool warm_up_goes_on(struct warm_up *warm_up, double ns, double median_ns)
{
    bool slow = ns > SLOW * median_ns;

    if (warm_up->calm >= WARM_UP_CALM || warm_up->seen >= MOST_STEPS)
        return false;
    warm_up->seen++;
    warm_up->calm = slow ? 0 : warm_up->calm + 1;
    warm_up->end = slow ? warm_up->seen : warm_up->end;
    return true;
}

static bool trains(const struct step *step)
{
    return !(step->flags & STEP_APART);
}

/* The median of the newest; NaN without any. */
static double usual_ns(const struct steps *steps, uint32_t first, uint32_t count)
{
    double ns[USUAL_STEPS];
    uint32_t kept = 0;

    for (uint32_t i = first + count; i-- > first && kept < USUAL_STEPS;)
        if (trains(steps_at(steps, i)))
            ns[kept++] = (double)steps_at(steps, i)->duration_ns;
    return numbers_median(ns, kept);
}

uint32_t warm_up_unknown(const struct steps *steps, uint32_t first, uint32_t count)
{
    struct warm_up warm_up = {0};
    uint32_t unknown = 0, trained = 0;

    if (first > 0 || steps->count > steps_remembered(steps))
        return 0; /* the run's first are not among them */
    double usual = usual_ns(steps, first, count);

    for (uint32_t i = 0; i < count; i++)
        trained += trains(steps_at(steps, i));
    for (uint32_t i = 0; i < count && 4 * (warm_up.seen + 1) <= trained; i++) {
        const struct step *step = steps_at(steps, i);

        if (!trains(step))
            continue;
        if (step->flags & EVENT_STEP_KERNELS ||
            (warm_up.seen == 0 && step->number >= WARM_UP_CALM) || /* a late look */
            !warm_up_goes_on(&warm_up, (double)step->duration_ns, usual))
            break;
        if (warm_up.end == warm_up.seen)
            unknown = i + 1;
    }
    return unknown;
}
