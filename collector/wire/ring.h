/* Ring of events from one thread of the training process to any number of readers.
 *
 *   training thread -- ring_push --> [ event | event | ... ] -- ring_read --> readers
 *
 * The oldest event is overwritten; the producer never waits and never looks at a
 * reader. Positions count events since the start and never wrap, so a reader knows
 * exactly how many it lost. A reader only reads: its mapping may be read-only, it may
 * run as another user, there may be several, and the newest events outlive both sides.
 *
 * The producer announces what it is about to overwrite (`reserve`) before it writes and
 * what is whole (`head`) after it; the reader copies, then asks `reserve` again and
 * throws away what may have been overwritten under its hands. Neither side trusts the
 * other's words: mask and position are private copies.
 */
#ifndef WIRE_RING_H
#define WIRE_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/event.h"

#define RING_RECORDS_MAX 4u /* a head and up to three EVENT_MORE */

/* Shared memory; both words are written by the producer alone. */
struct ring_shared {
    _Alignas(128) _Atomic uint64_t head; /* events published since the start */
    _Atomic uint64_t reserve;            /* events begun: head, or more while writing */
    _Alignas(128) _Atomic uint64_t words[]; /* capacity x 4 */
};

/* The producer's private side. */
struct ring {
    struct ring_shared *shared; /* borrowed from the segment */
    uint64_t mask;              /* capacity - 1 */
    uint64_t pos;               /* events published */
};

/* A reader's private side. */
struct ring_reader {
    const struct ring_shared *shared; /* borrowed; may be mapped read-only */
    uint64_t mask;
    uint64_t pos;  /* next event to read */
    uint64_t lost; /* events overwritten before they were read, since ring_attach() */
};

/* Bytes of shared memory for `capacity` events. */
size_t ring_size(uint64_t capacity);

/* Opens the producer's side on `size` zeroed bytes at `memory`, aligned to 128; goes on
 * where an earlier owner of the ring stopped. -EINVAL when capacity is not a power of
 * two of at least RING_RECORDS_MAX or size is too small. */
MUST_CHECK int ring_open(struct ring *ring, void *memory, size_t size,
                         uint64_t capacity);

/* Opens a reader at the oldest event that is still there (`from_start`), else at the
 * newest. Errors as ring_open. */
MUST_CHECK int ring_attach(struct ring_reader *reader, const void *memory, size_t size,
                           uint64_t capacity, int from_start);

/* Reader. Copies up to `max` events in order; returns how many, 0 when there is nothing
 * new, or -EPROTO when the producer's positions are impossible; the ring must then be
 * closed. Losses are added to reader->lost. */
MUST_CHECK int64_t ring_read(struct ring_reader *reader, struct event *events,
                             uint64_t max);

/* Reader: events that wait, including what is already lost. */
uint64_t ring_pending(const struct ring_reader *reader);

ALWAYS_INLINE void ring_store(_Atomic uint64_t *words, const struct event *event)
{
    atomic_store_explicit(words + 0, event->time, memory_order_relaxed);
    atomic_store_explicit(words + 1, event->value, memory_order_relaxed);
    atomic_store_explicit(words + 2, event->meta, memory_order_relaxed);
    atomic_store_explicit(words + 3, event->aux, memory_order_relaxed);
}

/* Producer. Publishes `count` records (1 to RING_RECORDS_MAX) as one. Wait-free, makes
 * no system call, leaves errno alone. Not re-entrant: the caller keeps signal handlers
 * of its own thread out. */
ALWAYS_INLINE void ring_push_many(struct ring *ring, const struct event *events,
                                  uint32_t count)
{
    /* Copies: for all that the compiler knows a store below may change them. */
    struct ring_shared *shared = ring->shared;
    uint64_t pos = ring->pos, mask = ring->mask, next = pos + count;

    atomic_store_explicit(&shared->reserve, next, memory_order_relaxed);
    /* Pairs with the acquire fence in ring_read(): whoever sees one of our words below
     * sees this reserve too. */
    atomic_thread_fence(memory_order_release);
    for (uint32_t i = 0; i < count; i++)
        ring_store(shared->words + 4 * ((pos + i) & mask), &events[i]);
    ring->pos = next;
    /* Pairs with the acquire in ring_read(): the records are whole before head. */
    atomic_store_explicit(&shared->head, next, memory_order_release);
}

ALWAYS_INLINE void ring_push(struct ring *ring, struct event event)
{
    ring_push_many(ring, &event, 1);
}

#endif
