/* Events of a step to the graph that is replayed. */
#include "aggregate/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu.h"
#include "aggregate/gpu_host.h"
#include "aggregate/replay_inside.h"
#include "aggregate/texts.h"

struct replay *replay_new(const struct texts *texts)
{
    struct replay *replay = calloc(1, sizeof(*replay));

    if (replay != NULL)
        replay->texts = texts;
    return replay;
}

void replay_free(struct replay *replay)
{
    if (replay == NULL)
        return;
    struct replay_list *lists[] = {&replay->ranges, &replay->pieces, &replay->fillers,
                                   &replay->calls,  &replay->links,  &replay->works,
                                   &replay->path};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        free(lists[i]->items);
    free(replay->uses);
    free(replay);
}

void *replay_list_add(struct replay *replay, struct replay_list *list, size_t size)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 256 : list->capacity * 2;
        void *items = realloc(list->items, capacity * size);

        if (items == NULL) {
            replay->error = -ENOMEM;
            return NULL;
        }
        list->items = items;
        list->capacity = capacity;
    }
    return memset((char *)list->items + list->count++ * size, 0, size);
}

void replay_sort(void *items, uint32_t count, size_t size,
                 int (*compare)(const void *, const void *))
{
    const char *item = items;

    for (uint32_t i = 1; i < count; i++, item += size)
        if (compare(item, item + size) > 0) {
            qsort(items, count, size, compare);
            return;
        }
}

void replay_begin(struct replay *replay, const struct replay_step *step)
{
    int64_t length;

    replay->step = *step;
    replay->ranges.count = replay->pieces.count = replay->fillers.count = 0;
    replay->calls.count = replay->links.count = replay->works.count = 0;
    replay->data_count = 0;
    replay->error =
        __builtin_sub_overflow(step->end_ns, step->start_ns, &length) || length <= 0
            ? -EINVAL
            : 0;
}

/* ---- what comes in -------------------------------------------------------------------- */

static uint8_t use_of(struct replay *replay, uint32_t text)
{
    if (text >= replay->use_count) {
        uint32_t count = text < TEXTS_MAX ? text + 256 : 0;
        uint8_t *uses = count > 0 ? realloc(replay->uses, count) : NULL;

        if (uses == NULL)
            return gpu_name_classify(texts_get(replay->texts, text));
        memset(uses + replay->use_count, 0, count - replay->use_count);
        replay->uses = uses;
        replay->use_count = count;
    }
    if (replay->uses[text] == 0)
        replay->uses[text] = gpu_name_classify(texts_get(replay->texts, text));
    return replay->uses[text];
}

static void add_work(struct replay *replay, const struct replay_range *range,
                     const struct event *more)
{
    struct replay_work *work =
        replay_list_add(replay, &replay->works, sizeof(struct replay_work));
    uint8_t kind = EVENT_KIND(range->event->meta);
    uint8_t use = use_of(replay, EVENT_NAME(range->event->meta));

    if (work == NULL)
        return;
    *work = (struct replay_work){.start_ns = range->start_ns,
                                 .end_ns = range->end_ns,
                                 .event = range->event,
                                 .device = EVENT_AUX16(range->event->meta),
                                 .kind = kind != EVENT_KERNEL ? REPLAY_COPY
                                         : use & GPU_NAME_COMMUNICATION
                                             ? REPLAY_COMMUNICATION
                                             : REPLAY_COMPUTE};
    if (more != NULL && EVENT_KIND(more->meta) == EVENT_MORE)
        work->stream = (uint32_t)(kind == EVENT_KERNEL ? more->time : more->value);
}

static void add_host(struct replay *replay, const struct replay_range *range)
{
    uint8_t kind = EVENT_KIND(range->event->meta);
    struct replay_range *kept =
        replay_list_add(replay, &replay->ranges, sizeof(struct replay_range));
    bool call = kind == EVENT_RUNTIME || kind == EVENT_LAUNCH || kind == EVENT_SYNC;

    if (kept == NULL)
        return;
    *kept = *range;
    if (call)
        kept->thread = EVENT_CALLER(range->event->meta, range->thread);
    kept->kind = kind == EVENT_LAUNCH       ? REPLAY_LAUNCH
                 : kind == EVENT_RUNTIME    ? REPLAY_RUNTIME
                 : kind == EVENT_SYNC       ? REPLAY_SYNC
                 : kind == EVENT_COLLECTIVE ? REPLAY_COLLECTIVE
                                            : REPLAY_OP;
    if (kept->kind == REPLAY_OP &&
        GPU_NAME_HOST(use_of(replay, EVENT_NAME(range->event->meta))) ==
            GPU_HOST_COLLECTIVE)
        kept->kind = REPLAY_COLLECTIVE;
    if (!call || range->event->aux == 0)
        return;
    struct replay_call *caller =
        replay_list_add(replay, &replay->calls, sizeof(struct replay_call));

    if (caller != NULL)
        *caller = (struct replay_call){.correlation = range->event->aux,
                                       .start_ns = (int64_t)range->event->time,
                                       .moved_ns = INT64_MIN};
}

static void add_data(struct replay *replay, const struct replay_range *range)
{
    uint32_t at = replay->data_count;

    if (at == REPLAY_PHASES_MAX) {
        replay->error = -E2BIG;
        return;
    }
    /* They come in the order of their ends, and a phase does not nest in itself. */
    while (at > 0 && replay->data[at - 1].start_ns > range->start_ns) {
        replay->data[at] = replay->data[at - 1];
        at--;
    }
    replay->data[at].start_ns = range->start_ns;
    replay->data[at].end_ns = range->end_ns;
    replay->data_count++;
}

static void add_range(struct replay *replay, const struct replay_range *range,
                      const struct event *more)
{
    uint64_t meta = range->event->meta;

    switch (EVENT_KIND(meta)) {
    case EVENT_KERNEL:
    case EVENT_MEMCPY:
    case EVENT_MEMSET:
        add_work(replay, range, more);
        break;
    case EVENT_PHASE:
        if (EVENT_AUX16(meta) == EVENT_PHASE_DATA &&
            range->thread == replay->step.trainer)
            add_data(replay, range);
        break;
    case EVENT_CPU_OP: /* an annotation is no work of the host's */
        if (!(EVENT_FLAGS(meta) & EVENT_OP_ASYNC) &&
            texts_class(replay->texts, EVENT_NAME(meta)) == TEXT_PLAIN)
            add_host(replay, range);
        break;
    case EVENT_SYNC:
    case EVENT_RUNTIME:
    case EVENT_LAUNCH:
    case EVENT_COLLECTIVE:
        add_host(replay, range);
        break;
    default:
        break;
    }
}

bool replay_add(struct replay *replay, uint32_t thread, const struct event *event,
                const struct event *more)
{
    int64_t from = replay->step.start_ns, to = replay->step.end_ns, end;
    int64_t start = (int64_t)event->time;

    if (replay->error != 0)
        return false;
    /* An instant's value is no length; none of those is a part of the graph. */
    if (start >= to || (int64_t)event->value < 0 ||
        __builtin_add_overflow(start, (int64_t)event->value, &end) || end < from)
        return true;
    if (replay->ranges.count >= REPLAY_EVENTS_MAX ||
        replay->works.count >= REPLAY_EVENTS_MAX) {
        replay->error = -E2BIG;
        return false;
    }
    add_range(replay,
              &(struct replay_range){.start_ns = start > from ? start : from,
                                     .end_ns = end < to ? end : to,
                                     .event = event,
                                     .thread = thread},
              more);
    return replay->error == 0;
}

/* ---- the host's chain ------------------------------------------------------------------ */

static int by_thread(const void *left, const void *right)
{
    const struct replay_range *a = left, *b = right;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static int by_start(const void *left, const void *right)
{
    const struct replay_range *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->thread < b->thread ? -1 : a->thread > b->thread;
}

#define NESTED_MOST 256u

struct cutting { /* of one thread into its innermost pieces */
    struct replay *replay;
    const struct replay_range *open[NESTED_MOST];
    int64_t ends[NESTED_MOST]; /* a child ends with its parent at the latest */
    uint32_t depth;
    int64_t cursor_ns;
};

static void cut_until(struct cutting *cutting, int64_t to_ns)
{
    const struct replay_range *top = cutting->open[cutting->depth - 1];
    struct replay *replay = cutting->replay;
    bool trainer = top->thread == replay->step.trainer;
    struct replay_list *list = trainer ? &replay->pieces : &replay->fillers;

    if (to_ns <= cutting->cursor_ns)
        return;
    struct replay_range *piece = replay_list_add(replay, list, sizeof(*piece));

    if (piece != NULL) {
        *piece = *top;
        piece->start_ns = cutting->cursor_ns;
        piece->end_ns = to_ns;
    }
    cutting->cursor_ns = to_ns;
}

static void close_until(struct cutting *cutting, int64_t at_ns)
{
    while (cutting->depth > 0 && cutting->ends[cutting->depth - 1] <= at_ns) {
        cut_until(cutting, cutting->ends[cutting->depth - 1]);
        cutting->depth--;
    }
}

static void cut_ranges(struct replay *replay)
{
    struct replay_range *ranges = replay->ranges.items;
    struct cutting cutting = {.replay = replay};

    replay_sort(ranges, replay->ranges.count, sizeof(*ranges), by_thread);
    for (uint32_t i = 0; i < replay->ranges.count; i++) {
        const struct replay_range *range = &ranges[i];
        int64_t end = range->end_ns;

        if (i == 0 || range->thread != range[-1].thread) {
            close_until(&cutting, INT64_MAX);
            cutting.cursor_ns = INT64_MIN;
        }
        close_until(&cutting, range->start_ns);
        if (cutting.depth == NESTED_MOST)
            continue;
        if (cutting.depth > 0) {
            cut_until(&cutting, range->start_ns);
            if (end > cutting.ends[cutting.depth - 1])
                end = cutting.ends[cutting.depth - 1];
        }
        if (range->start_ns > cutting.cursor_ns)
            cutting.cursor_ns = range->start_ns;
        cutting.open[cutting.depth] = range;
        cutting.ends[cutting.depth++] = end;
    }
    close_until(&cutting, INT64_MAX);
    replay_sort(replay->fillers.items, replay->fillers.count, sizeof(*ranges),
                by_start);
}

/* Of a piece the next part that lies all within data loading, or all without. */
static int64_t part_end(const struct replay *replay, uint32_t *phase, int64_t from,
                        int64_t to, bool *in_data)
{
    while (*phase < replay->data_count && replay->data[*phase].end_ns <= from)
        (*phase)++;
    *in_data = *phase < replay->data_count && replay->data[*phase].start_ns <= from;
    if (*phase == replay->data_count)
        return to;
    int64_t edge =
        *in_data ? replay->data[*phase].end_ns : replay->data[*phase].start_ns;

    return edge < to ? edge : to;
}

struct linking {
    struct replay *replay;
    uint32_t phase, filler;
    int64_t cursor_ns; /* the chain reaches up to here */
};

/* The host was in `of` up to `to_ns`; NULL: in nothing that is recorded. */
static void link_until(struct linking *linking, const struct replay_range *of,
                       int64_t to_ns)
{
    struct replay *replay = linking->replay;

    while (linking->cursor_ns < to_ns) {
        bool in_data;
        int64_t end =
            part_end(replay, &linking->phase, linking->cursor_ns, to_ns, &in_data);
        struct replay_link *link =
            replay_list_add(replay, &replay->links, sizeof(*link));

        if (link == NULL)
            return;
        *link = (struct replay_link){.start_ns = linking->cursor_ns,
                                     .end_ns = end,
                                     .event = of == NULL ? NULL : of->event,
                                     .thread =
                                         of == NULL ? replay->step.trainer : of->thread,
                                     .kind = in_data      ? REPLAY_DATA
                                             : of == NULL ? REPLAY_PYTHON
                                                          : of->kind};
        /* Of a collective that only launches, the device tells. */
        if (link->kind == REPLAY_COLLECTIVE && replay->works.count > 0)
            link->kind = REPLAY_OP;
        linking->cursor_ns = end;
    }
}

/* The training thread was in nothing: another may have the baton. */
static void fill_until(struct linking *linking, int64_t to_ns)
{
    const struct replay_range *fillers = linking->replay->fillers.items;
    uint32_t count = linking->replay->fillers.count;

    while (linking->filler < count && fillers[linking->filler].start_ns < to_ns) {
        const struct replay_range *filler = &fillers[linking->filler];

        link_until(linking, NULL, filler->start_ns < to_ns ? filler->start_ns : to_ns);
        link_until(linking, filler, filler->end_ns < to_ns ? filler->end_ns : to_ns);
        if (filler->end_ns > to_ns)
            break; /* its rest may fill the next gap */
        linking->filler++;
    }
    link_until(linking, NULL, to_ns);
}

void replay_build_host(struct replay *replay)
{
    const struct replay_range *pieces;
    struct linking linking = {.replay = replay, .cursor_ns = replay->step.start_ns};

    cut_ranges(replay);
    pieces = replay->pieces.items;
    for (uint32_t i = 0; i < replay->pieces.count && replay->error == 0; i++) {
        fill_until(&linking, pieces[i].start_ns);
        link_until(&linking, &pieces[i], pieces[i].end_ns);
    }
    if (replay->error == 0)
        fill_until(&linking, replay->step.end_ns);
}
