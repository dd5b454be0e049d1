#include "query/warm_up.h"

#include <math.h>

#include "query/numbers.h"

#define USUAL_STEPS 64u

bool warm_up_goes_on(struct warm_up *warm_up, double ns, double median_ns)
{
    bool slow = ns > WARM_UP_SLOW * median_ns;

    if (warm_up->calm >= WARM_UP_CALM || warm_up->seen >= WARM_UP_MOST)
        return false;
    warm_up->seen++;
    warm_up->calm = slow ? 0 : warm_up->calm + 1;
    warm_up->end = slow ? warm_up->seen : warm_up->end;
    return true;
}

/* The median of the newest training steps; NaN without any. */
static double usual_ns(const struct steps *steps, uint32_t first, uint32_t count)
{
    double ns[USUAL_STEPS];
    uint32_t kept = 0;

    for (uint32_t i = first + count; i-- > first && kept < USUAL_STEPS;)
        if (!(steps_at(steps, i)->flags & (EVENT_STEP_VALIDATION | EVENT_STEP_WINDOW)))
            ns[kept++] = (double)steps_at(steps, i)->duration_ns;
    numbers_sort(ns, kept);
    return numbers_quantile(ns, kept, 0.5);
}

uint32_t warm_up_steps(const struct pick *pick)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);
    struct warm_up warm_up = {0};

    if (count == 0 || steps_at(steps, first)->number >= WARM_UP_CALM)
        return 0;
    double usual = usual_ns(steps, first, count);

    for (uint32_t i = first; i < first + count / 4; i++)
        if (!warm_up_goes_on(&warm_up, (double)steps_at(steps, i)->duration_ns, usual))
            break;
    return warm_up.end;
}
