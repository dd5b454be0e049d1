/* What waits in memory until the last byte of a file was read: records of some 10 bytes
 * each, in chunks that are sorted when they are full and given back as they are read.
 *
 *     track_add() ──▶ open chunk ──▶ sort ──▶ pack ─┬▶ chunk ─┐
 *                                                   ├▶ chunk ─┼▶ merge ──▶ track_next()
 *                                                   └▶ chunk ─┘
 *
 * Files are a few sorted sections behind one another, or locally out of order: a merge has
 * two or three chunks open at a time. The rule: equal records stay in the order in which
 * they came, as long as nothing else tells which began first.
 */
#ifndef INGEST_FILE_TRACK_TRACK_H
#define INGEST_FILE_TRACK_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/event.h"

#define TRACK_MORE 3u

struct track_record {
    struct event event;
    uint64_t more[TRACK_MORE]; /* nothing is kept of what is 0 */
};

enum track_order {
    TRACK_RANGES, /* by start, outer before inner */
    TRACK_WORKS,  /* by start, shorter before longer */
    TRACK_POINTS, /* by time, then by aux */
    TRACK_GIVEN,  /* as they came */
};

/* A number that may be negative as a word of `more`, and back. */
ALWAYS_INLINE uint64_t track_signed(int64_t number)
{
    return (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
}

ALWAYS_INLINE int64_t track_unsigned(uint64_t word)
{
    return (int64_t)(word >> 1 ^ (0 - (word & 1)));
}

struct track_chunk;

/* All zero but for the order (TRACK_RANGES is 0) is an empty one. */
struct track {
    enum track_order order;
    uint32_t count; /* of records that came, whatever was read of them */
    struct track_record *open;
    uint32_t open_count, open_capacity;
    struct track_chunk **chunks;
    uint32_t chunk_count, chunk_capacity;
    uint64_t bytes; /* of the chunks */
};

void track_free(struct track *track);

/* A record for the caller to fill, all of it, before the next call; NULL when out of
 * memory. */
struct track_record *track_add(struct track *track);

/* Of a chunk, the record before. Ops, allocations and the rest count their ids apart. */
struct track_before {
    int64_t time;
    uint64_t aux[3];
    uint32_t name, high; /* halves of meta */
};

/* A chunk that is open. */
struct track_cursor {
    struct track_record record; /* the next one */
    struct track_before state;
    struct track_chunk *chunk;
    const unsigned char *at;
    uint32_t slot;  /* of the chunk in the track */
    uint32_t index; /* the chunk's */
    uint32_t left;  /* records behind this one */
};

struct track_reader {
    struct track *track;
    struct track_cursor *heap; /* the earliest record first */
    uint32_t count, capacity;
    uint32_t next;  /* chunk that is not open yet */
    int64_t due_ns; /* before a record that is not earlier it is to be opened */
    bool keeps;     /* the track stays as it is, and its order is not asked for */
    bool failed;    /* out of memory */
};

/* Reads all of it by its order, each chunk being freed behind its last record; nothing
 * can be added meanwhile. -ENOMEM. */
MUST_CHECK int track_drain(struct track_reader *reader, struct track *track);
/* Reads all of it in no order, and leaves it as it is. -ENOMEM. */
MUST_CHECK int track_look(struct track_reader *reader, struct track *track);
void track_end(struct track_reader *reader);

/* The next record, valid until track_next(); NULL at the end, or when memory was short
 * (`failed`). */
const struct track_record *track_peek_due(struct track_reader *reader);
ALWAYS_INLINE const struct track_record *track_peek(struct track_reader *reader)
{
    if (LIKELY(reader->count > 0 &&
               (int64_t)reader->heap[0].record.event.time < reader->due_ns))
        return &reader->heap[0].record;
    return track_peek_due(reader);
}
/* Moves on behind what track_peek() gave. */
void track_next(struct track_reader *reader);

#endif
