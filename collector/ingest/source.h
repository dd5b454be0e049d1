/* A live segment as a source of events: its mapping, a reader per ring, its clock and
 * its names. It fills one process of the store.
 *
 * Nothing of the segment is believed: layouts are checked, words copied before use,
 * stamps clamped, and every read of the mapping runs under the guard.
 */
#ifndef INGEST_SOURCE_H
#define INGEST_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/state.h"
#include "ingest/timeline.h"
#include "wire/segment.h"

#define SOURCE_NEW_RINGS 64u  /* found at a time; more of them the next time */
#define SOURCE_STAGED    512u /* events of a thread, converted and not yet folded */

/* A word of the segment, which its writer may be writing. */
#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

#define SOURCE_CUT_SHORT "the file was cut short while it was read"

struct source_thread {
    struct ring_reader ring;
    bool has_ring;
    bool has_gap;         /* what stood before `ring.pos` was never read */
    uint64_t lost_seen;   /* of ring.lost, already counted */
    uint64_t slot_lost;   /* of the slot's own counter, already counted */
    uint8_t group_kind;   /* of the newest head: its EVENT_MORE are read by it */
    struct event *staged; /* [SOURCE_STAGED] */
    uint32_t staged_from, staged_to;
};

enum source_state {
    SOURCE_LIVE,
    SOURCE_WAITING, /* dead, read when somebody asks for it */
    SOURCE_DONE,    /* dead, read to its end */
    SOURCE_LOST,
};

struct source {
    char path[WIRE_PATH_BYTES];
    uint64_t device, inode; /* of the file: the same name may come again */
    uint32_t pid;           /* of its process; 0 in another namespace than ours */
    int fd;                 /* read-only: mapping and liveness */
    void *base;
    uint64_t bytes;
    struct wire_view view;
    enum source_state state;
    struct timeline timeline;
    bool tsc;
    bool tells_known; /* EVENT_KNOWN, since minor 4 */
    uint64_t pairs_seen;
    uint32_t *texts; /* by name id, 0 = not yet looked up */
    struct source_thread *threads;
    uint32_t ring_slots;  /* slots from here on have no ring */
    uint32_t main_thread; /* who tells of steps; UINT32_MAX before the first */
    uint64_t step_folded; /* of the other threads, for the step that waits for them */
    uint32_t serial;      /* of its process in the store */
    /* Monotonic: the last time of each. */
    int64_t looked_ns, paired_ns, slots_ns, checked_ns, seen_ns;
    int64_t wrote_ns;  /* events came */
    int64_t locked_ns; /* its lock was held */
    int64_t rated_ns;  /* of the look that these are of; 0 none */
    uint64_t rated_events[WIRE_SOURCES];
};

/* Opens the file and makes its session and process. Takes the store's lock. Returns 0,
 * -EAGAIN when the file is not yet whole, -ENOSPC when the store has no place for one
 * more process or session, or negative errno with a process in state
 * lost where at least its identity could be read. */
MUST_CHECK int source_open(struct source *source, struct store *store,
                           const char *path);
void source_close(struct source *source);

/* Folds what is published. Takes the store's lock for about a millisecond at a time;
 * returns how many events were folded in at most `budget`. */
uint64_t source_drain(struct source *source, struct store *store, uint64_t budget);

/* More events than its rings hold at any moment, with those that were read already. */
uint64_t source_events_max(const struct source *source);

/* Copies the words that change slowly: facts, capabilities, governor, open ranges. */
void source_look(struct source *source, struct store *store, int64_t now_ns);

/* Takes new clock pairs, of the segment and (`live`) our own. */
void source_pair(struct source *source, bool live);

/* Opens readers on rings that appeared. */
void source_find_rings(struct source *source, struct store *store);

/* Nobody holds the segment's lock any more or has it in memory, or the file cannot be
 * asked. */
bool source_died(const struct source *source);

/* The same of a source that was alive, at `now_ns` (monotonic): where the memory of its
 * process cannot be asked, who said no good-bye has two seconds to take its lock again, from
 * the last event on. */
bool source_is_gone(struct source *source, int64_t now_ns);

/* Dead and not read yet: the store learns how its process ended, by what the segment
 * says; its events wait until somebody asks for them. */
void source_put_off(struct source *source, struct store *store);

/* Read to its end: its process ends in the store, for the reason found in the segment. */
void source_finish(struct source *source, struct store *store);

/* Unreadable: closed, its process lost for `reason`. */
void source_lose(struct source *source, struct store *store, const char *reason);

/* Text id of a name; needs the store's lock. */
uint32_t source_text(struct source *source, struct process *process, uint32_t name);

/* Its process in the store; needs the lock. NULL when it was dropped. */
struct process *source_process(const struct source *source, struct store *store);

#endif
