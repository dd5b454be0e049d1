#include "probe/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/core.h"
#include "probe/probe.h"

#define RING_CAPACITY_MIN 256u

_Thread_local struct probe_thread *probe_current;

/* Stands in for threads that found no slot and, while it claims one, for a thread
 * itself, so that a signal handler is kept out. Never written. */
static struct probe_thread refused = {.gate = PROBE_REFUSED};
static struct probe_thread claiming = {.gate = PROBE_BUSY};

static pthread_key_t exit_key;
static bool exit_key_made;

/* Runs when a thread ends: its slot and ring go to the next one. */
static void release(void *argument)
{
    struct probe_thread *self = argument;

    /* Closed in a forked child, and for good when the process has said good-bye. */
    if (atomic_load_explicit(&self->gate, memory_order_relaxed) != PROBE_IDLE)
        return;
    probe_boundary_thread_ends();
    probe_current = &refused; /* destructors that run after this one stay quiet */
    atomic_store_explicit(&self->gate, PROBE_CLOSED, memory_order_relaxed);
    atomic_store_explicit(&self->slot->depth, 0, memory_order_relaxed);
    /* Release: pairs with the acquire of the compare-and-swap in claim_slot(); the
     * next owner sees every position of the ring. */
    atomic_store_explicit(&self->slot->state, THREAD_ENDED, memory_order_release);
}

void probe_threads_prepare(void)
{
    if (!exit_key_made)
        exit_key_made = pthread_key_create(&exit_key, release) == 0;
}

void probe_threads_forget(void)
{
    probe_current = NULL;
}

/* At most half of the pool, a power of two, is the main thread's: 262,144 events of the
 * largest segment, a quarter of a second at a million a second. */
uint64_t probe_main_ring_capacity(uint64_t pool_bytes)
{
    uint64_t capacity = RING_RECORDS_MAX;

    while (ring_size(2 * capacity) <= pool_bytes / 2)
        capacity *= 2;
    return ring_size(capacity) <= pool_bytes ? capacity : 0;
}

/* A quarter of what is left, so that many threads find something: at most 2 MiB, at
 * least 256 events. 0 when even that is too much. */
static uint64_t shared_ring_capacity(uint64_t left_bytes)
{
    uint64_t capacity = 65536;

    while (capacity > RING_CAPACITY_MIN && ring_size(capacity) > left_bytes / 4)
        capacity /= 2;
    return ring_size(capacity) <= left_bytes ? capacity : 0;
}

static uint64_t take_ring(bool main_thread, uint64_t *capacity)
{
    if (main_thread && probe->main_ring_capacity != 0) {
        *capacity = probe->main_ring_capacity;
        return probe->main_ring_offset;
    }
    uint64_t end = probe->layout.segment_bytes;
    uint64_t offset = atomic_load_explicit(&probe->pool_used, memory_order_relaxed);

    for (;;) {
        *capacity = shared_ring_capacity(end - offset);
        if (*capacity == 0)
            return 0;
        /* ring_size() is a multiple of 32: the next ring starts at a line of its own.
         */
        uint64_t next = offset + (ring_size(*capacity) + 127) / 128 * 128;

        if (next > end)
            next = end;
        if (atomic_compare_exchange_weak_explicit(&probe->pool_used, &offset, next,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return offset;
    }
}

static struct thread_slot *claim_slot(bool main_thread, uint32_t *index)
{
    /* Slot 0 is kept for the main thread, whose ring is half of all. */
    for (uint32_t i = main_thread ? 0 : 1; i < probe->thread_count; i++) {
        struct thread_slot *slot = &probe->slots[i];
        uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

        /* Acquire: pairs with the release in release(). */
        if (state != THREAD_LIVE && atomic_compare_exchange_strong_explicit(
                                        &slot->state, &state, THREAD_LIVE,
                                        memory_order_acquire, memory_order_relaxed)) {
            *index = i;
            return slot;
        }
        if (main_thread)
            break;
    }
    return NULL;
}

/* The ring of a slot: its own from an earlier owner, else one out of the pool. */
static bool open_ring(struct probe_thread *self, bool main_thread)
{
    struct thread_slot *slot = self->slot;

    if (self->ring.shared != NULL) /* private copy of an earlier owner's */
        return true;
    uint64_t capacity, offset = take_ring(main_thread, &capacity);

    if (offset == 0)
        return false;
    /* Somebody may have filled the file system since: a smaller ring is better than
     * none, and none is better than SIGBUS. */
    while (!probe_core_allocate(offset, ring_size(capacity)))
        if ((capacity /= 2) < RING_CAPACITY_MIN)
            return false;
    size_t size = ring_size(capacity);

    if (ring_open(&self->ring, probe->base + offset, size, capacity) != 0)
        return false;
    atomic_store_explicit(&slot->ring_capacity, capacity, memory_order_relaxed);
    /* Release: pairs with the acquire in wire_view_ring(). */
    atomic_store_explicit(&slot->ring_offset, offset, memory_order_release);
    atomic_fetch_add_explicit(&probe->header->ring_words_used, size,
                              memory_order_relaxed);
    return true;
}

static void introduce(struct probe_thread *self, uint32_t tid)
{
    char name[17] = "";

    (void)prctl(PR_GET_NAME, name);
    uint32_t id = probe_name(name);

    atomic_store_explicit(&self->slot->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&self->slot->name, id, memory_order_relaxed);
    atomic_store_explicit(&self->slot->depth, 0, memory_order_relaxed);
    probe_write(self, (struct event){probe_thread_ticks(self), tid,
                                     EVENT_META(id, EVENT_THREAD, 0, 0), 0});
}

static struct probe_thread *claim(void)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid), index = 0;
    bool main_thread = tid == probe->pid;
    struct thread_slot *slot = claim_slot(main_thread, &index);

    if (slot == NULL)
        goto refuse;
    struct probe_thread *self = &probe->threads[index];

    uint32_t used = atomic_load_explicit(&probe->threads_used, memory_order_relaxed);

    while (used <= index && !atomic_compare_exchange_weak_explicit(
                                &probe->threads_used, &used, index + 1,
                                memory_order_relaxed, memory_order_relaxed))
        ;
    self->slot = slot;
    self->index = index;
    self->tsc = probe->tsc;
    self->depth = 0;
    if (!open_ring(self, main_thread)) {
        atomic_store_explicit(&slot->state, THREAD_FREE, memory_order_release);
        goto refuse;
    }
    introduce(self, tid);
    if (exit_key_made)
        (void)pthread_setspecific(exit_key, self);
    return self;
refuse:
    atomic_fetch_add_explicit(&probe->header->threads_refused, 1, memory_order_relaxed);
    return NULL;
}

struct probe_thread *probe_enter_slow(void)
{
    struct probe_thread *self = probe_current;
    uint32_t gate = self == NULL
                        ? (uint32_t)PROBE_CLOSED
                        : atomic_load_explicit(&self->gate, memory_order_relaxed);

    /* Acquire: pairs with the release in probe_start(). Zero in a forked child. */
    if (atomic_load_explicit(&probe->open, memory_order_acquire) == 0)
        return NULL;
    if (gate == PROBE_REFUSED) /* counted, as a thread */
        return NULL;
    if (gate == PROBE_BUSY) {
        atomic_fetch_add_explicit(&probe->header->nested_lost, 1, memory_order_relaxed);
        return NULL;
    }
    int saved_errno = errno;

    probe_current = &claiming;
    atomic_signal_fence(memory_order_seq_cst);
    self = claim();
    probe_current = self != NULL ? self : &refused;
    errno = saved_errno;
    if (self != NULL)
        atomic_store_explicit(&self->gate, PROBE_BUSY, memory_order_relaxed);
    return self;
}

struct probe_thread *probe_start_and_enter(void)
{
    if (probe_is_open() || probe_start(0) != 0)
        return NULL;
    return probe_enter();
}

static void move_range(struct open_range *to, const struct open_range *from)
{
    atomic_store_explicit(&to->start,
                          atomic_load_explicit(&from->start, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->meta,
                          atomic_load_explicit(&from->meta, memory_order_relaxed),
                          memory_order_relaxed);
}

uint64_t probe_range_take(struct probe_thread *self, uint16_t owner, uint64_t aux,
                          uint64_t now)
{
    if (self->depth > PROBE_RANGES_MAX) { /* too deep: was counted, not kept */
        self->depth--;
        atomic_store_explicit(&self->slot->depth, self->depth, memory_order_relaxed);
        uint64_t lost = atomic_load_explicit(&self->slot->lost, memory_order_relaxed);
        atomic_store_explicit(&self->slot->lost, lost + 1, memory_order_relaxed);
        return 0;
    }
    for (uint32_t at = self->depth; at-- > 0;) {
        struct open_range *range = probe_range_at(self, at);
        uint64_t meta = atomic_load_explicit(&range->meta, memory_order_relaxed);
        uint64_t start = atomic_load_explicit(&range->start, memory_order_relaxed);

        if (PROBE_RANGE_OWNER(meta) != owner)
            continue;
        self->depth--;
        for (uint32_t i = at; i < self->depth; i++)
            move_range(probe_range_at(self, i), probe_range_at(self, i + 1));
        atomic_store_explicit(&self->slot->depth, self->depth, memory_order_release);
        if (start != 0)
            probe_write_counted(self, (struct event){start, now - start, meta, aux},
                                probe_range_count(owner));
        return meta;
    }
    return 0;
}

void probe_range_begin(uint64_t meta)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    probe_range_open(self, meta, probe_thread_ticks(self));
    probe_leave(self);
}

void probe_range_end(uint16_t owner, uint64_t aux)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    probe_range_close(self, owner, aux);
    probe_leave(self);
}

void probe_event(struct event event)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    probe_write(self, event);
    probe_leave(self);
}

void probe_events(const struct event *events, uint32_t count)
{
    struct probe_thread *self = count <= RING_RECORDS_MAX ? probe_enter() : NULL;

    if (self == NULL || count == 0)
        goto leave;
    ring_push_many(&self->ring, events, count);
    probe_count(self, EVENT_KIND(events[0].meta));
leave:
    if (self != NULL)
        probe_leave(self);
}

void probe_instant(uint64_t meta, uint64_t value, uint64_t aux)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    probe_write(self, (struct event){probe_thread_ticks(self), value, meta, aux});
    probe_leave(self);
}

void probe_thread_name(const char *name)
{
    uint32_t id = probe_name(name);
    struct probe_thread *self = id != 0 ? probe_enter() : NULL;

    if (self == NULL)
        return;
    atomic_store_explicit(&self->slot->name, id, memory_order_relaxed);
    probe_leave(self);
}

uint64_t probe_events_counted(uint32_t at)
{
    uint64_t sum = 0;

    if (!probe_is_open() || at >= PROBE_KINDS)
        return 0;
    uint32_t used = atomic_load_explicit(&probe->threads_used, memory_order_relaxed);

    for (uint32_t i = 0; i < used; i++)
        sum +=
            atomic_load_explicit(&probe->threads[i].counts[at], memory_order_relaxed);
    return sum;
}

uint64_t probe_events_written(enum event_kind kind)
{
    return probe_events_counted(kind);
}

bool probe_name_tail(const struct probe_name_entry *entry, const char *text)
{
    /* strncmp stops at the NUL of a text that became shorter. */
    return strncmp(text, entry->known, entry->length) == 0 &&
           text[entry->length] == '\0';
}

uint32_t probe_name_slow(struct probe_thread *self, const char *text)
{
    struct probe_name_entry *entry = probe_name_entry(self, text);
    bool edge = ((uintptr_t)text & 4095) > 4096 - sizeof(entry->head);
    const char *key = edge ? (const char *)((uintptr_t)text | PROBE_NAME_EDGE) : text;

    if (entry->text == key && probe_name_tail(entry, text))
        return entry->id;
    uint32_t id = probe_name(text);
    const char *known;
    uint32_t length = names_lookup(&probe->names, id, &known);

    if (length == 0 || length >= NAME_BYTES_MAX)
        return id;
    *entry = (struct probe_name_entry){
        .text = key, .known = known, .length = length, .id = id};
    size_t head = length < sizeof(entry->head) ? length + 1 : sizeof(entry->head);

    memcpy(entry->head, text, head);
    memset(entry->mask, 0xff, head);
    return id;
}
