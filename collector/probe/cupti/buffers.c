#include "probe/cupti/buffers.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "probe/probe.h"

#define PLACES ((size_t)BUFFERS_COUNT * BUFFER_PLACES)

enum buffer_state {
    BUFFER_FREE = 0,
    BUFFER_LENT = 1,
    BUFFER_BACK = 2, /* for a moment: whoever made it so is alone with it */
    BUFFER_FULL = 3,
    BUFFER_RECLAIMED = 4,
    BUFFER_ASKED = 5, /* for a moment: not written to, and nobody else's */
};

#define STATE_BITS 8u
#define STATE_MASK 0xffu

struct buffer {
    _Atomic uint32_t state; /* enum buffer_state; a lent one's with its registration */
    _Atomic uint32_t
        place;          /* which of its places; our thread's, while it is not lent */
    size_t valid_bytes; /* holds in a full one */
    uint64_t order;     /* likewise: when it came back */
    _Atomic uint64_t requested; /* ticks */
    _Atomic uint64_t followed;  /* ticks when the next one was requested; 0 it is the last */
    uint64_t passed;            /* our thread's: `requested` when it was passed over */
};
static struct buffer buffers[BUFFERS_COUNT];
/* The places of all, then the scrap; written once, before any request. */
static uint8_t *memory;
static _Atomic uint32_t registration; /* counts; relaxed: kinds are off when it grows */
static _Atomic uint64_t completed, completed_step;
static _Atomic uint64_t scrapped;
static _Atomic uint32_t scraps_lent, scraps_back; /* times since the start */
/* Our thread's: both at the last look, and how many times it was given up. */
static uint32_t scraps_lent_seen, scraps_back_seen, scraps_gone;
static _Atomic uint32_t hint; /* where the next free one may be */
static _Atomic uint32_t newest; /* index + 1 of the one requested last */

int buffers_open(void)
{
    if (memory != NULL)
        return 0;
    void *mapped = mmap(NULL, (PLACES + 1) * BUFFER_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped == MAP_FAILED)
        return -ENOMEM;
    memory = mapped;
    return 0;
}

static uint32_t lent_now(void)
{
    return BUFFER_LENT | atomic_load_explicit(&registration, memory_order_relaxed)
                             << STATE_BITS;
}

static bool is_lent(uint32_t state)
{
    return (state & STATE_MASK) == BUFFER_LENT;
}

static uint8_t *bytes_of(uint32_t index)
{
    uint32_t place = atomic_load_explicit(&buffers[index].place, memory_order_relaxed);

    return memory + ((size_t)place * BUFFERS_COUNT + index) * BUFFER_BYTES;
}

/* It is ours alone. What CUPTI writes next goes into it. */
static void note_request(uint32_t index)
{
    uint64_t now = probe_ticks();
    uint32_t before;

    atomic_store_explicit(&buffers[index].requested, now, memory_order_relaxed);
    before = atomic_exchange_explicit(&newest, index + 1, memory_order_relaxed);
    if (before != 0)
        atomic_store_explicit(&buffers[before - 1].followed, now, memory_order_relaxed);
    atomic_store_explicit(&buffers[index].followed, 0, memory_order_relaxed);
}

void buffers_request(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
    uint32_t first = atomic_load_explicit(&hint, memory_order_relaxed);

    *bytes = BUFFER_BYTES;
    *records_max = 0; /* as many as fit */
    for (uint32_t i = 0; i < BUFFERS_COUNT; i++) {
        uint32_t index = (first + i) % BUFFERS_COUNT, state = BUFFER_FREE;

        /* Acquire: pairs with the release in buffers_give_back(); the zeroes are there.
         */
        if (!atomic_compare_exchange_strong_explicit(&buffers[index].state, &state,
                                                     BUFFER_ASKED, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        note_request(index);
        /* Release: pairs with the acquire in buffers_known() and buffers_pass(). */
        atomic_store_explicit(&buffers[index].state, lent_now(), memory_order_release);
        atomic_store_explicit(&hint, index + 1, memory_order_relaxed);
        *buffer = bytes_of(index);
        return;
    }
    /* Release: pairs with the acquire in buffers_scrap_was_out(). */
    atomic_fetch_add_explicit(&scraps_lent, 1, memory_order_release);
    *buffer = memory + PLACES * BUFFER_BYTES;
}

/* Several may have it at once, and nobody reads it: whole words, whoever writes beside. */
static void zero_scrap(uint8_t *scrap, size_t bytes)
{
    uint64_t *words = (uint64_t *)(void *)scrap;

    for (size_t i = 0; i < (bytes + sizeof(*words) - 1) / sizeof(*words); i++)
        __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
}

void buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                      size_t valid_bytes)
{
    /* Unsigned: what is not ours is far away. */
    size_t at = (uintptr_t)buffer - (uintptr_t)memory, place = at / BUFFER_BYTES;
    uint32_t index = (uint32_t)(place % BUFFERS_COUNT), state;

    (void)context, (void)stream, (void)bytes;
    atomic_store_explicit(&completed_step, probe_step_number(), memory_order_relaxed);
    /* Release: pairs with the acquire in buffers_completed(). */
    uint64_t order = atomic_fetch_add_explicit(&completed, 1, memory_order_release);

    if (valid_bytes > BUFFER_BYTES)
        valid_bytes = BUFFER_BYTES;
    if (buffer == NULL || at % BUFFER_BYTES != 0 || place > PLACES)
        return;
    if (place == PLACES || buffer != bytes_of(index)) {
        atomic_fetch_add_explicit(&scrapped, valid_bytes, memory_order_relaxed);
        if (place == PLACES) {
            zero_scrap(buffer, valid_bytes); /* promised */
            /* Release: pairs with the acquire in buffers_scrap_was_out(). */
            atomic_fetch_add_explicit(&scraps_back, 1, memory_order_release);
        }
        return; /* else it was reclaimed, and comes too late */
    }
    /* Relaxed: what it holds is ordered by the next store. */
    state = atomic_load_explicit(&buffers[index].state, memory_order_relaxed);
    if (!is_lent(state) || !atomic_compare_exchange_strong_explicit(
                               &buffers[index].state, &state, BUFFER_BACK,
                               memory_order_relaxed, memory_order_relaxed))
        return; /* given back twice */
    buffers[index].valid_bytes = valid_bytes;
    buffers[index].order = order;
    /* Release: pairs with the acquire in buffers_take(). */
    atomic_store_explicit(&buffers[index].state, BUFFER_FULL, memory_order_release);
}

bool buffers_take(struct buffer_lent *lent)
{
    uint32_t found = BUFFERS_COUNT;

    for (uint32_t i = 0; i < BUFFERS_COUNT; i++) {
        /* Acquire: pairs with the release in buffers_complete(). */
        if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) ==
                BUFFER_FULL &&
            (found == BUFFERS_COUNT || buffers[i].order < buffers[found].order))
            found = i;
    }
    if (found == BUFFERS_COUNT)
        return false;
    *lent = (struct buffer_lent){found, bytes_of(found), buffers[found].valid_bytes,
                                 buffers[found].order, false};
    return true;
}

/* The place that CUPTI may still write to loses its pages; the next one is zero. */
static void move_on(const struct buffer_lent *lent)
{
    struct buffer *buffer = &buffers[lent->index];
    uint32_t place = atomic_load_explicit(&buffer->place, memory_order_relaxed);

    (void)madvise(lent->bytes, BUFFER_BYTES, MADV_DONTNEED);
    atomic_store_explicit(&buffer->place, (place + 1) % BUFFER_PLACES,
                          memory_order_relaxed);
}

void buffers_give_back(const struct buffer_lent *lent)
{
    if (atomic_load_explicit(&buffers[lent->index].state, memory_order_relaxed) ==
        BUFFER_RECLAIMED)
        move_on(lent);
    memset(bytes_of(lent->index), 0, BUFFER_BYTES);
    /* Release: pairs with the acquire in buffers_request(). */
    atomic_store_explicit(&buffers[lent->index].state, BUFFER_FREE,
                          memory_order_release);
}

void buffers_registered(void)
{
    /* Another profiler that was given it did not zero it. */
    zero_scrap(memory + PLACES * BUFFER_BYTES, BUFFER_BYTES);
    scraps_gone = atomic_load_explicit(&scraps_lent, memory_order_acquire) -
                  atomic_load_explicit(&scraps_back, memory_order_acquire);
    atomic_fetch_add_explicit(&registration, 1, memory_order_relaxed);
}

bool buffers_reclaim(struct buffer_lent *lent)
{
    for (uint32_t i = 0; i < BUFFERS_COUNT; i++) {
        uint32_t state = atomic_load_explicit(&buffers[i].state, memory_order_relaxed);

        /* Relaxed: who completes it at this moment finds it reclaimed, or we find it
         * back. What is in it was written in calls that ended long ago. */
        if (!is_lent(state) || state == lent_now() ||
            !atomic_compare_exchange_strong_explicit(
                &buffers[i].state, &state, BUFFER_RECLAIMED, memory_order_relaxed,
                memory_order_relaxed))
            continue;
        *lent = (struct buffer_lent){i, bytes_of(i), BUFFER_BYTES, 0, true};
        return true;
    }
    return false;
}

uint64_t buffers_known(uint64_t now_ticks)
{
    uint64_t known = now_ticks;

    for (uint32_t i = 0; i < BUFFERS_COUNT; i++) {
        const struct buffer *buffer = &buffers[i];
        uint32_t state = atomic_load_explicit(&buffer->state, memory_order_acquire);
        uint64_t requested =
            atomic_load_explicit(&buffer->requested, memory_order_relaxed);

        /* What is asked for at this moment gets work that begins later. */
        if (state != BUFFER_FREE && state != BUFFER_ASKED &&
            requested != buffer->passed && requested < known)
            known = requested;
    }
    return known;
}

bool buffers_pass(uint64_t before_ticks, struct buffer_passed *passed)
{
    for (uint32_t i = 0; i < BUFFERS_COUNT; i++) {
        struct buffer *buffer = &buffers[i];
        uint32_t state = atomic_load_explicit(&buffer->state, memory_order_acquire);
        uint64_t requested =
            atomic_load_explicit(&buffer->requested, memory_order_relaxed);
        uint64_t followed =
            atomic_load_explicit(&buffer->followed, memory_order_relaxed);
        bool is_stuck = followed != 0 && requested < before_ticks;

        if (!is_lent(state) || requested == buffer->passed ||
            (state == lent_now() && !is_stuck))
            continue;
        buffer->passed = requested;
        *passed = (struct buffer_passed){requested, followed};
        return true;
    }
    return false;
}

bool buffers_scrap_was_out(void)
{
    uint32_t back = atomic_load_explicit(&scraps_back, memory_order_acquire);
    uint32_t lent = atomic_load_explicit(&scraps_lent, memory_order_acquire);
    int32_t out = (int32_t)(lent - back - scraps_gone);
    bool was_out = out > 0 || lent != scraps_lent_seen || back != scraps_back_seen;

    if (out < 0) /* one that was given up has come all the same */
        scraps_gone = lent - back;
    scraps_lent_seen = lent;
    scraps_back_seen = back;
    return was_out;
}

uint64_t buffers_completed(void)
{
    return atomic_load_explicit(&completed, memory_order_acquire);
}

uint64_t buffers_completed_step(void)
{
    return atomic_load_explicit(&completed_step, memory_order_relaxed);
}

uint32_t buffers_lent(void)
{
    uint32_t lent = 0;

    for (uint32_t i = 0; i < BUFFERS_COUNT; i++)
        lent += is_lent(atomic_load_explicit(&buffers[i].state, memory_order_relaxed));
    return lent;
}

uint32_t buffers_held(void)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < BUFFERS_COUNT; i++)
        held += atomic_load_explicit(&buffers[i].state, memory_order_relaxed) !=
                BUFFER_FREE;
    return held;
}

uint64_t buffers_scrapped(void)
{
    return atomic_exchange_explicit(&scrapped, 0, memory_order_relaxed);
}
