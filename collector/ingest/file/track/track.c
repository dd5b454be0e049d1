#include "ingest/file/track/track.h"

#include <errno.h>
#include <stdlib.h>

#include "ingest/file/details.h"
#include "ingest/file/track/pack.h"

/* Records of a chunk: an open one has 14 KiB, which is sorted in the first-level cache. */
#define CHUNK 256u
#define FIRST 16u /* most threads of a large job have few events */

void track_free(struct track *track)
{
    for (uint32_t i = 0; i < track->chunk_count; i++)
        free(track->chunks[i]);
    free(track->chunks);
    free(track->open);
    *track = (struct track){.order = track->order};
}

/* Which of two with equal stamps began first: ids are given out at the start. */
static bool precedes_equal(const struct event *a, const struct event *b)
{
    bool ops =
        EVENT_KIND(a->meta) == EVENT_CPU_OP && EVENT_KIND(b->meta) == EVENT_CPU_OP;
    uint64_t left = FILE_EXTERNAL_ID(a->aux), right = FILE_EXTERNAL_ID(b->aux);

    return !ops || left == 0 || right == 0 || left <= right;
}

bool track_in_order(enum track_order order, const struct track_record *a,
                    const struct track_record *b)
{
    int64_t left = (int64_t)a->event.time, right = (int64_t)b->event.time;

    if (order == TRACK_GIVEN)
        return true;
    if (LIKELY(left != right))
        return left < right;
    if (order == TRACK_POINTS)
        return a->event.aux <= b->event.aux;
    if (order == TRACK_WORKS)
        return a->event.value <= b->event.value;
    if (a->event.value != b->event.value)
        return a->event.value > b->event.value;
    return precedes_equal(&a->event, &b->event);
}

/* By insertion: little is far from its place. */
static void sort(struct track *track)
{
    struct track_record *records = track->open;

    for (uint32_t i = 1; i < track->open_count; i++) {
        uint32_t at = i;

        if (LIKELY((int64_t)records[i - 1].event.time <
                   (int64_t)records[i].event.time) ||
            track_in_order(track->order, &records[i - 1], &records[i]))
            continue;
        struct track_record moved = records[i];

        for (; at > 0 && !track_in_order(track->order, &records[at - 1], &moved); at--)
            records[at] = records[at - 1];
        records[at] = moved;
    }
}

static bool reserve_chunk(struct track *track)
{
    uint32_t capacity = track->chunk_capacity == 0 ? 16 : track->chunk_capacity * 2;

    if (track->chunk_count < track->chunk_capacity)
        return true;
    struct track_chunk **chunks =
        realloc(track->chunks, capacity * sizeof(struct track_chunk *));

    if (chunks == NULL)
        return false;
    track->chunks = chunks;
    track->chunk_capacity = capacity;
    return true;
}

int track_seal(struct track *track)
{
    unsigned char packed[CHUNK * PACK_BYTES_MAX + PACK_SLACK], *end = packed;
    struct track_before state = {0};
    struct track_chunk *chunk;

    if (track->open_count == 0)
        return 0;
    sort(track);
    state.time = (int64_t)track->open[0].event.time;
    for (uint32_t i = 0; i < track->open_count; i++)
        end = pack_record(end, &state, &track->open[i]);
    uint32_t length = (uint32_t)(end - packed);

    chunk = malloc(sizeof(*chunk) + length + PACK_SLACK);
    if (chunk == NULL || !reserve_chunk(track)) {
        free(chunk);
        return -ENOMEM;
    }
    *chunk = (struct track_chunk){.first_ns = (int64_t)track->open[0].event.time,
                                  .index = track->chunk_count,
                                  .count = track->open_count,
                                  .length = length};
    memcpy(chunk->bytes, packed, length);
    memset(chunk->bytes + length, 0, PACK_SLACK);
    track->chunks[track->chunk_count++] = chunk;
    track->bytes += sizeof(*chunk) + length + PACK_SLACK;
    track->open_count = 0;
    return 0;
}

static bool grow_open(struct track *track)
{
    uint32_t capacity = track->open_capacity == 0 ? FIRST : track->open_capacity * 4;
    struct track_record *open = realloc(track->open, capacity * sizeof(*open));

    if (open == NULL)
        return false;
    track->open = open;
    track->open_capacity = capacity;
    return true;
}

struct track_record *track_add(struct track *track)
{
    if (UNLIKELY(track->open_count == CHUNK) && track_seal(track) != 0)
        return NULL;
    if (UNLIKELY(track->open_count == track->open_capacity) && !grow_open(track))
        return NULL;
    track->count++;
    return &track->open[track->open_count++];
}
