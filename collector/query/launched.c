#include "query/launched.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/history.h"

/* A device so many steps behind its host is none that anybody runs. */
#define STEPS_BEHIND 4

#define CALLS_MAX   (1u << 18) /* of a step; 6 MB */
#define PHASES_MAX  1024u      /* stretches in a step; more are none's */

struct call {
    uint64_t correlation;
    int64_t at_ns;
    bool launches, has_work;
};

struct stretch {
    int64_t start_ns, end_ns;
    uint32_t phase;
};

struct looking {
    const struct trace_process *process;
    int64_t from_ns, to_ns; /* the step */
    struct call *calls;     /* [call_capacity] */
    uint32_t call_count, call_capacity;
    struct stretch phases[PHASES_MAX];
    uint32_t phase_count;
};

static bool add_call(struct looking *looking, const struct event *event, bool launches)
{
    if (looking->call_count == looking->call_capacity) {
        uint32_t capacity =
            looking->call_capacity == 0 ? 256 : looking->call_capacity * 2;
        struct call *calls = capacity > CALLS_MAX
                                 ? NULL
                                 : realloc(looking->calls, capacity * sizeof(*calls));

        if (calls == NULL)
            return false;
        looking->calls = calls;
        looking->call_capacity = capacity;
    }
    looking->calls[looking->call_count++] = (struct call){.correlation = event->aux,
                                                          .at_ns = (int64_t)event->time,
                                                          .launches = launches};
    return true;
}

static bool take_host(struct looking *looking, uint32_t thread, const struct event *event)
{
    uint32_t phase = EVENT_AUX16(event->meta);

    switch (EVENT_KIND(event->meta)) {
    case EVENT_PHASE:
        if (looking->process->threads[thread].tells_steps && phase < EVENT_PHASES &&
            looking->phase_count < PHASES_MAX)
            looking->phases[looking->phase_count++] =
                (struct stretch){(int64_t)event->time,
                                 (int64_t)(event->time + event->value), phase};
        return true;
    case EVENT_LAUNCH:
        return event->aux == 0 || add_call(looking, event, true);
    case EVENT_RUNTIME:
    case EVENT_SYNC:
        return event->aux == 0 || add_call(looking, event, false);
    default:
        return true;
    }
}

static bool is_within(const struct event *event, int64_t from_ns, int64_t to_ns)
{
    return (int64_t)event->time >= from_ns && (int64_t)event->time < to_ns;
}

static bool touches(const struct trace_block *block, int64_t from_ns, int64_t to_ns)
{
    return block->count > 0 && block->block->to_ns >= from_ns &&
           block->block->from_ns < to_ns;
}

/* False without memory. */
static bool look_at_host(struct looking *looking)
{
    for (uint32_t i = 0; i < looking->process->block_count; i++) {
        const struct trace_block *block = &looking->process->blocks[i];

        if (!touches(block, looking->from_ns, looking->to_ns))
            continue;
        for (uint32_t j = 0; j < block->count; j++)
            if (is_within(&block->events[j], looking->from_ns, looking->to_ns) &&
                !take_host(looking, block->thread, &block->events[j]))
                return false;
    }
    return true;
}

static int by_correlation(const void *left, const void *right)
{
    const struct call *a = left, *b = right;

    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

static int by_start(const void *left, const void *right)
{
    const struct stretch *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* EVENT_PHASES in none; they do not lie in each other. */
static uint32_t phase_at(const struct looking *looking, int64_t at_ns)
{
    uint32_t low = 0, high = looking->phase_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (looking->phases[middle].start_ns > at_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low > 0 && at_ns < looking->phases[low - 1].end_ns
               ? looking->phases[low - 1].phase
               : EVENT_PHASES;
}

static void take_work(struct looking *looking, const struct event *event, double ns[])
{
    uint8_t kind = EVENT_KIND(event->meta);
    const struct call key = {.correlation = event->aux};

    if ((kind != EVENT_KERNEL && kind != EVENT_MEMCPY && kind != EVENT_MEMSET) ||
        event->aux == 0)
        return;
    struct call *call = bsearch(&key, looking->calls, looking->call_count, sizeof(key),
                                by_correlation);

    if (call == NULL)
        return;
    call->has_work = true;
    ns[phase_at(looking, call->at_ns)] += (double)event->value;
}

static void look_at_devices(struct looking *looking, double ns[])
{
    int64_t to_ns = looking->to_ns + STEPS_BEHIND * (looking->to_ns - looking->from_ns);

    for (uint32_t i = 0; i < looking->process->block_count; i++) {
        const struct trace_block *block = &looking->process->blocks[i];

        if (!touches(block, looking->from_ns, to_ns))
            continue;
        for (uint32_t j = 0; j < block->count; j++)
            if (is_within(&block->events[j], looking->from_ns, to_ns))
                take_work(looking, &block->events[j], ns);
    }
}

/* Of the calls that launch; a call of the runtime and the driver's within it are one. */
static bool are_known(const struct looking *looking)
{
    uint32_t launches = 0, known = 0;

    for (uint32_t i = 0; i < looking->call_count;) {
        uint64_t correlation = looking->calls[i].correlation;
        bool launch = false, has_work = false;

        for (; i < looking->call_count && looking->calls[i].correlation == correlation;
             i++) {
            launch |= looking->calls[i].launches;
            has_work |= looking->calls[i].has_work;
        }
        launches += launch;
        known += launch && has_work;
    }
    return launches > 0 && known >= LAUNCHED_KNOWN * launches;
}

bool launched_in(const struct trace_process *process, const struct step_row *row,
                 double ns[EVENT_PHASES + 1])
{
    struct looking *looking = calloc(1, sizeof(*looking));
    bool known = false;

    memset(ns, 0, (EVENT_PHASES + 1) * sizeof(*ns));
    if (looking == NULL)
        return false;
    looking->process = process;
    looking->from_ns = row->start_ns;
    looking->to_ns = row->start_ns + (int64_t)row->duration_ns;
    if (look_at_host(looking)) {
        if (looking->call_count > 1)
            qsort(looking->calls, looking->call_count, sizeof(*looking->calls),
                  by_correlation);
        if (looking->phase_count > 1)
            qsort(looking->phases, looking->phase_count, sizeof(*looking->phases),
                  by_start);
        look_at_devices(looking, ns);
        known = are_known(looking);
    }
    free(looking->calls);
    free(looking);
    return known;
}
