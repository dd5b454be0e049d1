/* Means over time where the rows are a reduction: shortest and longest steps alone would
 * make every mean too large. */
#include <errno.h>

#include "query/parts.h"

#define MEANS_MAX 240u /* more than a plot of areas has columns */

/* What only the series know: a mean per bucket of theirs that ends before `until_ns`. */
static void from_series(const struct pick *pick, int64_t until_ns,
                        struct steps_answer *answer)
{
    const struct series *series = &pick->process->steps.series;
    const struct answer_window *window = &answer->head.window;
    const struct series_ring *ring =
        series_pick(series, window->from_ns, until_ns, MEANS_MAX / 2);
    int64_t width = series_width_ns(series, ring);

    for (uint32_t i = 0; i < ring->count && answer->mean_count < MEANS_MAX / 2; i++) {
        const struct series_bucket *bucket = series_at(ring, i);
        struct step_mean *mean = &answer->means[answer->mean_count];

        if (bucket->start_ns + width <= window->from_ns ||
            bucket->start_ns + width > until_ns || bucket->counts[0] == 0)
            continue;
        *mean = (struct step_mean){.time_ns = bucket->start_ns + width / 2,
                                   .steps = bucket->counts[0],
                                   .duration_ns =
                                       (double)bucket->sum[0] / bucket->counts[0]};
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            mean->phase_ns[phase] =
                bucket->counts[1 + phase] == 0
                    ? UNKNOWN
                    : (double)bucket->sum[1 + phase] / bucket->counts[1 + phase];
        answer->mean_count++;
    }
}

static void add(struct step_mean *sums, uint32_t *known, const struct step *step)
{
    sums->steps++;
    sums->duration_ns += (double)step->duration_ns;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        double ns = step_phase_ns(step, phase);

        if (isnan(ns))
            continue;
        sums->phase_ns[phase] += ns;
        known[phase]++;
    }
}

static void finish(struct step_mean *sums, const uint32_t *known)
{
    sums->duration_ns /= (double)sums->steps;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        sums->phase_ns[phase] =
            known[phase] == 0 ? UNKNOWN : sums->phase_ns[phase] / known[phase];
}

static void from_steps(const struct steps *steps, uint32_t first, uint32_t count,
                       struct steps_answer *answer)
{
    uint32_t room = MEANS_MAX - answer->mean_count, i = first;
    int64_t from = steps_at(steps, first)->start_ns;
    int64_t width = (steps_at(steps, first + count - 1)->start_ns - from) / room + 1;

    for (uint32_t bucket = 0; bucket < room; bucket++) {
        int64_t end = from + (int64_t)(bucket + 1) * width;
        struct step_mean sums = {.time_ns = end - width / 2};
        uint32_t known[EVENT_PHASES] = {0};

        for (; i < first + count && steps_at(steps, i)->start_ns < end; i++) {
            if ((steps_at(steps, i)->flags & EVENT_STEP_VALIDATION) == 0)
                add(&sums, known, steps_at(steps, i));
        }
        if (sums.steps == 0)
            continue;
        finish(&sums, known);
        answer->means[answer->mean_count++] = sums;
    }
}

int parts_means(const struct pick *pick, struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);

    if (!answer->decimated)
        return 0;
    if (!ARENA_LIST(&answer->head.arena, answer->means, MEANS_MAX))
        return -ENOMEM;
    if (!answer->head.window.complete && count > 0)
        from_series(pick, steps_at(steps, first)->start_ns, answer);
    if (count > 0)
        from_steps(steps, first, count, answer);
    return 0;
}
