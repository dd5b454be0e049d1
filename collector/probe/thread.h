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
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/clock.h"
#include "wire/event.h"
#include "wire/ring.h"
#include "wire/segment.h"

/* Ranges open at once in one thread; deeper ones are counted as lost. */
#define PROBE_RANGES_MAX 128u
/* Direct-mapped, 64 bytes an entry; a model has 100 to 200 names of ops and ranges. */
#define PROBE_NAMES_CACHED 256u
#define PROBE_KINDS        64u
/* Ranges and marks of NVTX are counted here, where no kind is: they have a price of their
 * own. */
#define PROBE_COUNT_NVTX 0u

enum probe_gate {
    PROBE_CLOSED = 0, /* no ring, or the zeroed memory of a forked child */
    PROBE_IDLE = 1,
    PROBE_BUSY = 2,    /* inside an event: a signal handler that nests is kept out */
    PROBE_REFUSED = 3, /* no slot or ring was left: quiet, counted */
};

#define PROBE_NAME_EDGE ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))

/* The text behind a pointer may have changed: an entry holds when the content is the
 * same. The first 16 bytes are compared here, with the NUL where it lies in them. */
struct probe_name_entry {
    /* The caller's pointer: only a hint; NULL: empty. With PROBE_NAME_EDGE where the
     * head would pass the end of its page: found by probe_name_slow() alone. */
    const char *text;
    uint64_t head[2];
    uint64_t mask[2];  /* which bytes of the head count */
    const char *known; /* the same text in our name table, for what is longer */
    uint32_t length;
    uint32_t id;
    uint64_t reserved; /* 64 bytes: a line, and a shift instead of a product */
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
    _Atomic uint64_t counts[PROBE_KINDS]; /* events by kind, PROBE_COUNT_NVTX, so far */
    struct open_range deep[PROBE_RANGES_MAX - WIRE_OPEN_RANGES]; /* below the slot's */
    _Alignas(64) struct probe_name_entry names[PROBE_NAMES_CACHED];
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

/* As probe_enter(), for a way without any call: NULL, with nothing counted, also where
 * the clock is no instruction; the caller then goes through probe_enter(). */
ALWAYS_INLINE struct probe_thread *probe_enter_quick(void)
{
    struct probe_thread *self = probe_current;

    if (UNLIKELY(self == NULL || !self->tsc ||
                 atomic_load_explicit(&self->gate, memory_order_relaxed) != PROBE_IDLE))
        return NULL;
    atomic_store_explicit(&self->gate, PROBE_BUSY, memory_order_relaxed);
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

ALWAYS_INLINE void probe_count(struct probe_thread *self, uint32_t at)
{
    _Atomic uint64_t *count = &self->counts[at % PROBE_KINDS];
    uint64_t seen = atomic_load_explicit(count, memory_order_relaxed);

    /* Relaxed, one writer: a sum over threads may be a few events behind. */
    atomic_store_explicit(count, seen + 1, memory_order_relaxed);
}

/* The slow ways of probe_name_cached(): a long text to the end, a new one. */
NEVER_INLINE uint32_t probe_name_slow(struct probe_thread *self, const char *text);
bool probe_name_tail(const struct probe_name_entry *entry, const char *text);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROBE_READS_BY_WORD 0
#elif defined(__has_feature)
#define PROBE_READS_BY_WORD                                                            \
    (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define PROBE_READS_BY_WORD 1
#endif

/* Does the entry's text still begin as it says? Reads 16 bytes, which may pass the end
 * of the text but never of its page. */
ALWAYS_INLINE bool probe_name_head(const struct probe_name_entry *entry,
                                   const char *text)
{
    uint64_t words[2];

    if (!PROBE_READS_BY_WORD)
        return false;
    __builtin_memcpy(words, text, sizeof(words));
    return (((words[0] ^ entry->head[0]) & entry->mask[0]) |
            ((words[1] ^ entry->head[1]) & entry->mask[1])) == 0;
}

ALWAYS_INLINE struct probe_name_entry *probe_name_entry(struct probe_thread *self,
                                                        const char *text)
{
    return &self->names[((uintptr_t)text ^ (uintptr_t)text >> 9) % PROBE_NAMES_CACHED];
}

/* Id of a NUL-terminated text through the thread's cache: keyed by pointer, verified by
 * content. Inside probe_enter(). */
ALWAYS_INLINE uint32_t probe_name_cached(struct probe_thread *self, const char *text)
{
    const struct probe_name_entry *entry = probe_name_entry(self, text);

    if (LIKELY(entry->text == text && probe_name_head(entry, text) &&
               (entry->length < 16 || probe_name_tail(entry, text))))
        return entry->id;
    return probe_name_slow(self, text);
}

/* Inside probe_enter(): one whole event, counted at `at`. */
ALWAYS_INLINE void probe_write_counted(struct probe_thread *self, struct event event,
                                       uint32_t at)
{
    ring_push(&self->ring, event);
    probe_count(self, at);
}

ALWAYS_INLINE void probe_write(struct probe_thread *self, struct event event)
{
    probe_write_counted(self, event, EVENT_KIND(event.meta));
}

/* The place of open range `at`, which is below PROBE_RANGES_MAX. Relaxed accesses: only
 * readers of other processes look in, after an acquire of `depth`. A start of 0 is a
 * range that is not recorded when it ends. */
ALWAYS_INLINE struct open_range *probe_range_at(struct probe_thread *self, uint32_t at)
{
    return LIKELY(at < WIRE_OPEN_RANGES) ? &self->slot->open[at]
                                         : &self->deep[at - WIRE_OPEN_RANGES];
}

/* Opens a range. `meta` is EVENT_META(name, kind, flags, aux16) as it will be written
 * when it ends; `start` 0 keeps the place on the stack but writes nothing. */
ALWAYS_INLINE void probe_range_open(struct probe_thread *self, uint64_t meta,
                                    uint64_t start)
{
    struct thread_slot *slot = self->slot;
    uint32_t depth = self->depth;

    if (LIKELY(depth < PROBE_RANGES_MAX)) {
        struct open_range *range = probe_range_at(self, depth);

        atomic_store_explicit(&range->start, start, memory_order_relaxed);
        atomic_store_explicit(&range->meta, meta, memory_order_relaxed);
    }
    self->depth = depth + 1;
    /* Release: pairs with the acquire of readers, who then see the range itself. */
    atomic_store_explicit(&slot->depth, depth + 1, memory_order_release);
}

/* Name of the innermost open range: whose time, whose memory this is. 0 none. */
ALWAYS_INLINE uint32_t probe_range_name(struct probe_thread *self)
{
    if (self->depth - 1 >= PROBE_RANGES_MAX)
        return 0;
    return EVENT_NAME(atomic_load_explicit(&probe_range_at(self, self->depth - 1)->meta,
                                           memory_order_relaxed));
}

/* The bits of a range's meta that say who opened it: kind and flags. */
#define PROBE_RANGE_OWNER(meta) ((uint16_t)((meta) >> 32))

/* Where the ranges of an owner are counted; a constant where the owner is one. */
ALWAYS_INLINE uint32_t probe_range_count(uint16_t owner)
{
    bool nvtx =
        (owner & 0xff) == EVENT_USER_RANGE && (owner >> 8 & EVENT_RANGE_NVTX) != 0;

    return nvtx ? PROBE_COUNT_NVTX : owner & 0xff;
}

/* Inside probe_range_close(), when the innermost range is not the caller's (interfaces
 * whose ranges overlap): takes the caller's newest out from under it. */
NEVER_INLINE uint64_t probe_range_take(struct probe_thread *self, uint16_t owner,
                                       uint64_t aux, uint64_t now);

/* Closes range `top`, the innermost, opened with end.meta by `owner`, and writes it; it
 * ends at end.time and has end.aux. */
ALWAYS_INLINE void probe_range_finish(struct probe_thread *self, uint32_t top,
                                      uint16_t owner, struct event end)
{
    struct thread_slot *slot = self->slot;
    uint64_t start = atomic_load_explicit(&slot->open[top].start, memory_order_relaxed);

    self->depth = top;
    atomic_store_explicit(&slot->depth, top, memory_order_relaxed);
    if (LIKELY(start != 0))
        probe_write_counted(self,
                            (struct event){start, end.time - start, end.meta, end.aux},
                            probe_range_count(owner));
}

/* Meta of range `top`; 0 when it is not in the slot. */
ALWAYS_INLINE uint64_t probe_range_meta(const struct probe_thread *self, uint32_t top)
{
    if (UNLIKELY(top >= WIRE_OPEN_RANGES))
        return 0;
    return atomic_load_explicit(&self->slot->open[top].meta, memory_order_relaxed);
}

/* Closes the newest open range of `owner` (PROBE_RANGE_OWNER of what was opened) and
 * writes it. Returns its meta; 0 when there was none. */
ALWAYS_INLINE uint64_t probe_range_close_at(struct probe_thread *self, uint16_t owner,
                                            uint64_t aux, uint64_t now)
{
    uint32_t top = self->depth - 1;

    uint64_t meta = probe_range_meta(self, top);

    if (UNLIKELY(PROBE_RANGE_OWNER(meta) != owner))
        return probe_range_take(self, owner, aux, now);
    probe_range_finish(self, top, owner,
                       (struct event){.time = now, .meta = meta, .aux = aux});
    return meta;
}

ALWAYS_INLINE uint64_t probe_range_close(struct probe_thread *self, uint16_t owner,
                                         uint64_t aux)
{
    return probe_range_close_at(self, owner, aux, probe_thread_ticks(self));
}

#endif
