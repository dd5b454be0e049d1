#include "query/between_ops.h"

#include <math.h>

#include "query/numbers.h"
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

/* Buckets that lie in the window; neighbours that are alike count less. */
static void add_bucket(const struct series_bucket *bucket, double sums[],
                       struct numbers_series means[], struct between_ops *between)
{
    for (uint32_t i = 0; i < PROCESS_LOOKS; i++) {
        double sum = (double)bucket->sum[i];

        sums[i] += sum;
        numbers_series_add(&means[i], sum / bucket->counts[i]);
    }
    between->looks += bucket->counts[0];
}

static struct between_ops_share share_of(const struct between_ops *between, double sum,
                                         const struct numbers_series *mean)
{
    if (between->looks < LOOKS_NEEDED || mean->count < BUCKETS_NEEDED)
        return (struct between_ops_share){(double)NAN, (double)NAN};
    return (struct between_ops_share){sum / between->looks,
                                      numbers_series_error(mean, mean->count)};
}

void parts_between_ops(const struct pick *pick, struct between_ops *between)
{
    const struct answer_window *window = &pick->head->window;
    const struct process_between_ops *from = &pick->process->between_ops;
    const struct series_ring *ring =
        series_pick(&from->shares, window->from_ns, window->to_ns, 3600);
    int64_t width = series_width_ns(&from->shares, ring);
    struct numbers_series means[PROCESS_LOOKS] = {{0}};
    double sums[PROCESS_LOOKS] = {0};

    *between = (struct between_ops){0};
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width > window->from_ns &&
            bucket->start_ns < window->to_ns && bucket->counts[0] > 0)
            add_bucket(bucket, sums, means, between);
    }
    for (uint32_t part = 0; part <= EVENT_PHASES; part++) {
        between->asleep[part] = share_of(between, sums[part], &means[part]);
        between->place[part] = place_of(pick->head, from->places[part]);
    }
    between->busy_forward = share_of(between, sums[PROCESS_LOOK_BUSY_FORWARD],
                                     &means[PROCESS_LOOK_BUSY_FORWARD]);
    between->busy_nowhere = share_of(between, sums[PROCESS_LOOK_BUSY_NOWHERE],
                                     &means[PROCESS_LOOK_BUSY_NOWHERE]);
}
