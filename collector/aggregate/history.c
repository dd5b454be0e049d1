#include "aggregate/history.h"

#include <stdlib.h>
#include <string.h>

/* A thread that says little does not pay for a whole block. */
#define FIRST_EVENTS 32u

static size_t block_bytes(uint32_t capacity)
{
    return sizeof(struct history_block) + capacity * sizeof(struct event);
}

void history_init(struct history *history, uint64_t bytes_max)
{
    *history = (struct history){.bytes_max =
                                    bytes_max > 0 ? bytes_max : HISTORY_BYTES_DEFAULT};
}

struct history_block *history_share(struct history_block *block)
{
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

void history_release(struct history_block *block)
{
    /* Release: our reads happen before the free by whoever is last (acquire). */
    if (block != NULL &&
        atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        free(block);
}

/* The oldest block of a process: no other one has others of its process before it. */
static void drop_first(struct history *history, struct history_blocks *of)
{
    struct history_block *block = of->oldest;

    of->oldest = block->after;
    if (of->oldest == NULL)
        of->newest = NULL;
    *(block->older != NULL ? &block->older->newer : &history->oldest) = block->newer;
    *(block->newer != NULL ? &block->newer->older : &history->newest) = block->older;
    history->bytes -= block_bytes(block->capacity);
    history_release(block);
}

void history_forget(struct history *history, struct history_blocks *of)
{
    while (of->oldest != NULL)
        drop_first(history, of);
}

void history_seal(struct history *history, struct history_block **open)
{
    struct history_block *block = *open;

    *open = NULL;
    if (block == NULL)
        return;
    block->older = history->newest;
    *(history->newest != NULL ? &history->newest->newer : &history->oldest) = block;
    history->newest = block;
    *(block->of->newest != NULL ? &block->of->newest->after : &block->of->oldest) =
        block;
    block->of->newest = block;
    history->bytes += block_bytes(block->capacity);
    while (history->bytes > history->bytes_max && history->oldest != history->newest) {
        drop_first(history, history->oldest->of);
        history->dropped_blocks++;
    }
}

static struct history_block *block_new(uint32_t capacity)
{
    struct history_block *block = malloc(block_bytes(capacity));

    if (block == NULL)
        return NULL;
    *block = (struct history_block){
        .capacity = capacity, .from_ns = INT64_MAX, .to_ns = INT64_MIN};
    atomic_init(&block->references, 1);
    return block;
}

struct history_block *history_room(struct history *history, struct history_block **open,
                                   struct history_blocks *of, uint32_t thread)
{
    struct history_block *block = *open;

    if (block != NULL && block->count + RING_RECORDS_MAX <= block->capacity)
        return block;
    if (block != NULL && block->capacity < HISTORY_BLOCK_EVENTS) {
        /* An open block is nobody else's: readers copy it. */
        uint32_t capacity = block->capacity * 4;

        capacity = capacity > HISTORY_BLOCK_EVENTS ? HISTORY_BLOCK_EVENTS : capacity;
        block = realloc(block, block_bytes(capacity));
        if (block == NULL) {
            history->refused++;
            return NULL;
        }
        block->capacity = capacity;
        *open = block;
        return block;
    }
    uint32_t capacity = block == NULL ? FIRST_EVENTS : HISTORY_BLOCK_EVENTS;

    history_seal(history, open);
    block = block_new(capacity);
    if (block == NULL) {
        history->refused++;
        return NULL;
    }
    block->of = of;
    block->thread = thread;
    *open = block;
    return block;
}

struct history_block *history_copy(const struct history_block *block)
{
    struct history_block *copy = block_new(block->count > 0 ? block->count : 1);

    if (copy == NULL)
        return NULL;
    copy->count = block->count;
    copy->thread = block->thread;
    copy->from_ns = block->from_ns;
    copy->to_ns = block->to_ns;
    memcpy(copy->events, block->events, block->count * sizeof(block->events[0]));
    return copy;
}
