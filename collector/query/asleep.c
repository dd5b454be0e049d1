#include "query/asleep.h"

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
                       struct numbers_series means[], struct asleep *asleep)
{
    for (uint32_t part = 0; part <= EVENT_PHASES; part++) {
        double sum = (double)bucket->sum[part];

        sums[part] += sum;
        numbers_series_add(&means[part], sum / bucket->counts[part]);
    }
    asleep->looks += bucket->counts[0];
}

void parts_asleep(const struct pick *pick, struct asleep *asleep)
{
    const struct answer_window *window = &pick->head->window;
    const struct process_asleep *from = &pick->process->asleep;
    const struct series_ring *ring =
        series_pick(&from->shares, window->from_ns, window->to_ns, 3600);
    int64_t width = series_width_ns(&from->shares, ring);
    struct numbers_series means[EVENT_PHASES + 1] = {{0}};
    double sums[EVENT_PHASES + 1] = {0};

    *asleep = (struct asleep){0};
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width > window->from_ns &&
            bucket->start_ns < window->to_ns && bucket->counts[0] > 0)
            add_bucket(bucket, sums, means, asleep);
    }
    bool enough = asleep->looks >= LOOKS_NEEDED && means[0].count >= BUCKETS_NEEDED;

    for (uint32_t part = 0; part <= EVENT_PHASES; part++) {
        asleep->share[part] = enough ? sums[part] / asleep->looks : (double)NAN;
        asleep->error[part] =
            enough ? numbers_series_error(&means[part], means[part].count)
                   : (double)NAN;
        asleep->place[part] = place_of(pick->head, from->places[part]);
    }
}
