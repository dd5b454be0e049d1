#include "query/parts.h"

/* Of fewer the interval says nothing: 4 s of steps that are all recorded. */
#define LOOKS_NEEDED   100u
#define BUCKETS_NEEDED 4u

/* The kernel names no place for a thread that it still counts as ready, as one that fell
 * asleep a moment ago on a busy core: what it does name speaks for those too. */
static const char *place_of(struct answer *head, const struct process_place *places)
{
    const struct process_place *most = NULL;

    for (uint32_t i = 0; i < PROCESS_PLACES; i++)
        if (places[i].count > (most == NULL ? 0 : most->count) &&
            places[i].name[0] != '\0')
            most = &places[i];
    return most == NULL ? "" : arena_text(&head->arena, most->name);
}

/* Of a series of looks, each 0 or 1 by channel, what the window has. */
struct look_sums {
    uint32_t looks;
    double sums[SERIES_CHANNELS];
    struct numbers_series
        means[SERIES_CHANNELS]; /* neighbours that are alike count less */
};

static void sum_looks(const struct series *series, const struct answer_window *window,
                      struct look_sums *sums)
{
    const struct series_ring *ring =
        series_pick(series, window->from_ns, window->to_ns, 3600);
    int64_t width = series_width_ns(series, ring);

    *sums = (struct look_sums){0};
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= window->from_ns ||
            bucket->start_ns >= window->to_ns || bucket->counts[0] == 0)
            continue;
        for (uint32_t k = 0; k < SERIES_CHANNELS; k++) {
            sums->sums[k] += (double)bucket->sum[k];
            numbers_series_add(&sums->means[k],
                               (double)bucket->sum[k] / bucket->counts[0]);
        }
        sums->looks += bucket->counts[0];
    }
}

static struct between_ops_share share_of(const struct look_sums *sums, uint32_t channel)
{
    const struct numbers_series *mean = &sums->means[channel];

    if (sums->looks < LOOKS_NEEDED || mean->count < BUCKETS_NEEDED)
        return (struct between_ops_share){UNKNOWN, UNKNOWN};
    return (struct between_ops_share){sums->sums[channel] / sums->looks,
                                      numbers_series_error(mean, mean->count)};
}

/* Of those training steps that ingest looks at. */
static double other_share(const struct pick *pick)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);
    double other = 0, all = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);
        double ns = step_other_ns(step);

        if (!(step->flags & EVENT_STEP_OPS) || isnan(ns) ||
            (step->flags & (EVENT_STEP_TAGGED | STEP_APART)) != 0)
            continue;
        other += ns;
        all += (double)step->duration_ns;
    }
    return other / all;
}

void parts_between_ops(const struct pick *pick, struct between_ops *between)
{
    const struct answer_window *window = &pick->head->window;
    const struct process_between_ops *from = &pick->process->between_ops;
    struct look_sums shares, behind;

    sum_looks(&from->shares, window, &shares);
    sum_looks(&from->behind, window, &behind);
    *between =
        (struct between_ops){.looks = shares.looks, .other_share = other_share(pick)};
    for (uint32_t part = 0; part <= EVENT_PHASES; part++) {
        between->asleep[part] = share_of(&shares, part);
        between->behind[part] = share_of(&behind, part);
        between->place[part] = place_of(pick->head, from->places[part]);
    }
    between->busy_forward = share_of(&shares, PROCESS_LOOK_BUSY_FORWARD);
    between->busy_nowhere = share_of(&shares, PROCESS_LOOK_BUSY_NOWHERE);
    between->runner = from->runner.tid;
    if (from->runner.tid != 0)
        between->runner_name = arena_text(&pick->head->arena, from->runner.name);
}
