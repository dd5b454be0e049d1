/* What the works of a step and the calls that waited for them depended on. */
#include <errno.h>
#include <stdlib.h>

#include "aggregate/gpu.h"
#include "aggregate/replay_inside.h"

/* Shorter calls are not asked whether they waited: a work that ended meanwhile is chance
 * then, and there is little to win. A launch takes about 5 us; a queue that is full, or an
 * allocation that waits, takes longer. */
#define CALL_NS INT64_C(50000)

/* What lasts longer before what began with it: that is inside of it. */
static int by_start(const void *left, const void *right)
{
    const struct replay_work *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static int by_correlation(const void *left, const void *right)
{
    const struct replay_call *a = left, *b = right;

    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

struct end { /* of a work */
    int64_t ns;
    uint32_t work;
};

static int by_end(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->work < b->work ? -1 : a->work > b->work;
}

/* ---- streams --------------------------------------------------------------------------- */

struct chain {               /* of one stream */
    uint32_t stream, newest; /* newest: work + 1 */
    uint16_t device;
};

static uint32_t chain_of(struct chain *chains, uint32_t *count,
                         const struct replay_work *work)
{
    for (uint32_t i = 0; i < *count; i++)
        if (chains[i].stream == work->stream && chains[i].device == work->device)
            return i;
    if (*count == REPLAY_STREAMS_MAX)
        return *count - 1;
    chains[*count] = (struct chain){.stream = work->stream, .device = work->device};
    return (*count)++;
}

/* A work follows the one before it on its stream, which ends there at the latest; unless it
 * lies inside of that: nodes of a graph run side by side under one stream. */
static void chain_works(struct replay *replay)
{
    struct replay_work *works = replay_works(replay);
    struct chain chains[REPLAY_STREAMS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < replay->works.count; i++) {
        works[i].chain = chain_of(chains, &count, &works[i]);
        struct chain *chain = &chains[works[i].chain];
        struct replay_work *last = chain->newest > 0 ? &works[chain->newest - 1] : NULL;

        if (last != NULL && last->end_ns >= works[i].end_ns) {
            works[i].before = last->before;
            continue;
        }
        works[i].before = chain->newest;
        if (last != NULL && last->end_ns > works[i].start_ns)
            last->end_ns = works[i].start_ns;
        chain->newest = i + 1;
    }
}

/* ---- launches -------------------------------------------------------------------------- */

static struct replay_call *find_call(const struct replay *replay, uint64_t correlation)
{
    struct replay_call key = {.correlation = correlation};

    if (replay->calls.count == 0 || correlation == 0)
        return NULL;
    return bsearch(&key, replay->calls.items, replay->calls.count, sizeof(key),
                   by_correlation);
}

/* The link that holds this time; they fill the step. */
static uint32_t link_at(const struct replay *replay, int64_t at_ns)
{
    const struct replay_link *links = replay_links(replay);
    uint32_t low = 0, high = replay->links.count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (links[middle].start_ns <= at_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void find_launcher(struct replay *replay, struct replay_work *work)
{
    struct replay_call *call = find_call(replay, work->event->aux);

    if (call == NULL)
        return;
    if (work->kind == REPLAY_COPY && work->end_ns > call->moved_ns)
        call->moved_ns = work->end_ns;
    if (call->start_ns < replay->step.start_ns)
        return;
    /* What began before its launch is two clocks' disagreement. */
    work->launched_ns =
        call->start_ns < work->start_ns ? call->start_ns : work->start_ns;
    work->launcher = link_at(replay, work->launched_ns) + 1;
}

/* ---- what explains a late start ------------------------------------------------------------ */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void explain_start(struct replay *replay, struct replay_work *work,
                          const struct end *last)
{
    const struct replay_work *works = replay_works(replay);
    int64_t ready = replay->step.start_ns;

    if (work->launcher > 0)
        ready = later(ready, work->launched_ns);
    if (work->before > 0)
        ready = later(ready, works[work->before - 1].end_ns);
    if (work->start_ns - ready > GPU_LATENCY_NS && last != NULL && last->ns > ready &&
        work->start_ns - last->ns <= GPU_LATENCY_NS) {
        work->after = last->work + 1;
        ready = last->ns;
    }
    work->late_ns = work->start_ns - ready;
}

/* ---- calls that wait ------------------------------------------------------------------------ */

/* Did the call wait for this work, the last that ended before it came back? */
static bool has_waited(const struct replay *replay, struct replay_link *link,
                       const struct end *last)
{
    const struct replay_call *call;

    if (last->ns <= link->start_ns ||
        replay_works(replay)[last->work].start_ns >= link->end_ns)
        return false;
    if (link->kind == REPLAY_SYNC)
        return true;
    if (link->kind != REPLAY_LAUNCH && link->kind != REPLAY_RUNTIME)
        return false;
    /* A copy that had ended when its call came back: the call waited for it. */
    call = find_call(replay, link->event->aux);
    if (call != NULL && call->moved_ns > link->start_ns &&
        call->moved_ns <= link->end_ns + REPLAY_CLOCK_NS) {
        link->kind = REPLAY_SYNC;
        return true;
    }
    return link->end_ns - link->start_ns >= CALL_NS &&
           link->end_ns - last->ns <= REPLAY_RETURN_NS;
}

void replay_build_works(struct replay *replay)
{
    struct replay_work *works = replay_works(replay);
    struct replay_link *links = replay_links(replay);
    uint32_t count = replay->works.count, ended = 0;
    struct end *ends = count == 0 ? NULL : malloc(count * sizeof(*ends));

    if (count == 0)
        return;
    if (ends == NULL) {
        replay->error = -ENOMEM;
        return;
    }
    replay_sort(works, count, sizeof(*works), by_start);
    replay_sort(replay->calls.items, replay->calls.count, sizeof(struct replay_call),
                by_correlation);
    chain_works(replay);
    for (uint32_t i = 0; i < count; i++) {
        ends[i] = (struct end){.ns = works[i].end_ns, .work = i};
        find_launcher(replay, &works[i]);
    }
    replay_sort(ends, count, sizeof(*ends), by_end);
    for (uint32_t i = 0; i < count; i++) {
        /* Before its start, and so is what it waited for in the order of starts. */
        while (ended < count && ends[ended].ns <= works[i].start_ns &&
               ends[ended].work < i)
            ended++;
        explain_start(replay, &works[i], ended > 0 ? &ends[ended - 1] : NULL);
    }
    ended = 0;
    for (uint32_t i = 0; i < replay->links.count; i++) {
        while (ended < count && ends[ended].ns <= links[i].end_ns + REPLAY_CLOCK_NS)
            ended++;
        if (ended > 0 && has_waited(replay, &links[i], &ends[ended - 1]))
            links[i].waits = ends[ended - 1].work + 1;
    }
    free(ends);
}
