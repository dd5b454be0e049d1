/* One thread's events in the order of their ends, children first, as process_fold()
 * wants them; and what only the nesting tells: device time of what each op launched,
 * the op that ran at an allocation, outer backward and forward ops.
 *
 * They come by their starts, outer before inner (TRACK_RANGES), and are walked with a stack
 * of open ranges whose top ends first. What began inside a range and outlasts it by no more
 * than the rounding of stamps is inside of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "ingest/file/totals.h"
#include "wire/text.h"

#define DEPTH_MAX 512u /* real ones have some 30; what is deeper is no row */

struct walk {
    struct file *file;
    struct file_thread *thread;
    bool trains;
    struct open open[DEPTH_MAX]; /* the last ends first */
    uint32_t depth, ops;         /* open, and of them CPU ops */
    bool holds;       /* open[depth] has ended, as the first in an op of its own name */
    uint32_t plain;   /* of these, all but autograd's wrappers */
    uint32_t updates; /* open, of the optimizer */
    uint32_t backward;       /* open autograd's wrappers and nodes */
    uint32_t root, index;    /* the thread's path, and its own number */
    int64_t backward_end_ns; /* of the newest outer backward op */
    int64_t capture_ns;      /* since then it captures a graph; INT64_MAX it does not */
    struct file_needless_walk needless;
};

static bool is_op(const struct event *event)
{
    return EVENT_KIND(event->meta) == EVENT_CPU_OP;
}

/* What has a row of its own in the tables. */
static bool is_row(const struct event *event)
{
    return is_op(event) || EVENT_KIND(event->meta) == EVENT_USER_RANGE;
}

/* An op that somebody called; autograd's wrappers are looked through. */
static bool is_plain(const struct event *event)
{
    return is_op(event) && !(EVENT_FLAGS(event->meta) & EVENT_OP_BACKWARD);
}

static bool is_backward(const struct event *event)
{
    return is_op(event) && !is_plain(event);
}

static bool is_update(const struct walk *walk, const struct event *event)
{
    return EVENT_KIND(event->meta) == EVENT_USER_RANGE &&
           file_name_kind(walk->file, EVENT_NAME(event->meta)) == FILE_NAME_OPTIMIZER;
}

/* What it took itself belongs to its path, all of it to its parent's inside. */
static void add_path_time(struct walk *walk, const struct open *ended,
                          struct open *parent)
{
    int64_t whole_ns = ended->end_ns - (int64_t)ended->event.time;
    struct file_path *path = &walk->file->details->paths.list[ended->path];

    if (whole_ns > ended->inside_ns)
        path->self_ns = file_sum(path->self_ns, whole_ns - ended->inside_ns);
    if (parent != NULL)
        parent->inside_ns = file_sum(parent->inside_ns, whole_ns);
}

/* What it lies in; what began inside of it and outlasts it is passed over. */
static struct open *parent_of(struct walk *walk, const struct open *ended)
{
    for (uint32_t i = walk->depth; i-- > 0;)
        if ((int64_t)walk->open[i].event.time <= (int64_t)ended->event.time)
            return &walk->open[i];
    return NULL;
}

/* In its final place; frames were only passing. */
static void put_out(struct walk *walk, const struct event *event, uint32_t key)
{
    struct file_thread *thread = walk->thread;

    if (EVENT_KIND(event->meta) == FILE_EVENT_FRAME)
        return;
    struct track_record *out = track_add(&thread->nested);

    if (out == NULL) {
        walk->file->out_of_memory = true;
        return;
    }
    *out = (struct track_record){.event = *event};
    if (is_row(event))
        out->event.aux = key;
    if ((int64_t)event->time < thread->first_ns)
        thread->first_ns = (int64_t)event->time;
}

static enum file_needless_op needless_op(const struct walk *walk,
                                         const struct event *event)
{
    uint32_t name = EVENT_NAME(event->meta);

    return is_op(event) && name < walk->file->linked_count
               ? (enum file_needless_op)walk->file->needless_ops[name]
               : FILE_NEEDLESS_NONE;
}

/* To its rows. */
static void give_out(struct walk *walk, const struct open *ended)
{
    totals_add(walk->file, ended);
    put_out(walk, &ended->event, ended->key);
}

/* The last of the stack ended. */
static void close_last(struct walk *walk)
{
    struct open *ended = &walk->open[--walk->depth];

    walk->ops -= is_op(&ended->event);
    walk->plain -= is_plain(&ended->event);
    walk->backward -= is_backward(&ended->event);
    walk->updates -= is_update(walk, &ended->event);
    struct open *parent = parent_of(walk, ended);
    enum file_needless_op needless = needless_op(walk, &ended->event);

    if (walk->holds)
        totals_take_self(ended, &walk->open[walk->depth + 1]);
    if (walk->trains && needless != FILE_NEEDLESS_NONE)
        file_needless_end(walk->file, &walk->needless,
                          &(struct file_needless_ended){
                              .op = needless,
                              .parent = parent == NULL
                                            ? FILE_NEEDLESS_NONE
                                            : needless_op(walk, &parent->event),
                              .outermost = walk->plain == 0,
                              .from_host = ended->from_host,
                              .start_ns = (int64_t)ended->event.time,
                              .host_ns = (int64_t)ended->event.value,
                              .device_ns = ended->device_ns});
    if (parent != NULL)
        totals_pass(ended, parent);
    if (walk->file->details != NULL)
        add_path_time(walk, ended, parent);
    /* A gap in it may be settled before it has its turn, after all inside of it. */
    if ((int64_t)ended->event.value >= FILE_LONG_NS && walk->file->device_count > 0 &&
        EVENT_KIND(ended->event.meta) != FILE_EVENT_FRAME)
        (void)file_list_add(walk->file, &walk->file->longs, &ended->event,
                            sizeof(ended->event), FILE_REMARK_MARKS);
    /* An op or range in which nothing else ran than one of its own name (aten::mean calls
     * aten::mean with more arguments) is one call, as torch's key_averages() has it. */
    walk->holds = parent != NULL && parent == &walk->open[walk->depth - 1] &&
                  parent->children == 1 && is_row(&ended->event) &&
                  EVENT_KIND(ended->event.meta) == EVENT_KIND(parent->event.meta) &&
                  EVENT_NAME(ended->event.meta) == EVENT_NAME(parent->event.meta);
    if (!walk->holds)
        give_out(walk, ended);
}

static void add_path_device(struct file *file, uint32_t path, int64_t device_ns)
{
    struct file_path *of = &file->details->paths.list[path];

    of->device_ns = file_sum(of->device_ns, device_ns);
}

/* The innermost op; NULL none. */
static struct open *innermost_op(struct walk *walk)
{
    for (uint32_t i = walk->depth; i-- > 0;)
        if (is_op(&walk->open[i].event))
            return &walk->open[i];
    return NULL;
}

/* A call launched something: its time belongs to the innermost op. */
static int64_t launched(struct walk *walk, const struct event *call, bool *from_host)
{
    struct file *file = walk->file;
    int64_t device_ns = file_launched_ns(file, call->aux);
    struct open *op = device_ns == 0 ? NULL : innermost_op(walk);

    *from_host = device_ns != 0 && file_copies(file, call->aux, EVENT_COPY_H2D);
    if (op == NULL)
        return device_ns;
    op->device_self_ns = file_sum(op->device_self_ns, device_ns);
    if (file->details != NULL)
        add_path_device(file, op->path, device_ns);
    return device_ns;
}

/* The host's part of a copy to the device is done in a few times as long as it lasts. */
#define STAGING_NS    1000000u
#define STAGING_TIMES 4u

/* HIP has no other call for it: `.item()` copies with one that waits for its end, where
 * CUDA's copy returns and a call of its own synchronizes. A copy to the device waits in it
 * for what was launched before. */
static bool waits_for_copy(struct file *file, const struct event *call, int64_t copy_ns)
{
    if (EVENT_KIND(call->meta) != EVENT_LAUNCH ||
        file_name_kind(file, EVENT_NAME(call->meta)) != FILE_NAME_COPY)
        return false;
    return file_copies(file, call->aux, EVENT_COPY_D2H) ||
           (file_copies(file, call->aux, EVENT_COPY_H2D) && call->value > STAGING_NS &&
            (call->value - STAGING_NS) / STAGING_TIMES > (uint64_t)copy_ns);
}

/* An op of autograd begins, outer ones of any threads one after the other; else, where it is
 * an outer one of the training thread, when. */
static void note_op(struct walk *walk, const struct event *event)
{
    int64_t start = (int64_t)event->time, end = start + (int64_t)event->value;
    struct file_list *list = &walk->file->backwards;

    if (!is_backward(event)) {
        if (walk->trains && walk->ops == 0)
            (void)FILE_LIST_ADD(walk->file, &walk->file->foreground, FILE_REMARK_MARKS,
                                int64_t, {start});
        return;
    }
    if (start >= walk->backward_end_ns &&
        FILE_LIST_ADD(walk->file, list, FILE_REMARK_MARKS, struct file_mark,
                      {.start_ns = start, .end_ns = end}) == NULL)
        return;
    struct file_mark *last = (struct file_mark *)list->items + list->count - 1;

    last->end_ns = end > last->end_ns ? end : last->end_ns;
    walk->backward_end_ns = last->end_ns;
}

/* What ran when memory was taken. */
static void note_allocation(struct walk *walk, const struct track_record *taken)
{
    struct file *file = walk->file;
    struct track_record *of = track_add(&file->allocations);
    struct open *op = innermost_op(walk);

    if (of == NULL) {
        file->out_of_memory = true;
        return;
    }
    *of = *taken;
    of->event.meta = (of->event.meta & ~(uint64_t)UINT32_MAX) |
                     (op == NULL ? 0 : EVENT_NAME(op->event.meta));
    totals_take_bytes(file, of, op,
                      walk->depth > 0 ? &walk->open[walk->depth - 1] : NULL);
}

/* The path of an op or range below `path`. The outermost of a backward goes under its
 * forward op with all that it calls, or stays where it ran and has its origin noted. */
static uint32_t path_of(const struct walk *walk, struct open *opened, uint32_t path,
                        enum file_path_kind kind)
{
    struct file *file = walk->file;
    uint32_t name = EVENT_NAME(opened->event.meta), origin = 0;

    /* The engine's call of a node is no part of the node: what it does itself, torch counts
     * where it ran. */
    if (!opened->linked &&
        (file->moves_backward ||
         !text_starts(trace_names_get(file->names, name, NULL), "autograd::engine::")))
        origin = file_sequences_origin(file->sequences, &opened->event, walk->index);
    opened->linked = opened->linked || origin != 0;
    if (origin != 0 && file->moves_backward)
        return file_paths_child(&file->details->paths, origin, name, kind);
    return file_paths_node(&file->details->paths, path, name, kind, origin);
}

/* Its path and key: after its parents are known, which stand below `at`. */
static void enter_path(struct walk *walk, struct open *opened, uint32_t at)
{
    static const uint8_t kinds[] = {[EVENT_CPU_OP] = FILE_PATH_OP,
                                    [EVENT_USER_RANGE] = FILE_PATH_RANGE,
                                    [FILE_EVENT_FRAME] = FILE_PATH_FRAME};
    struct file_details *details = walk->file->details;
    uint8_t event = EVENT_KIND(opened->event.meta);
    enum file_path_kind kind = event < sizeof(kinds) && kinds[event] != 0
                                   ? (enum file_path_kind)kinds[event]
                                   : FILE_PATH_CALL;
    bool has_row = is_row(&opened->event);
    uint32_t detail = has_row ? FILE_DETAIL(opened->event.aux) : 0;
    uint32_t stack = details->details[detail].stack;
    uint32_t path = at > 0 ? walk->open[at - 1].path : walk->root;

    /* Old files have no frames and tell the stack of each op; inside of one it is the
     * same. */
    if (stack != 0 && walk->ops == 0)
        path = file_paths_frames(&details->paths, walk->root, walk->file->names, stack);
    opened->linked = at > 0 && walk->open[at - 1].linked;

    if (walk->file->sequences == NULL || !has_row) {
        opened->path = file_paths_child(&details->paths, path,
                                        EVENT_NAME(opened->event.meta), kind);
    } else {
        opened->path = path_of(walk, opened, path, kind);
        if (walk->backward == 0)
            file_sequences_note(walk->file->sequences, &opened->event, walk->index,
                                opened->path);
    }
    if (has_row)
        opened->key = file_details_key(details, opened->path, detail);
}

static void open_range(struct walk *walk, const struct event *event)
{
    struct open opened = {.event = *event,
                          .end_ns = (int64_t)(event->time + event->value)};
    uint32_t at = walk->depth;
    uint8_t kind = EVENT_KIND(event->meta);

    if (walk->holds) /* something else begins in that op: both count */
        give_out(walk, &walk->open[walk->depth]);
    walk->holds = false;
    if (kind == EVENT_RUNTIME)
        file_note_capture(walk->file, event, &walk->capture_ns);
    /* But the driver's call in the runtime's. */
    if (kind == EVENT_LAUNCH &&
        (at == 0 || EVENT_KIND(walk->open[at - 1].event.meta) != EVENT_LAUNCH))
        file_note_launch(walk->file, event);
    if (kind == EVENT_RUNTIME || kind == EVENT_LAUNCH || kind == EVENT_SYNC)
        opened.device_ns = launched(walk, event, &opened.from_host);
    if (waits_for_copy(walk->file, event, opened.device_ns))
        opened.event.meta =
            EVENT_META(EVENT_NAME(event->meta), EVENT_SYNC, EVENT_FLAGS(event->meta),
                       EVENT_AUX16(event->meta));
    if (at == DEPTH_MAX) {
        if (kind == FILE_EVENT_FRAME)
            return;
        /* Time of what it lies in: as a row of its own it would count twice. */
        walk->file->result->remarks[FILE_REMARK_DEPTH]++;
        walk->file->result->taken--;
        walk->open[at - 1].device_ns =
            file_sum(walk->open[at - 1].device_ns, opened.device_ns);
        walk->open[at - 1].children++;
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
    if (walk->file->details != NULL) {
        enter_path(walk, &opened, at);
        if (walk->ops == 0) /* launched by no op */
            add_path_device(walk->file, opened.path, opened.device_ns);
    }
    walk->open[at] = opened;
    walk->depth++;
    walk->ops += is_op(event);
    walk->plain += is_plain(event);
    walk->backward += is_backward(event);
    walk->updates += is_update(walk, event);
}

static void note_name(struct walk *walk, const struct event *event)
{
    struct file *file = walk->file;
    uint32_t name = EVENT_NAME(event->meta);
    enum file_name kind = file_name_kind(file, name);
    bool outer = walk->plain == 0 && is_plain(event);

    if (is_op(event))
        note_op(walk, event);
    if (outer || (walk->plain == 0 && walk->trains && kind == FILE_NAME_DATA)) {
        file->linked[name].outer_ns =
            file_sum(file->linked[name].outer_ns, (int64_t)event->value);
        file->linked[name].outer_count++;
    }
    if (!walk->trains)
        return;
    if (outer)
        file_needless_begin(file, &walk->needless, needless_op(walk, event),
                            (int64_t)event->time);
    if (outer && walk->updates > 0)
        file_update_op(file, event);
    if (walk->updates == 0 && is_update(walk, event))
        file->updates.range_ns =
            file_sum(file->updates.range_ns, (int64_t)event->value);
    if (kind >= FILE_NAME_STEP && kind <= FILE_NAME_ZERO_GRAD)
        (void)FILE_LIST_ADD(file, &file->marks, FILE_REMARK_MARKS, struct file_mark,
                            {.start_ns = (int64_t)event->time,
                             .end_ns = (int64_t)(event->time + event->value),
                             .name = name,
                             .kind = (uint8_t)kind});
}

/* All of its events, each of which is given back as soon as it is nested. */
static int walk_thread(struct walk *walk)
{
    const struct track_record *taken;
    struct track_reader reader;
    int error = track_drain(&reader, &walk->thread->taken);

    for (; error == 0 && (taken = track_peek(&reader)) != NULL; track_next(&reader)) {
        struct track_record record = *taken;

        if (file_is_stray(walk->file, &record.event))
            continue;
        record.event.time -= (uint64_t)walk->file->zero_ns;
        while (walk->depth > 0 &&
               walk->open[walk->depth - 1].end_ns <= (int64_t)record.event.time)
            close_last(walk);
        if (EVENT_KIND(record.event.meta) == EVENT_ALLOC) {
            note_allocation(walk, &record);
            continue;
        }
        if (EVENT_KIND(record.event.meta) != FILE_EVENT_FRAME)
            note_name(walk, &record.event);
        open_range(walk, &record.event);
    }
    while (walk->depth > 0)
        close_last(walk);
    track_end(&reader);
    return error != 0 || reader.failed || walk->file->out_of_memory ? -ENOMEM : 0;
}

int file_order(struct file *file, struct file_thread *thread)
{
    struct walk *walk = calloc(1, sizeof(*walk));

    if (walk == NULL)
        return -ENOMEM;
    walk->file = file;
    walk->thread = thread;
    walk->index = (uint32_t)(thread - file->threads);
    walk->trains = thread == &file->threads[file->trainer];
    walk->backward_end_ns = INT64_MIN;
    walk->capture_ns = INT64_MAX;
    thread->first_ns = INT64_MAX;
    if (file->details != NULL)
        walk->root = file_paths_thread(&file->details->paths,
                                       thread->name != 0 ? thread->name : thread->tid);
    int error = walk_thread(walk);

    track_free(&thread->taken);
    free(walk);
    return error;
}
