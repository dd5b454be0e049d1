/* One thread's events in the order of their ends, children first, as process_fold()
 * wants them; and what only the nesting tells: device time of what each op launched,
 * the op that ran at an allocation, outer backward and forward ops.
 *
 * Sorted by start, outer before inner, then walked with a stack of open ranges whose top
 * ends first. What began inside a range and outlasts it by no more than the rounding of
 * stamps is inside of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

#define RUN_MIN   32u
#define DEPTH_MAX 512u /* real ones have some 30; what is deeper nests no further */

/* ---- sorting ------------------------------------------------------------------------ */

/* Which of two with equal stamps began first: ids are given out at the start. */
static bool precedes_equal(const struct event *a, const struct event *b)
{
    bool ops =
        EVENT_KIND(a->meta) == EVENT_CPU_OP && EVENT_KIND(b->meta) == EVENT_CPU_OP;

    return !ops || a->aux == 0 || b->aux == 0 || a->aux <= b->aux;
}

/* May a stand before b? */
ALWAYS_INLINE bool in_order(const struct event *a, const struct event *b)
{
    int64_t left = (int64_t)a->time, right = (int64_t)b->time;

    if (LIKELY(left != right))
        return left < right;
    if (a->value != b->value)
        return a->value > b->value;
    return precedes_equal(a, b);
}

/* A run from `from` on, lengthened to RUN_MIN by insertion; where it ends. */
static uint32_t find_run(struct event *events, uint32_t from, uint32_t count)
{
    uint32_t to = from + 1;

    while (to < count && in_order(&events[to - 1], &events[to]))
        to++;
    for (; to < count && to < from + RUN_MIN; to++) {
        struct event moved = events[to];
        uint32_t at = to;

        for (; at > from && !in_order(&events[at - 1], &moved); at--)
            events[at] = events[at - 1];
        events[at] = moved;
    }
    return to;
}

/* [from, middle) and [middle, to) become one; `spare` has room for the first. */
static void merge(struct event *events, const uint32_t run[3], struct event *spare)
{
    uint32_t count = run[1] - run[0], left = 0, right = run[1], out = run[0];

    memcpy(spare, events + run[0], count * sizeof(*spare));
    while (left < count && right < run[2])
        events[out++] =
            in_order(&spare[left], &events[right]) ? spare[left++] : events[right++];
    memcpy(events + out, spare + left, (count - left) * sizeof(*spare));
}

/* Files are a few sorted sections behind one another, or locally out of order. */
static int sort(struct event *events, uint32_t count)
{
    uint32_t runs = 0, *ends;
    struct event *spare;

    if (count < 2 || find_run(events, 0, count) == count)
        return 0;
    ends = malloc((count / RUN_MIN + 2) * sizeof(*ends));
    spare = malloc(count * sizeof(*spare));
    if (ends == NULL || spare == NULL) {
        free(ends);
        free(spare);
        return -ENOMEM;
    }
    for (uint32_t at = 0; at < count; at = ends[runs++])
        ends[runs] = find_run(events, at, count);
    for (; runs > 1; runs = (runs + 1) / 2) {
        for (uint32_t i = 0; i + 1 < runs; i += 2) {
            uint32_t run[3] = {i == 0 ? 0 : ends[i - 1], ends[i], ends[i + 1]};

            merge(events, run, spare);
        }
        for (uint32_t i = 0; i < runs; i += 2)
            ends[i / 2] = i + 1 < runs ? ends[i + 1] : ends[i];
    }
    free(ends);
    free(spare);
    return 0;
}

/* ---- links --------------------------------------------------------------------------- */

static struct file_link *link_of(struct file *file, uint64_t correlation)
{
    uint64_t slot = correlation * UINT64_C(0x9e3779b97f4a7c15) >> 20;

    for (;; slot++) {
        struct file_link *link = &file->links[slot & file->link_mask];

        if (link->correlation == correlation || link->correlation == 0)
            return link;
    }
}

int file_link_works(struct file *file)
{
    const struct file_work *works = file->works.items;
    uint32_t size = 1024;

    while (size < 2 * file->works.count)
        size *= 2;
    file->links = calloc(size, sizeof(*file->links));
    file->linked_count = trace_names_count(file->names);
    file->linked = calloc(file->linked_count + 1, sizeof(*file->linked));
    if (file->links == NULL || file->linked == NULL)
        return -ENOMEM;
    file->link_mask = size - 1;
    for (uint32_t i = 0; i < file->works.count; i++) {
        if (works[i].correlation == 0)
            continue;
        struct file_link *link = link_of(file, works[i].correlation);

        link->correlation = works[i].correlation;
        link->device_ns = file_sum(link->device_ns, works[i].duration_ns);
    }
    return 0;
}

/* ---- nesting ------------------------------------------------------------------------- */

struct open {
    struct event event;
    int64_t end_ns;    /* not after its parent's */
    int64_t device_ns; /* of what was launched in it */
};

struct walk {
    struct file *file;
    struct file_thread *thread;
    bool trains;
    struct open open[DEPTH_MAX]; /* the last ends first */
    uint32_t depth, ops;         /* open, and of them CPU ops */
    uint32_t plain;              /* of these, all but autograd's wrappers */
    uint32_t out;                /* events in their final place */
    int64_t backward_end_ns;     /* of the newest outer backward op */
};

static bool is_op(const struct event *event)
{
    return EVENT_KIND(event->meta) == EVENT_CPU_OP;
}

/* An op that somebody called; autograd's wrappers are looked through. */
static bool is_plain(const struct event *event)
{
    return is_op(event) && !(EVENT_FLAGS(event->meta) & EVENT_OP_BACKWARD);
}

static void add_device_time(struct walk *walk, const struct open *ended)
{
    struct file *file = walk->file;
    uint32_t name = EVENT_NAME(ended->event.meta);

    if (ended->device_ns == 0)
        return;
    if (name < file->linked_count)
        file->linked[name].device_total_ns =
            file_sum(file->linked[name].device_total_ns, ended->device_ns);
    for (uint32_t i = walk->depth; i-- > 0;) {
        if (walk->open[i].event.time > ended->event.time)
            continue; /* it began inside of this one, and outlasts it */
        walk->open[i].device_ns = file_sum(walk->open[i].device_ns, ended->device_ns);
        return;
    }
}

static void mark(struct walk *walk, const struct event *event, enum file_name kind)
{
    struct file_mark *added =
        file_list_add(walk->file, &walk->file->marks, sizeof(*added));

    if (added != NULL)
        *added = (struct file_mark){.start_ns = (int64_t)event->time,
                                    .end_ns = (int64_t)(event->time + event->value),
                                    .name = EVENT_NAME(event->meta),
                                    .kind = (uint8_t)kind};
}

/* The last of the stack ended. */
static void close_last(struct walk *walk)
{
    struct open *ended = &walk->open[--walk->depth];

    walk->ops -= is_op(&ended->event);
    walk->plain -= is_plain(&ended->event);
    add_device_time(walk, ended);
    walk->thread->events[walk->out++] = ended->event;
}

/* A call launched something: its time belongs to the innermost op. */
static int64_t launched(struct walk *walk, const struct event *call)
{
    struct file *file = walk->file;
    int64_t device_ns = call->aux == 0 ? 0 : link_of(file, call->aux)->device_ns;

    for (uint32_t i = walk->depth; device_ns != 0 && i-- > 0;) {
        const struct event *event = &walk->open[i].event;

        if (!is_op(event))
            continue;
        struct process_linked *linked = &file->linked[EVENT_NAME(event->meta)];

        linked->device_self_ns = file_sum(linked->device_self_ns, device_ns);
        break;
    }
    return device_ns;
}

static void note_outermost(struct walk *walk, const struct event *event)
{
    struct process_linked *linked = &walk->file->linked[EVENT_NAME(event->meta)];

    linked->outer_ns = file_sum(linked->outer_ns, (int64_t)event->value);
    linked->outer_count++;
}

static void note_op(struct walk *walk, const struct event *event)
{
    int64_t start = (int64_t)event->time, end = start + (int64_t)event->value;
    struct file_list *list = &walk->file->backwards;
    struct file_mark *last =
        list->count == 0 ? NULL : (struct file_mark *)list->items + list->count - 1;

    if (EVENT_FLAGS(event->meta) & EVENT_OP_BACKWARD) {
        if (start >= walk->backward_end_ns) {
            last = file_list_add(walk->file, list, sizeof(*last));
            if (last == NULL)
                return;
            *last = (struct file_mark){.start_ns = start, .end_ns = end};
        }
        last->end_ns = end > last->end_ns ? end : last->end_ns;
        walk->backward_end_ns = last->end_ns;
        return;
    }
    if (walk->trains && walk->ops == 0) {
        int64_t *added =
            file_list_add(walk->file, &walk->file->foreground, sizeof(*added));

        if (added != NULL)
            *added = start;
    }
}

/* What ran when memory was taken. */
static void note_allocation(struct walk *walk, const struct event *event)
{
    struct file_allocation *of =
        (struct file_allocation *)walk->file->allocations.items + event->aux;

    for (uint32_t i = walk->depth; i-- > 0 && of->op == 0;)
        if (is_op(&walk->open[i].event))
            of->op = EVENT_NAME(walk->open[i].event.meta);
    struct process_linked *linked = &walk->file->linked[of->op];

    if (EVENT_DEVICE_TYPE(of->device) == 0)
        linked->host_bytes = file_sum(linked->host_bytes, of->bytes);
    else
        linked->device_bytes = file_sum(linked->device_bytes, of->bytes);
}

static void open_range(struct walk *walk, const struct event *event)
{
    struct open opened = {.event = *event,
                          .end_ns = (int64_t)(event->time + event->value)};
    uint32_t at = walk->depth;
    uint8_t kind = EVENT_KIND(event->meta);

    if (kind == EVENT_RUNTIME || kind == EVENT_LAUNCH || kind == EVENT_SYNC)
        opened.device_ns = launched(walk, event);
    if (walk->depth == DEPTH_MAX) {
        walk->thread->events[walk->out++] = *event;
        return;
    }
    for (; at > 0 && walk->open[at - 1].end_ns < opened.end_ns; at--) {
        if (opened.end_ns - walk->open[at - 1].end_ns > FILE_ROUNDING_NS)
            continue;
        opened.end_ns = walk->open[at - 1].end_ns;
        break;
    }
    if (at < walk->depth)
        memmove(&walk->open[at + 1], &walk->open[at],
                (walk->depth - at) * sizeof(walk->open[0]));
    walk->open[at] = opened;
    walk->depth++;
    walk->ops += is_op(event);
    walk->plain += is_plain(event);
}

static void note_name(struct walk *walk, const struct event *event)
{
    enum file_name kind = file_name_kind(walk->file, EVENT_NAME(event->meta));

    if (is_op(event))
        note_op(walk, event);
    if (walk->plain == 0 &&
        (is_plain(event) || (walk->trains && kind == FILE_NAME_DATA)))
        note_outermost(walk, event);
    if (walk->trains && (kind == FILE_NAME_STEP || kind == FILE_NAME_DATA ||
                         kind == FILE_NAME_OPTIMIZER || kind == FILE_NAME_ZERO_GRAD))
        mark(walk, event, kind);
}

static void walk_event(struct walk *walk, const struct event *event)
{
    while (walk->depth > 0 &&
           walk->open[walk->depth - 1].end_ns <= (int64_t)event->time)
        close_last(walk);
    if (EVENT_KIND(event->meta) == EVENT_ALLOC) {
        note_allocation(walk, event);
        return;
    }
    note_name(walk, event);
    open_range(walk, event);
}

int file_order(struct file *file, struct file_thread *thread)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    int error = walk == NULL ? -ENOMEM : sort(thread->events, thread->count);

    if (error == 0) {
        walk->file = file;
        walk->thread = thread;
        walk->trains = thread == &file->threads[file->trainer];
        walk->backward_end_ns = INT64_MIN;
        /* In place: what is written never passes what is read. */
        for (uint32_t i = 0; i < thread->count; i++) {
            struct event event = thread->events[i];

            walk_event(walk, &event);
        }
        while (walk->depth > 0)
            close_last(walk);
        thread->count = walk->out;
    }
    free(walk);
    return file->out_of_memory ? -ENOMEM : error;
}
