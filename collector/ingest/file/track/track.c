#include "ingest/file/track/track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/details.h"
#include "ingest/trace/grow.h"

/* ---- packing ----------------------------------------------------------------------------- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a word's low bytes come first");

/* How a record is packed: how many bytes each of its five words takes, three bits each,
 * and whether three more follow; then these bytes, and the same of the three. Words are
 * differences from the record before in the same chunk where these are small: stamps,
 * names, correlation and External ids.
 */
#define PACK_HEAD   2u      /* bytes that say how long the words are */
#define PACK_FOLLOW 0x8000u /* in the first of them: `more` stands behind */
/* At most; and as words are written and read whole, so much behind the last is touched. */
#define PACK_BYTES_MAX (2 * PACK_HEAD + (5 + TRACK_MORE) * 8)
#define PACK_SLACK     8u

struct track_chunk {
    int64_t first_ns;
    uint32_t index; /* in the order in which they came */
    uint32_t count;
    uint32_t length;
    unsigned char bytes[]; /* length and PACK_SLACK */
};

ALWAYS_INLINE uint64_t *pack_ids(struct track_before *state, uint64_t meta)
{
    uint8_t kind = EVENT_KIND(meta);

    if (kind == EVENT_CPU_OP || kind == EVENT_USER_RANGE)
        return &state->aux[0];
    return &state->aux[kind == EVENT_ALLOC ? 1 : 2];
}

/* One word, of 0 to 6 bytes, or of 8 as 7; adds its length to *sizes. */
ALWAYS_INLINE unsigned char *pack_word(unsigned char *to, uint64_t word,
                                       uint32_t *sizes, uint32_t shift)
{
    uint32_t bytes = (71 - (uint32_t)__builtin_clzll(word | 1)) / 8 - (word == 0);
    uint32_t size = bytes < 7 ? bytes : 7;

    memcpy(to, &word, sizeof(word));
    *sizes |= size << shift;
    return to + size + (size == 7);
}

ALWAYS_INLINE const unsigned char *unpack_word(const unsigned char *from,
                                               uint64_t *word, uint32_t size)
{
    static const uint64_t masks[] = {0,
                                     0xff,
                                     0xffff,
                                     0xffffff,
                                     0xffffffff,
                                     UINT64_C(0xffffffffff),
                                     UINT64_C(0xffffffffffff),
                                     UINT64_MAX};

    memcpy(word, from, sizeof(*word));
    *word &= masks[size];
    return from + size + (size == 7);
}

ALWAYS_INLINE unsigned char *pack_more(unsigned char *to, const uint64_t *more)
{
    unsigned char *head = to;
    uint32_t sizes = 0;

    to = pack_word(to + PACK_HEAD, more[0], &sizes, 0);
    to = pack_word(to, more[1], &sizes, 3);
    to = pack_word(to, more[2], &sizes, 6);
    memcpy(head, &sizes, PACK_HEAD);
    return to;
}

ALWAYS_INLINE const unsigned char *unpack_more(const unsigned char *from,
                                               uint64_t *more)
{
    uint32_t sizes = 0;

    memcpy(&sizes, from, PACK_HEAD);
    from = unpack_word(from + PACK_HEAD, &more[0], sizes & 7);
    from = unpack_word(from, &more[1], sizes >> 3 & 7);
    return unpack_word(from, &more[2], sizes >> 6 & 7);
}

ALWAYS_INLINE unsigned char *pack_record(unsigned char *to, struct track_before *state,
                                         const struct track_record *record)
{
    const struct event *event = &record->event;
    uint32_t name = (uint32_t)event->meta, high = (uint32_t)(event->meta >> 32);
    bool follow = (record->more[0] | record->more[1] | record->more[2]) != 0;
    uint64_t *ids = pack_ids(state, event->meta);
    uint32_t sizes = follow ? PACK_FOLLOW : 0;
    unsigned char *head = to;

    to = pack_word(to + PACK_HEAD,
                   track_signed((int64_t)(event->time - (uint64_t)state->time)), &sizes,
                   0);
    to = pack_word(to, event->value, &sizes, 3);
    to = pack_word(to, track_signed((int64_t)name - (int64_t)state->name), &sizes, 6);
    to = pack_word(to, high ^ state->high, &sizes, 9);
    to = pack_word(to, track_signed((int64_t)(event->aux - *ids)), &sizes, 12);
    memcpy(head, &sizes, PACK_HEAD);
    *ids = event->aux;
    state->time = (int64_t)event->time;
    state->name = name;
    state->high = high;
    return follow ? pack_more(to, record->more) : to;
}

ALWAYS_INLINE const unsigned char *unpack_record(const unsigned char *from,
                                                 struct track_before *state,
                                                 struct track_record *record)
{
    uint64_t time, name, high, id;
    uint32_t sizes = 0;

    memcpy(&sizes, from, PACK_HEAD);
    from = unpack_word(from + PACK_HEAD, &time, sizes & 7);
    from = unpack_word(from, &record->event.value, sizes >> 3 & 7);
    from = unpack_word(from, &name, sizes >> 6 & 7);
    from = unpack_word(from, &high, sizes >> 9 & 7);
    from = unpack_word(from, &id, sizes >> 12 & 7);
    state->time = (int64_t)((uint64_t)state->time + (uint64_t)track_unsigned(time));
    state->name = (uint32_t)((int64_t)state->name + track_unsigned(name));
    state->high ^= (uint32_t)high;
    record->event.time = (uint64_t)state->time;
    record->event.meta = (uint64_t)state->high << 32 | state->name;
    uint64_t *ids = pack_ids(state, record->event.meta);

    *ids += (uint64_t)track_unsigned(id);
    record->event.aux = *ids;
    if (sizes & PACK_FOLLOW)
        return unpack_more(from, record->more);
    memset(record->more, 0, sizeof(record->more));
    return from;
}

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

/* May a stand before b, which came later? */
static bool track_in_order(enum track_order order, const struct track_record *a,
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
    /* Which began first: ids are given out at the start. */
    uint64_t first = FILE_EXTERNAL_ID(a->event.aux),
             second = FILE_EXTERNAL_ID(b->event.aux);

    return EVENT_KIND(a->event.meta) != EVENT_CPU_OP ||
           EVENT_KIND(b->event.meta) != EVENT_CPU_OP || first == 0 || second == 0 ||
           first <= second;
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

/* The open chunk becomes one of the others. -ENOMEM. */
static int track_seal(struct track *track)
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
    if (chunk == NULL || !grow_array(&track->chunks, track->chunk_count,
                                     &track->chunk_capacity, 16, sizeof(chunk))) {
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

struct track_record *track_add(struct track *track)
{
    if (UNLIKELY(track->open_count == CHUNK) && track_seal(track) != 0)
        return NULL;
    if (UNLIKELY(track->open_count == track->open_capacity) &&
        !grow_array(&track->open, track->open_count, &track->open_capacity, FIRST,
                    sizeof(*track->open)))
        return NULL;
    track->count++;
    return &track->open[track->open_count++];
}

/* ---- reading: chunks are opened when the merge has come to their first record, and are in
 * a heap by the record that each of them is at ---- */

static int by_first(const void *left, const void *right)
{
    const struct track_chunk *a = *(struct track_chunk *const *)left;
    const struct track_chunk *b = *(struct track_chunk *const *)right;

    if (a->first_ns != b->first_ns)
        return a->first_ns < b->first_ns ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

int track_look(struct track_reader *reader, struct track *track)
{
    *reader = (struct track_reader){.track = track, .keeps = true, .due_ns = INT64_MIN};
    return track_seal(track);
}

int track_drain(struct track_reader *reader, struct track *track)
{
    int error = track_look(reader, track);
    bool sorted = true;

    reader->keeps = false;
    free(track->open);
    track->open = NULL;
    track->open_count = track->open_capacity = 0;
    for (uint32_t i = 1; i < track->chunk_count; i++)
        sorted = sorted && track->chunks[i - 1]->first_ns <= track->chunks[i]->first_ns;
    if (error == 0 && track->order != TRACK_GIVEN && !sorted)
        qsort(track->chunks, track->chunk_count, sizeof(struct track_chunk *),
              by_first);
    return error;
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

    if (!grow_array(&reader->heap, reader->count, &reader->capacity, 4,
                    sizeof(*reader->heap)))
        return false;
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

const struct track_record *track_peek_due(struct track_reader *reader)
{
    const struct track *track = reader->track;
    bool merges = track->order != TRACK_GIVEN && !reader->keeps;

    /* Is there a chunk that may begin before what comes next? */
    while (reader->next < track->chunk_count && !reader->failed &&
           (reader->count == 0 ||
            reader->due_ns <= (int64_t)reader->heap[0].record.event.time)) {
        reader->failed = !open_chunk(reader);
        reader->due_ns = merges && reader->next < track->chunk_count
                             ? track->chunks[reader->next]->first_ns
                             : INT64_MAX;
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
