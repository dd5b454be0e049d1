/* The graph of a step run again, whole and with parts of it gone; and its longest path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu.h"
#include "aggregate/replay_inside.h"

#define NOTHING         REPLAY_WHAT_IFS       /* is gone */
#define ALL_BUT_COMPUTE (REPLAY_WHAT_IFS + 1) /* of a device */

const uint8_t replay_cuts[REPLAY_CUTS] = {1, 2, 4, REPLAY_EIGHTHS};

static const char *const kind_names[REPLAY_KINDS] = {
    [REPLAY_DATA] = "data",
    [REPLAY_OP] = "op",
    [REPLAY_LAUNCH] = "launch",
    [REPLAY_RUNTIME] = "runtime",
    [REPLAY_SYNC] = "sync",
    [REPLAY_COLLECTIVE] = "collective",
    [REPLAY_PYTHON] = "python",
    [REPLAY_COMPUTE] = "compute",
    [REPLAY_COMMUNICATION] = "communication",
    [REPLAY_COPY] = "copy",
    [REPLAY_LATENCY] = "latency",
    [REPLAY_UNKNOWN] = "unknown",
};

static const char *const what_if_names[REPLAY_WHAT_IFS] = {
    [REPLAY_DATA_HIDDEN] = "data-hidden",
    [REPLAY_SYNC_FREE] = "sync-free",
    [REPLAY_LAUNCH_FREE] = "launch-free",
    [REPLAY_COPIES_HIDDEN] = "copies-hidden",
    [REPLAY_COMMUNICATION_HIDDEN] = "communication-hidden",
    [REPLAY_COMPUTE_HALVED] = "compute-halved",
};

const char *replay_kind_name(enum replay_kind kind)
{
    return kind < REPLAY_KINDS ? kind_names[kind] : "unknown";
}

const char *replay_what_if_name(enum replay_what_if what_if)
{
    return what_if < REPLAY_WHAT_IFS ? what_if_names[what_if] : "";
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- running it -------------------------------------------------------------------------- */

static bool is_link_gone(const struct replay_link *link, uint32_t what_if)
{
    switch (what_if) {
    case REPLAY_DATA_HIDDEN:
        return link->kind == REPLAY_DATA;
    case REPLAY_SYNC_FREE: /* a launch that waits for room in the queue still does */
        return link->waits > 0 && link->kind != REPLAY_LAUNCH;
    case REPLAY_LAUNCH_FREE:
        return link->waits == 0 &&
               (link->kind == REPLAY_OP || link->kind == REPLAY_LAUNCH ||
                link->kind == REPLAY_RUNTIME || link->kind == REPLAY_PYTHON);
    case REPLAY_COMMUNICATION_HIDDEN:
        return link->kind == REPLAY_COLLECTIVE;
    default:
        return false;
    }
}

static bool is_work_gone(const struct replay_work *work, uint32_t what_if)
{
    return (what_if == REPLAY_COPIES_HIDDEN && work->kind == REPLAY_COPY) ||
           (what_if == REPLAY_COMMUNICATION_HIDDEN &&
            work->kind == REPLAY_COMMUNICATION) ||
           (what_if == ALL_BUT_COMPUTE && work->kind != REPLAY_COMPUTE);
}

struct run {
    const struct replay *replay;
    uint32_t what_if; /* enum replay_what_if, or beyond */
    int64_t cut;      /* eighths that kernels lose */
    int64_t *starts;  /* of links, one more for the end of the last */
    int64_t *ends;    /* of works */
};

static int64_t work_ns(const struct run *run, const struct replay_work *work)
{
    int64_t ns = work->end_ns - work->start_ns;

    if (is_work_gone(work, run->what_if))
        return 0;
    if (work->kind == REPLAY_COMPUTE)
        ns -= ns / REPLAY_EIGHTHS * run->cut +
              ns % REPLAY_EIGHTHS * run->cut / REPLAY_EIGHTHS;
    return ns;
}

/* What it waited for has a lower index, or is a link that has begun. */
static void run_work(const struct run *run, uint32_t i)
{
    const struct replay *replay = run->replay;
    const struct replay_work *work = &replay_works(replay)[i];
    int64_t ready = replay->step.start_ns;

    if (work->before > 0)
        ready = later(ready, run->ends[work->before - 1]);
    if (work->after > 0)
        ready = later(ready, run->ends[work->after - 1]);
    if (work->launcher > 0) {
        const struct replay_link *link = &replay_links(replay)[work->launcher - 1];
        bool gone = is_link_gone(link, run->what_if);
        int64_t offset = gone ? 0 : work->launched_ns - link->start_ns;

        ready = later(ready, run->starts[work->launcher - 1] + offset);
    }
    run->ends[i] = ready + work->late_ns + work_ns(run, work);
}

static int64_t link_end(const struct run *run, uint32_t i)
{
    const struct replay_link *link = &replay_links(run->replay)[i];
    int64_t start = run->starts[i];

    if (is_link_gone(link, run->what_if))
        return start;
    if (link->waits == 0)
        return start + (link->end_ns - link->start_ns);
    int64_t own = link->end_ns - replay_works(run->replay)[link->waits - 1].end_ns;

    return later(start, later(start, run->ends[link->waits - 1]) + own);
}

/* What the devices are busy with, each instant of a device once: the most of any. Shorter
 * works stay where they began: of those side by side it is more than there has to be. */
static int64_t busy_ns(const struct run *run)
{
    const struct replay *replay = run->replay;
    const struct replay_work *works = replay_works(replay);
    struct {
        int64_t until_ns, sum_ns;
        uint16_t device;
    } devices[GPU_TABLES];
    uint32_t count = 0, at;
    int64_t most = 0;

    for (uint32_t i = 0; i < replay->works.count; i++) {
        int64_t ns = work_ns(run, &works[i]);

        if (ns == 0)
            continue;
        for (at = 0; at < count && devices[at].device != works[i].device;)
            at++;
        if (at == GPU_TABLES)
            continue; /* of a device beyond what anything here has room for */
        if (at == count) {
            devices[count].device = works[i].device;
            devices[count].until_ns = replay->step.start_ns;
            devices[count++].sum_ns = 0;
        }
        int64_t from = later(works[i].start_ns, devices[at].until_ns);
        int64_t to = works[i].start_ns + ns;

        devices[at].sum_ns += later(to - from, 0);
        devices[at].until_ns = later(devices[at].until_ns, to);
        most = later(most, devices[at].sum_ns);
    }
    return most;
}

static int64_t run_step(const struct run *run)
{
    const struct replay *replay = run->replay;
    const struct replay_link *links = replay_links(replay);
    const struct replay_work *works = replay_works(replay);
    uint32_t work = 0;

    run->starts[0] = replay->step.start_ns;
    for (uint32_t i = 0; i < replay->links.count; i++) {
        while (work < replay->works.count && works[work].start_ns < links[i].end_ns)
            run_work(run, work++);
        run->starts[i + 1] = link_end(run, i);
    }
    return later(run->starts[replay->links.count] - replay->step.start_ns,
                 busy_ns(run));
}

/* Is there anything that the question is about? */
static void ask(const struct replay *replay, bool asked[REPLAY_WHAT_IFS])
{
    const struct replay_link *links = replay_links(replay);
    const struct replay_work *works = replay_works(replay);

    memset(asked, 0, REPLAY_WHAT_IFS * sizeof(*asked));
    asked[REPLAY_LAUNCH_FREE] = replay->works.count > 0;
    for (uint32_t i = 0; i < replay->links.count; i++) {
        asked[REPLAY_DATA_HIDDEN] |= is_link_gone(&links[i], REPLAY_DATA_HIDDEN);
        asked[REPLAY_SYNC_FREE] |= is_link_gone(&links[i], REPLAY_SYNC_FREE);
        asked[REPLAY_COMMUNICATION_HIDDEN] |=
            is_link_gone(&links[i], REPLAY_COMMUNICATION_HIDDEN);
    }
    for (uint32_t i = 0; i < replay->works.count; i++) {
        asked[REPLAY_COPIES_HIDDEN] |= is_work_gone(&works[i], REPLAY_COPIES_HIDDEN);
        asked[REPLAY_COMMUNICATION_HIDDEN] |=
            is_work_gone(&works[i], REPLAY_COMMUNICATION_HIDDEN);
        asked[REPLAY_COMPUTE_HALVED] |= works[i].kind == REPLAY_COMPUTE;
    }
}

static void run_what_ifs(struct run *run, struct replay_result *result)
{
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++) {
        bool runs =
            result->asked[i] && i != REPLAY_COMPUTE_HALVED; /* one of the cuts */

        run->what_if = i;
        result->what_if_ns[i] = runs ? run_step(run) : result->step_ns;
    }
}

static void run_cuts(struct run *run, struct replay_result *result)
{
    bool computes = result->asked[REPLAY_COMPUTE_HALVED];

    run->what_if = ALL_BUT_COMPUTE;
    result->compute_ns = busy_ns(run);
    run->what_if = NOTHING;
    /* Where all of it gains nothing, less does not. */
    for (uint32_t i = REPLAY_CUTS; i-- > 0;) {
        run->cut = replay_cuts[i];
        result->cut_ns[i] = computes ? run_step(run) : result->step_ns;
        computes = computes && result->cut_ns[i] < result->step_ns;
        if (replay_cuts[i] == REPLAY_EIGHTHS / 2)
            result->what_if_ns[REPLAY_COMPUTE_HALVED] = result->cut_ns[i];
    }
}

/* ---- the path ------------------------------------------------------------------------------ */

struct walk { /* from the end of the step to its beginning */
    struct replay *replay;
    struct replay_result *result;
    int64_t at_ns;
};

/* A piece from `from_ns` to where the walk is. */
static void put_piece(struct walk *walk, int64_t from_ns, const struct replay_piece *of)
{
    struct replay_piece *piece;

    if (from_ns >= walk->at_ns)
        return;
    piece = replay_list_add(walk->replay, &walk->replay->path, sizeof(*piece));
    if (piece == NULL)
        return;
    *piece = *of;
    piece->start_ns = from_ns;
    piece->end_ns = walk->at_ns;
    walk->result->kind_ns[of->kind] += walk->at_ns - from_ns;
    walk->at_ns = from_ns;
}

/* From a work back to what it waited for last: the next work + 1, or 0 with the link + 1
 * that launched it; both 0 at the step's beginning. */
static uint32_t walk_work(struct walk *walk, uint32_t at, uint32_t *launcher)
{
    const struct replay_work *works = replay_works(walk->replay), *work = &works[at];
    int64_t ready = work->start_ns - work->late_ns;
    struct replay_piece piece = {.event = work->event,
                                 .stream = work->stream,
                                 .device = work->device,
                                 .kind = work->kind};

    put_piece(walk, work->start_ns, &piece);
    piece.kind = work->late_ns > GPU_LATENCY_NS ? REPLAY_UNKNOWN : REPLAY_LATENCY;
    put_piece(walk, ready, &piece);
    *launcher = 0;
    if (work->after > 0 && works[work->after - 1].end_ns == ready)
        return work->after;
    if (work->before > 0 && works[work->before - 1].end_ns == ready)
        return work->before;
    if (work->launcher > 0 && work->launched_ns == ready)
        *launcher = work->launcher;
    return 0;
}

/* Over works until the host has the baton: the link + 1 that it is in; 0 at the end. */
static uint32_t walk_works(struct walk *walk, uint32_t work)
{
    uint32_t launcher = 0;

    while (work > 0)
        work = walk_work(walk, work - 1, &launcher);
    return launcher;
}

static void walk_step(struct replay *replay, struct replay_result *result)
{
    const struct replay_link *links = replay_links(replay);
    struct walk walk = {replay, result, replay->step.end_ns};
    uint32_t at = replay->links.count;

    while (at > 0 && walk.at_ns > replay->step.start_ns && replay->error == 0) {
        const struct replay_link *link = &links[at - 1];
        struct replay_piece piece = {
            .event = link->event, .thread = link->thread, .kind = link->kind};

        /* A call that is left by its launch was not waited for. */
        if (link->waits > 0 && walk.at_ns == link->end_ns) {
            put_piece(
                &walk,
                sooner(replay_works(replay)[link->waits - 1].end_ns, link->end_ns),
                &piece);
            at = walk_works(&walk, link->waits);
            continue;
        }
        put_piece(&walk, link->start_ns, &piece);
        at--;
    }
    struct replay_piece *path = replay->path.items;

    for (uint32_t i = 0; i < replay->path.count / 2; i++) {
        struct replay_piece other = path[i];

        path[i] = path[replay->path.count - 1 - i];
        path[replay->path.count - 1 - i] = other;
    }
}

int replay_run(struct replay *replay, struct replay_result *result)
{
    struct run run = {.replay = replay, .what_if = NOTHING};

    *result = (struct replay_result){0};
    if (replay->error == 0 && replay->ranges.count == 0 && replay->works.count == 0)
        replay->error = -EINVAL;
    if (replay->error == 0)
        replay_build_host(replay);
    if (replay->error == 0)
        replay_build_works(replay);
    if (replay->error != 0)
        return replay->error;
    run.starts =
        malloc((replay->links.count + 1 + replay->works.count) * sizeof(*run.starts));
    if (run.starts == NULL)
        return -ENOMEM;
    run.ends = run.starts + replay->links.count + 1;
    result->step_ns = run_step(&run);
    ask(replay, result->asked);
    run_what_ifs(&run, result);
    run_cuts(&run, result);
    free(run.starts);
    replay->path.count = 0;
    walk_step(replay, result);
    for (uint32_t i = 0; i < replay->links.count; i++)
        result->waits += replay_links(replay)[i].waits > 0 ||
                         replay_links(replay)[i].kind == REPLAY_SYNC;
    for (uint32_t i = 0; i < replay->works.count; i++)
        if (replay_works(replay)[i].late_ns > GPU_LATENCY_NS)
            result->unknown_ns += replay_works(replay)[i].late_ns;
    result->host_events = replay->ranges.count;
    result->works = replay->works.count;
    result->path = replay->path.items;
    result->path_count = replay->path.count;
    return replay->error;
}
