/* The hot path: what an application thread runs for each event.
 *
 * The one rule: a thread writes only what is its own (its ring, its slot, its struct
 * probe_thread), between probe_enter() and probe_leave(). No lock, no allocation, no
 * system call but the clock's fallback; errno is left alone.
 *
 *     thread-local pointer --> struct probe_thread --> ring and slot in the segment
 *                              (private memory that a forked child finds zeroed:
 *                               its `gate` is closed there, so a child is quiet)
 */
#ifndef PROBE_THREAD_H
#define PROBE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/clock.h"
#include "wire/event.h"
#include "wire/ring.h"
#include "wire/segment.h"

/* Ranges open at once in one thread; deeper ones are counted as lost. */
#define PROBE_RANGES_MAX 128u
/* Direct-mapped, 32 bytes an entry; a model has 100 to 200 names of ops and ranges. */
#define PROBE_NAMES_CACHED 256u
#define PROBE_KINDS        64u

enum probe_gate {
    PROBE_CLOSED = 0, /* no ring, or the zeroed memory of a forked child */
    PROBE_IDLE = 1,
    PROBE_BUSY = 2,    /* inside an event: a signal handler that nests is kept out */
    PROBE_REFUSED = 3, /* no slot or ring was left: quiet, counted */
};

struct probe_name_entry {
    const char *text;  /* the caller's pointer: only a hint */
    const char *known; /* the same text in the name table, to compare with */
    uint32_t length;
    uint32_t id;
};

struct probe_open_range {
    uint64_t start; /* raw clock; 0: not recorded when it ends */
    uint64_t meta;
};

/* Private memory, written by the owning thread alone but for `counts`, which others
 * read at step ends. */
struct probe_thread {
    _Atomic uint32_t gate; /* enum probe_gate; owner and its signal handlers */
    uint32_t index;        /* of the slot */
    struct ring ring;
    struct thread_slot *slot;             /* in the segment; never read back */
    uint32_t depth;                       /* open ranges, may pass PROBE_RANGES_MAX */
    bool tsc;                             /* raw clock is the time stamp counter */
    _Atomic uint64_t counts[PROBE_KINDS]; /* events by kind since the start */
    struct probe_open_range open[PROBE_RANGES_MAX];
    struct probe_name_entry names[PROBE_NAMES_CACHED];
};

/* The calling thread's; NULL before its first event. Eight bytes of the loader's
 * reserve of static thread-local storage, so that it is one load. */
extern _Thread_local struct probe_thread *probe_current
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* First event of a thread, closed gate, nested signal: claims a slot, or counts and
 * returns NULL. */
NEVER_INLINE struct probe_thread *probe_enter_slow(void);

/* NULL when there is nothing to write to: the caller returns. */
ALWAYS_INLINE struct probe_thread *probe_enter(void)
{
    struct probe_thread *self = probe_current;

    if (UNLIKELY(self == NULL ||
                 atomic_load_explicit(&self->gate, memory_order_relaxed) != PROBE_IDLE))
        return probe_enter_slow();
    atomic_store_explicit(&self->gate, PROBE_BUSY, memory_order_relaxed);
    /* Only this thread's signal handlers look: order for the compiler is enough. */
    atomic_signal_fence(memory_order_seq_cst);
    return self;
}

ALWAYS_INLINE void probe_leave(struct probe_thread *self)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&self->gate, PROBE_IDLE, memory_order_relaxed);
}

ALWAYS_INLINE uint64_t probe_thread_ticks(const struct probe_thread *self)
{
    return clock_ticks(self->tsc);
}

ALWAYS_INLINE void probe_count(struct probe_thread *self, uint64_t meta)
{
    _Atomic uint64_t *count = &self->counts[EVENT_KIND(meta) % PROBE_KINDS];
    uint64_t seen = atomic_load_explicit(count, memory_order_relaxed);

    /* Relaxed, one writer: a sum over threads may be a few events behind. */
    atomic_store_explicit(count, seen + 1, memory_order_relaxed);
}

/* Inside probe_enter(): one whole event. */
ALWAYS_INLINE void probe_write(struct probe_thread *self, struct event event)
{
    ring_push(&self->ring, event);
    probe_count(self, event.meta);
}

/* Opens a range. `meta` is EVENT_META(name, kind, flags, aux16) as it will be written
 * when it ends; `start` 0 keeps the place on the stack but writes nothing. */
ALWAYS_INLINE void probe_range_open(struct probe_thread *self, uint64_t meta,
                                    uint64_t start)
{
    uint32_t depth = self->depth++;

    if (LIKELY(depth < PROBE_RANGES_MAX))
        self->open[depth] = (struct probe_open_range){start, meta};
    if (LIKELY(depth < WIRE_OPEN_RANGES)) {
        struct open_range *shown = &self->slot->open[depth];

        atomic_store_explicit(&shown->start, start, memory_order_relaxed);
        atomic_store_explicit(&shown->meta, meta, memory_order_relaxed);
    }
    /* Release: pairs with the acquire of readers, who then see the range itself. */
    atomic_store_explicit(&self->slot->depth, depth + 1, memory_order_release);
}

/* Name of the innermost open range: whose time, whose memory this is. 0 none. */
ALWAYS_INLINE uint32_t probe_range_name(const struct probe_thread *self)
{
    uint32_t depth = self->depth < PROBE_RANGES_MAX ? self->depth : PROBE_RANGES_MAX;

    return depth > 0 ? EVENT_NAME(self->open[depth - 1].meta) : 0;
}

/* The bits of a range's meta that say who opened it: kind and flags. */
#define PROBE_RANGE_OWNER(meta) ((uint16_t)((meta) >> 32))

/* The innermost range is not the caller's (two interfaces whose ranges overlap):
 * takes the caller's newest out from under it; false when it has none. */
NEVER_INLINE bool probe_range_take(struct probe_thread *self, uint16_t owner,
                                   struct probe_open_range *range);

/* Closes the newest open range of `owner` (PROBE_RANGE_OWNER of what was opened) and
 * writes it. Returns its meta; 0 when there was none. */
ALWAYS_INLINE uint64_t probe_range_close(struct probe_thread *self, uint16_t owner,
                                         uint64_t aux)
{
    uint64_t now = probe_thread_ticks(self);
    struct probe_open_range range;

    if (LIKELY(self->depth - 1 < PROBE_RANGES_MAX &&
               PROBE_RANGE_OWNER(self->open[self->depth - 1].meta) == owner)) {
        range = self->open[--self->depth];
        atomic_store_explicit(&self->slot->depth, self->depth, memory_order_relaxed);
    } else if (!probe_range_take(self, owner, &range)) {
        return 0;
    }
    if (range.start != 0)
        probe_write(self,
                    (struct event){range.start, now - range.start, range.meta, aux});
    return range.meta;
}

#endif
