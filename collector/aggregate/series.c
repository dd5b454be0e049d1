#include "aggregate/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

static const struct {
    int64_t width_ns;
    uint32_t limit;
} resolutions[SERIES_RESOLUTIONS] = {
    {NS_PER_S, 3600}, {10 * NS_PER_S, 2160}, {60 * NS_PER_S, 10080}};

void series_free(struct series *series)
{
    for (uint32_t i = 0; i < SERIES_RESOLUTIONS; i++)
        free(series->rings[i].buckets);
    *series = (struct series){0};
}

/* A full ring that may still grow is laid out from its first bucket again. */
static bool grow(struct series_ring *ring, uint32_t limit)
{
    uint32_t capacity = ring->capacity == 0 ? 64 : ring->capacity * 2;

    if (ring->capacity >= limit)
        return false;
    capacity = capacity > limit ? limit : capacity;
    struct series_bucket *buckets = malloc(capacity * sizeof(*buckets));

    if (buckets == NULL)
        return false;
    for (uint32_t i = 0; i < ring->count; i++)
        buckets[i] = *series_at(ring, i);
    free(ring->buckets);
    *ring = (struct series_ring){
        .buckets = buckets, .capacity = capacity, .count = ring->count};
    return true;
}

/* The bucket of `time_ns`, made when it is newer than all; NULL without memory. */
static struct series_bucket *bucket(struct series_ring *ring, uint32_t resolution,
                                    int64_t time_ns)
{
    int64_t width = resolutions[resolution].width_ns;
    int64_t start = time_ns >= 0 ? time_ns / width * width
                                 : -((-time_ns + width - 1) / width) * width;

    if (ring->count > 0) {
        uint32_t last = (ring->first + ring->count - 1) % ring->capacity;

        if (start <= ring->buckets[last].start_ns)
            return &ring->buckets[last];
    }
    if (ring->count == ring->capacity && !grow(ring, resolutions[resolution].limit)) {
        if (ring->count == 0)
            return NULL;
        ring->first = (ring->first + 1) % ring->capacity;
        ring->count--;
    }
    struct series_bucket *fresh =
        &ring->buckets[(ring->first + ring->count++) % ring->capacity];

    *fresh = (struct series_bucket){.start_ns = start};
    return fresh;
}

static void add(struct series_bucket *at, int64_t tag, const double *values,
                uint32_t channels)
{
    if (!isnan(values[0]) && (at->counts[0] == 0 || (float)values[0] > at->max[0]))
        at->tag = tag;
    at->count++;
    for (uint32_t c = 0; c < channels; c++) {
        float value = (float)values[c];

        if (isnan(values[c]))
            continue;
        at->sum[c] += value;
        at->min[c] = at->counts[c] == 0 || value < at->min[c] ? value : at->min[c];
        at->max[c] = at->counts[c] == 0 || value > at->max[c] ? value : at->max[c];
        at->counts[c]++;
    }
}

void series_add(struct series *series, int64_t time_ns, int64_t tag,
                const double *values, uint32_t channels)
{
    for (uint32_t i = 0; i < SERIES_RESOLUTIONS; i++) {
        struct series_bucket *at = bucket(&series->rings[i], i, time_ns);

        if (at != NULL)
            add(at, tag, values, channels);
    }
}

const struct series_bucket *series_at(const struct series_ring *ring, uint32_t i)
{
    uint32_t at = ring->first + i; /* both below its capacity */

    return &ring->buckets[at < ring->capacity ? at : at - ring->capacity];
}

int64_t series_width_ns(const struct series *series, const struct series_ring *ring)
{
    return resolutions[ring - series->rings].width_ns;
}

const struct series_ring *series_pick(const struct series *series, int64_t from_ns,
                                      int64_t to_ns, uint32_t most)
{
    for (uint32_t i = 0; i + 1 < SERIES_RESOLUTIONS; i++) {
        const struct series_ring *ring = &series->rings[i];
        bool whole = ring->count < resolutions[i].limit ||
                     series_at(ring, 0)->start_ns <= from_ns;

        if (ring->count > 0 && whole &&
            (to_ns - from_ns) / resolutions[i].width_ns < (int64_t)most)
            return ring;
    }
    return &series->rings[SERIES_RESOLUTIONS - 1];
}
