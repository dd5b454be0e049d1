#include "probe/cupti/buffers.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum buffer_state { BUFFER_FREE = 0, BUFFER_LENT = 1, BUFFER_FULL = 2 };

struct buffer {
    _Atomic uint32_t state; /* enum buffer_state */
    size_t valid_bytes;     /* holds in a full one */
    uint64_t order;         /* likewise: when it came back */
};
static struct buffer buffers[BUFFERS_COUNT];
static uint8_t *memory; /* of all, then the scrap; written once, before any request */
static _Atomic uint64_t completed;
static _Atomic uint64_t scrapped;
static _Atomic uint32_t hint; /* where the next free one may be */

int buffers_open(void)
{
    if (memory != NULL)
        return 0;
    void *mapped =
        mmap(NULL, (BUFFERS_COUNT + 1) * BUFFER_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped == MAP_FAILED)
        return -ENOMEM;
    memory = mapped;
    return 0;
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
                                                     BUFFER_LENT, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&hint, index + 1, memory_order_relaxed);
        *buffer = memory + index * BUFFER_BYTES;
        return;
    }
    *buffer = memory + BUFFERS_COUNT * BUFFER_BYTES;
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
    size_t at = (uintptr_t)buffer - (uintptr_t)memory, index = at / BUFFER_BYTES;

    (void)context, (void)stream, (void)bytes;
    uint64_t order = atomic_fetch_add_explicit(&completed, 1, memory_order_relaxed);

    if (valid_bytes > BUFFER_BYTES)
        valid_bytes = BUFFER_BYTES;
    if (buffer == NULL || at % BUFFER_BYTES != 0 || index > BUFFERS_COUNT)
        return;
    if (index == BUFFERS_COUNT) {
        atomic_fetch_add_explicit(&scrapped, valid_bytes, memory_order_relaxed);
        zero_scrap(buffer, valid_bytes); /* promised */
        return;
    }
    if (atomic_load_explicit(&buffers[index].state, memory_order_relaxed) !=
        BUFFER_LENT)
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
    *lent = (struct buffer_lent){found, memory + found * BUFFER_BYTES,
                                 buffers[found].valid_bytes};
    return true;
}

void buffers_give_back(const struct buffer_lent *lent)
{
    memset(lent->bytes, 0, BUFFER_BYTES);
    /* Release: pairs with the acquire in buffers_request(). */
    atomic_store_explicit(&buffers[lent->index].state, BUFFER_FREE,
                          memory_order_release);
}

uint64_t buffers_completed(void)
{
    return atomic_load_explicit(&completed, memory_order_relaxed);
}

uint32_t buffers_lent(void)
{
    uint32_t lent = 0;

    for (uint32_t i = 0; i < BUFFERS_COUNT; i++)
        lent += atomic_load_explicit(&buffers[i].state, memory_order_relaxed) ==
                BUFFER_LENT;
    return lent;
}

uint64_t buffers_scrapped(void)
{
    return atomic_exchange_explicit(&scrapped, 0, memory_order_relaxed);
}
