/* A quantity over a long time: buckets of 1 s for an hour, of 10 s for six, of 60 s for
 * a week. Every value goes into all three; the oldest buckets fall out. */
#ifndef AGGREGATE_SERIES_H
#define AGGREGATE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#define SERIES_CHANNELS    8u
#define SERIES_RESOLUTIONS 3u

/* Unused channels hold zeros; NaN values are left out of sum, min and max. */
struct series_bucket {
    int64_t start_ns;
    int64_t tag; /* of the value with the largest channel 0 */
    uint32_t count;
    uint32_t counts[SERIES_CHANNELS]; /* values that were not NaN */
    float sum[SERIES_CHANNELS], min[SERIES_CHANNELS], max[SERIES_CHANNELS];
};

struct series_ring {
    struct series_bucket *buckets;
    uint32_t capacity; /* allocated; grows up to the resolution's limit */
    uint32_t first, count;
};

struct series {
    struct series_ring rings[SERIES_RESOLUTIONS];
};

void series_free(struct series *series);

/* Adds `channels` values at `time_ns`; a time before the newest bucket counts there. */
void series_add(struct series *series, int64_t time_ns, int64_t tag,
                const double *values, uint32_t channels);

/* The finest ring that reaches back to `from_ns` with at most `most` buckets up to
 * `to_ns`, else the coarsest. */
const struct series_ring *series_pick(const struct series *series, int64_t from_ns,
                                      int64_t to_ns, uint32_t most);

/* i from 0, oldest, to ring->count - 1. */
const struct series_bucket *series_at(const struct series_ring *ring, uint32_t i);
int64_t series_width_ns(const struct series *series, const struct series_ring *ring);

#endif
