#include "wire/ring.h"

#include <errno.h>
#include <stdbool.h>

/* No thread publishes 2^40 events between two looks: a larger jump is a lie. */
#define JUMP_MAX ((uint64_t)1 << 40)

size_t ring_size(uint64_t capacity)
{
    return sizeof(struct ring_shared) + (size_t)capacity * sizeof(struct event);
}

static bool fits(const void *memory, size_t size, uint64_t capacity)
{
    bool power_of_two = capacity != 0 && (capacity & (capacity - 1)) == 0;

    return power_of_two && capacity >= RING_RECORDS_MAX &&
           capacity <= SIZE_MAX / sizeof(struct event) / 2 &&
           size >= ring_size(capacity) && (uintptr_t)memory % 128 == 0;
}

int ring_open(struct ring *ring, void *memory, size_t size, uint64_t capacity)
{
    if (!fits(memory, size, capacity))
        return -EINVAL;
    *ring = (struct ring){.shared = memory, .mask = capacity - 1};
    ring->pos = atomic_load_explicit(&ring->shared->reserve, memory_order_relaxed);
    return 0;
}

int ring_attach(struct ring_reader *reader, const void *memory, size_t size,
                uint64_t capacity, int from_start)
{
    if (!fits(memory, size, capacity))
        return -EINVAL;
    *reader = (struct ring_reader){.shared = memory, .mask = capacity - 1};
    /* Acquire: pairs with the release in ring_push_many(). */
    uint64_t head = atomic_load_explicit(&reader->shared->head, memory_order_acquire);

    reader->pos = head;
    if (from_start)
        reader->pos = head > capacity ? head - capacity : 0;
    return 0;
}

uint64_t ring_pending(const struct ring_reader *reader)
{
    uint64_t head = atomic_load_explicit(&reader->shared->head, memory_order_relaxed);

    return head - reader->pos;
}

static void copy(const struct ring_reader *reader, struct event *events, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const _Atomic uint64_t *words =
            reader->shared->words + 4 * ((reader->pos + i) & reader->mask);

        events[i].time = atomic_load_explicit(words + 0, memory_order_relaxed);
        events[i].value = atomic_load_explicit(words + 1, memory_order_relaxed);
        events[i].meta = atomic_load_explicit(words + 2, memory_order_relaxed);
        events[i].aux = atomic_load_explicit(words + 3, memory_order_relaxed);
    }
}

/* Drops the first `gone` of `count` events. */
static uint64_t shift(struct event *events, uint64_t count, uint64_t gone)
{
    for (uint64_t i = gone; i < count; i++)
        events[i - gone] = events[i];
    return count - gone;
}

int64_t ring_read(struct ring_reader *reader, struct event *events, uint64_t max)
{
    uint64_t capacity = reader->mask + 1;
    /* Acquire: pairs with the release of head in ring_push_many(). */
    uint64_t head = atomic_load_explicit(&reader->shared->head, memory_order_acquire);
    uint64_t waiting = head - reader->pos;

    if (waiting == 0)
        return 0;
    if (waiting > JUMP_MAX)
        return -EPROTO;
    if (waiting > capacity) {
        reader->lost += waiting - capacity;
        reader->pos = head - capacity;
        waiting = capacity;
    }
    uint64_t count = waiting < max ? waiting : max;

    copy(reader, events, count);
    /* Pairs with the release fence in ring_push_many(): a word that was overwritten
     * under our hands comes with a reserve that says so. */
    atomic_thread_fence(memory_order_acquire);
    uint64_t reserve =
        atomic_load_explicit(&reader->shared->reserve, memory_order_relaxed);

    if (reserve - reader->pos > JUMP_MAX)
        return -EPROTO;
    uint64_t begun = reserve - reader->pos;
    uint64_t gone = begun > capacity ? begun - capacity : 0;

    if (gone > count)
        gone = count;
    reader->pos += count;
    reader->lost += gone;
    return (int64_t)(gone > 0 ? shift(events, count, gone) : count);
}
