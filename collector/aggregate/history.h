/* The newest raw events of many processes, in blocks of one thread each, oldest dropped
 * first when the limit is reached.
 *
 *     history: oldest ⇄ block ⇄ block ⇄ ... ⇄ newest     the order in which they go
 *     process: oldest ────────▶ block ─▶ ...             its own, which go with it
 *
 * A block is sealed when it is full, and counted: a reader takes references under the
 * store's lock and formats outside of it, while the collector drops its own.
 */
#ifndef AGGREGATE_HISTORY_H
#define AGGREGATE_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/event.h"
#include "wire/ring.h"

#define HISTORY_BYTES_DEFAULT ((uint64_t)256 * 1024 * 1024)
#define HISTORY_BLOCK_EVENTS  1024u /* 32 KiB: below malloc's threshold for mappings */

struct history_blocks {
    struct history_block *oldest, *newest; /* sealed ones of one process, by `after` */
};

struct history_block {
    _Atomic uint32_t references; /* the last release frees; acquire-release there */
    uint32_t count, capacity;
    uint32_t thread;
    int64_t from_ns, to_ns; /* hull of its ranges */
    /* In the order of sealing, among all and among those of its process; the store's
     * alone, as is `of`. */
    struct history_block *older, *newer, *after;
    struct history_blocks *of;
    struct event events[];
};

struct history {
    struct history_block *oldest, *newest;
    uint64_t bytes, bytes_max;
    uint64_t dropped_blocks;
    uint64_t refused; /* events that memory was too short for */
};

void history_init(struct history *history, uint64_t bytes_max);

/* Room for a record and all that may follow it in *open, the thread's open block, sealing
 * one without to `of`, its process's: a reader finds both in one block. NULL when out of
 * memory. */
struct history_block *history_room(struct history *history, struct history_block **open,
                                   struct history_blocks *of, uint32_t thread);

/* Appends one event with its hull; an EVENT_MORE has none (from > to). */
static inline void history_put(struct history_block *block, const struct event *event,
                               int64_t start_ns, int64_t end_ns)
{
    block->from_ns = start_ns < block->from_ns ? start_ns : block->from_ns;
    block->to_ns = end_ns > block->to_ns ? end_ns : block->to_ns;
    block->events[block->count++] = *event;
}

/* Seals an open block before it is full; *open becomes NULL. */
void history_seal(struct history *history, struct history_block **open);

/* The sealed blocks of a process that goes. */
void history_forget(struct history *history, struct history_blocks *of);

struct history_block *history_share(struct history_block *block);
void history_release(struct history_block *block);

/* A copy of an open block, for a reader; NULL when out of memory. */
struct history_block *history_copy(const struct history_block *block);

#endif
