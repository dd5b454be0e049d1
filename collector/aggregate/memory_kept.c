#include "aggregate/memory_kept.h"

#include <string.h>

/* A quarter stays free, and searches stay short. */
#define FULL (MEMORY_KEPT_SIZES * 3 / 4)

static uint32_t place_of(int64_t bytes)
{
    return (uint32_t)(((uint64_t)bytes * 0x9e3779b97f4a7c15u) >> 32) %
           MEMORY_KEPT_SIZES;
}

static uint32_t next_of(uint32_t place)
{
    return (place + 1) % MEMORY_KEPT_SIZES;
}

/* The entry of that size and op; `any` of that size and any op. A new one when there is
 * none; NULL where it finds no room. */
static struct memory_kept_size *find_or_add(struct memory_kept_sizes *sizes,
                                            int64_t bytes, uint32_t op, bool any)
{
    uint32_t place = place_of(bytes);
    struct memory_kept_size *at = &sizes->list[place];

    for (; at->bytes != 0; place = next_of(place), at = &sizes->list[place])
        if (at->bytes == bytes && (any || at->op == op))
            return at;
    if (sizes->count == FULL) {
        sizes->full = true;
        return NULL;
    }
    sizes->count++;
    *at = (struct memory_kept_size){.bytes = bytes, .op = op};
    return at;
}

void memory_kept_add(struct memory_kept_sizes *sizes, uint32_t op, int64_t bytes)
{
    struct memory_kept_size *at;

    sizes->events++;
    if (bytes >= MEMORY_KEPT_LEAST) {
        at = find_or_add(sizes, bytes, op, false);
        if (at != NULL)
            at->taken++;
    } else if (bytes <= -MEMORY_KEPT_LEAST && bytes != INT64_MIN) {
        at = find_or_add(sizes, -bytes, 0, true);
        if (at != NULL)
            at->freed++;
    }
}

/* What stays of the size of an entry, and whose it may be. */
static struct memory_kept look_at(const struct memory_kept_sizes *sizes, int64_t bytes)
{
    struct memory_kept kept = {.block = bytes};
    uint32_t place = place_of(bytes);
    int64_t stay = 0;

    for (; sizes->list[place].bytes != 0; place = next_of(place)) {
        const struct memory_kept_size *at = &sizes->list[place];

        if (at->bytes != bytes)
            continue;
        stay += (int64_t)at->taken - at->freed;
        if (at->taken == 0)
            continue;
        if (kept.op_count == MEMORY_KEPT_OPS || at->op == 0)
            return (struct memory_kept){.op_count = 0};
        kept.ops[kept.op_count++] = at->op;
    }
    if (stay <= 0 || __builtin_mul_overflow(stay, bytes, &kept.bytes))
        return (struct memory_kept){.op_count = 0};
    return kept;
}

struct memory_kept memory_kept_end(struct memory_kept_sizes *sizes, uint64_t events)
{
    struct memory_kept most = {.op_count = 0};
    /* Other threads' come a little sooner or later. */
    bool known = sizes->events > 0 && !sizes->full &&
                 (uint64_t)sizes->events * 20 >= events * 19;

    for (uint32_t i = 0; known && i < MEMORY_KEPT_SIZES; i++) {
        struct memory_kept kept = sizes->list[i].taken > 0
                                      ? look_at(sizes, sizes->list[i].bytes)
                                      : (struct memory_kept){.op_count = 0};

        if (kept.bytes > most.bytes)
            most = kept;
    }
    most.known = known;
    if (sizes->events > 0)
        memset(sizes, 0, sizeof(*sizes));
    return most;
}
