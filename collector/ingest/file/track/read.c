/* Chunks are opened when the merge has come to their first record, and are in a heap by
 * the record that each of them is at. */
#include <errno.h>
#include <stdlib.h>

#include "ingest/file/track/pack.h"

static int by_first(const void *left, const void *right)
{
    const struct track_chunk *a = *(struct track_chunk *const *)left;
    const struct track_chunk *b = *(struct track_chunk *const *)right;

    if (a->first_ns != b->first_ns)
        return a->first_ns < b->first_ns ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static void sort_chunks(struct track *track)
{
    for (uint32_t i = 1; i < track->chunk_count; i++) {
        if (track->chunks[i - 1]->first_ns <= track->chunks[i]->first_ns)
            continue;
        qsort(track->chunks, track->chunk_count, sizeof(struct track_chunk *),
              by_first);
        return;
    }
}

static int begin(struct track_reader *reader, struct track *track, bool keeps)
{
    *reader =
        (struct track_reader){.track = track, .keeps = keeps, .due_ns = INT64_MIN};
    return track_seal(track);
}

int track_drain(struct track_reader *reader, struct track *track)
{
    int error = begin(reader, track, false);

    free(track->open);
    track->open = NULL;
    track->open_count = track->open_capacity = 0;
    if (error == 0 && track->order != TRACK_GIVEN)
        sort_chunks(track);
    return error;
}

int track_look(struct track_reader *reader, struct track *track)
{
    return begin(reader, track, true);
}

void track_end(struct track_reader *reader)
{
    free(reader->heap);
    reader->heap = NULL;
    reader->count = reader->capacity = 0;
}

static bool before(const struct track_reader *reader, const struct track_cursor *a,
                   const struct track_cursor *b)
{
    enum track_order order = reader->track->order;

    if (a->index < b->index)
        return track_in_order(order, &a->record, &b->record);
    return !track_in_order(order, &b->record, &a->record);
}

static void swap(struct track_cursor *a, struct track_cursor *b)
{
    struct track_cursor moved = *a;

    *a = *b;
    *b = moved;
}

static void sift_down(struct track_reader *reader)
{
    struct track_cursor *heap = reader->heap;
    uint32_t at = 0;

    for (uint32_t child = 1; child < reader->count; child = 2 * at + 1) {
        if (child + 1 < reader->count && before(reader, &heap[child + 1], &heap[child]))
            child++;
        if (!before(reader, &heap[child], &heap[at]))
            return;
        swap(&heap[child], &heap[at]);
        at = child;
    }
}

static void sift_up(struct track_reader *reader)
{
    struct track_cursor *heap = reader->heap;

    for (uint32_t at = reader->count - 1; at > 0; at = (at - 1) / 2) {
        if (!before(reader, &heap[at], &heap[(at - 1) / 2]))
            return;
        swap(&heap[at], &heap[(at - 1) / 2]);
    }
}

static void advance(struct track_cursor *cursor)
{
    cursor->at = unpack_record(cursor->at, &cursor->state, &cursor->record);
    cursor->left--;
}

/* The next chunk into the heap; false when out of memory. */
static bool open_chunk(struct track_reader *reader)
{
    uint32_t slot = reader->next;
    struct track_chunk *chunk = reader->track->chunks[slot];

    if (reader->count == reader->capacity) {
        uint32_t capacity = reader->capacity == 0 ? 4 : reader->capacity * 2;
        struct track_cursor *heap = realloc(reader->heap, capacity * sizeof(*heap));

        if (heap == NULL)
            return false;
        reader->heap = heap;
        reader->capacity = capacity;
    }
    reader->next++;
    reader->heap[reader->count] =
        (struct track_cursor){.state = {.time = chunk->first_ns},
                              .chunk = chunk,
                              .at = chunk->bytes,
                              .slot = slot,
                              .index = chunk->index,
                              .left = chunk->count};
    advance(&reader->heap[reader->count++]);
    if (!reader->keeps)
        sift_up(reader);
    return true;
}

/* Is there a chunk that may begin before what comes next? */
static bool is_due(const struct track_reader *reader)
{
    if (reader->next == reader->track->chunk_count || reader->failed)
        return false;
    return reader->count == 0 ||
           reader->due_ns <= (int64_t)reader->heap[0].record.event.time;
}

static void set_due(struct track_reader *reader)
{
    const struct track *track = reader->track;
    bool merges = track->order != TRACK_GIVEN && !reader->keeps;

    reader->due_ns = merges && reader->next < track->chunk_count
                         ? track->chunks[reader->next]->first_ns
                         : INT64_MAX;
}

const struct track_record *track_peek_due(struct track_reader *reader)
{
    while (is_due(reader)) {
        reader->failed = !open_chunk(reader);
        set_due(reader);
    }
    return reader->count > 0 && !reader->failed ? &reader->heap[0].record : NULL;
}

/* The chunk of the first cursor was read. */
static void close_chunk(struct track_reader *reader)
{
    struct track_chunk *chunk = reader->heap[0].chunk;
    struct track *track = reader->track;
    uint32_t slot = reader->heap[0].slot;

    reader->heap[0] = reader->heap[--reader->count];
    if (reader->keeps)
        return;
    track->bytes -= sizeof(*chunk) + chunk->length + PACK_SLACK;
    track->chunks[slot] = NULL;
    free(chunk);
}

void track_next(struct track_reader *reader)
{
    struct track_cursor *first = &reader->heap[0];

    if (UNLIKELY(first->left == 0))
        close_chunk(reader);
    else
        advance(first);
    if (reader->count > 1)
        sift_down(reader);
}
