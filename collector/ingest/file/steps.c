/* Marks of the training thread to steps and phases.
 *
 *     ProfilerStep  |-- data --|- forward -|--- backward ---|. .|- optimizer -|. . .|
 *
 * A step is a ProfilerStep, each number once, but for a last one without any op; without
 * any, what ends with an update of the optimizer (of several, the one that updates least
 * often); without these, all of the file. Data and optimizer are their ranges; backward
 * reaches from the first to the last autograd op, whatever their thread, as long as no
 * outer op of the training thread began between; forward is what lies before a backward and
 * is none of these, back to the first op that adds to autograd's graph (graph.c), or, where
 * the file does not tell that, to the data or the update. An optimizer that runs a closure
 * (Lightning's do) has forward and backward inside its range: it is the part after the last
 * backward, and what lies between the evaluations of one that runs it several times.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

static int by_start(const void *left, const void *right)
{
    const struct file_mark *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static bool add_step(struct file *file, int64_t start_ns, int64_t end_ns,
                     uint64_t number)
{
    struct file_step *step =
        file_list_add(file, &file->steps, sizeof(*step), FILE_REMARK_MARKS);

    if (step != NULL)
        *step = (struct file_step){
            .start_ns = start_ns, .end_ns = end_ns, .number = number};
    return step != NULL;
}

static uint64_t number_of(const struct file *file, uint32_t name)
{
    uint32_t length;
    const char *text = trace_names_get(file->names, name, &length);

    return strtoull(text + strlen("ProfilerStep#"), NULL, 10) & (EVENT_STEP_NONE >> 1);
}

/* True when there was one. What begins inside the step before is no step, unless it only
 * seems to: starts and durations are rounded apart. */
static bool take_marked(struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    int64_t end = INT64_MIN;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        int64_t start = marks[i].start_ns;

        if (marks[i].kind != FILE_NAME_STEP)
            continue;
        if (start < end && start + 2 * FILE_ROUNDING_NS >= end)
            start = end;
        if (start < end || marks[i].end_ns < start)
            continue;
        if (!add_step(file, start, marks[i].end_ns, number_of(file, marks[i].name)))
            return true;
        end = marks[i].end_ns;
    }
    return file->steps.count > 0;
}

/* Whose updates end a step: the optimizer with the fewest, of several the last. */
static uint32_t rarest_optimizer(const struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    uint32_t names[16], counts[16], found = 0, best = 0;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        uint32_t at = 0;

        if (marks[i].kind != FILE_NAME_OPTIMIZER)
            continue;
        while (at < found && names[at] != marks[i].name)
            at++;
        if (at == 16)
            continue;
        if (at == found) {
            names[found] = marks[i].name;
            counts[found++] = 0;
        }
        counts[at]++;
    }
    for (uint32_t i = 1; i < found; i++)
        if (counts[i] <= counts[best])
            best = i;
    return found == 0 ? 0 : names[best];
}

/* The first begins with the first batch, else with the first event of the thread. */
static int64_t first_start(const struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    const struct file_thread *trainer = &file->threads[file->trainer];

    for (uint32_t i = 0; i < file->marks.count; i++) {
        if (marks[i].kind == FILE_NAME_OPTIMIZER)
            break;
        if (marks[i].kind == FILE_NAME_DATA)
            return marks[i].start_ns;
    }
    return trainer->first_ns;
}

/* What costs time is sought in inference and evaluation too: all of it is one step. */
static void take_whole(struct file *file)
{
    file->result->whole_step =
        file->to_ns > file->from_ns && add_step(file, file->from_ns, file->to_ns, 0);
}

static void infer(struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    uint32_t name = rarest_optimizer(file);
    int64_t start = first_start(file);
    uint64_t number = 0;

    if (name == 0) {
        take_whole(file);
        return;
    }
    file->result->inferred_steps = true;
    for (uint32_t i = 0; i < file->marks.count; i++) {
        if (marks[i].kind != FILE_NAME_OPTIMIZER || marks[i].name != name ||
            marks[i].end_ns <= start)
            continue;
        if (!add_step(file, start, marks[i].end_ns, number++))
            return;
        start = marks[i].end_ns;
    }
}

/* Did an outer op of the training thread begin in [from, to)? */
static bool went_forward(const struct file *file, int64_t from_ns, int64_t to_ns)
{
    const int64_t *starts = file->foreground.items;
    uint32_t low = 0, high = file->foreground.count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (starts[middle] >= from_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low < file->foreground.count && starts[low] < to_ns;
}

/* torch.profiler opens a step when the one before ends, and is stopped in it: the last one
 * may be a moment in which nothing ran. */
static void drop_unfilled(struct file *file)
{
    const struct file_step *steps = file->steps.items;
    uint32_t count = file->steps.count;

    if (count > 1 &&
        !went_forward(file, steps[count - 1].start_ns, steps[count - 1].end_ns) &&
        went_forward(file, steps[count - 2].start_ns, steps[count - 2].end_ns))
        file->steps.count--;
}

/* Threads and neighbours together. */
static void join_backwards(struct file *file)
{
    struct file_mark *marks = file->backwards.items;
    uint32_t kept = 0;

    if (file->backwards.count > 0)
        qsort(marks, file->backwards.count, sizeof(*marks), by_start);
    for (uint32_t i = 0; i < file->backwards.count; i++) {
        struct file_mark *last = kept > 0 ? &marks[kept - 1] : NULL;

        if (last == NULL || (marks[i].start_ns > last->end_ns &&
                             went_forward(file, last->end_ns, marks[i].start_ns)))
            marks[kept++] = marks[i];
        else if (marks[i].end_ns > last->end_ns)
            last->end_ns = marks[i].end_ns;
    }
    file->backwards.count = kept;
}

/* The last backward that begins before `before_ns`; NULL when none does. */
static const struct file_mark *last_backward(const struct file *file, int64_t before_ns)
{
    const struct file_mark *marks = file->backwards.items;
    uint32_t low = 0, high = file->backwards.count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (marks[middle].start_ns < before_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &marks[low - 1] : NULL;
}

/* From the first backward in an optimizer's range on what is no forward is its own. */
static void note_closure(struct file *file, const struct file_mark *mark)
{
    const struct file_mark *backwards = file->backwards.items;
    const struct file_mark *last = last_backward(file, mark->end_ns), *first = last;

    while (first > backwards && first[-1].start_ns >= mark->start_ns)
        first--;
    if (first == last || !file_graph_known(file))
        return;
    struct file_mark *added =
        file_list_add(file, &file->closures, sizeof(*added), FILE_REMARK_MARKS);

    if (added != NULL)
        *added =
            (struct file_mark){.start_ns = first->end_ns, .end_ns = last->start_ns};
}

static void split_closures(struct file *file)
{
    struct file_mark *marks = file->marks.items;
    bool moved = false;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        struct file_mark *mark = &marks[i];
        const struct file_mark *backward = last_backward(file, mark->end_ns);

        if (mark->kind != FILE_NAME_OPTIMIZER || backward == NULL ||
            backward->start_ns < mark->start_ns)
            continue;
        note_closure(file, mark);
        mark->start_ns =
            backward->end_ns < mark->end_ns ? backward->end_ns : mark->end_ns;
        moved = true;
    }
    if (moved)
        qsort(marks, file->marks.count, sizeof(*marks), by_start);
}

int file_find_steps(struct file *file)
{
    if (file->own) {
        file_sort_own(file);
        return file->out_of_memory ? -ENOMEM : 0;
    }
    if (file->marks.count > 0)
        qsort(file->marks.items, file->marks.count, sizeof(struct file_mark), by_start);
    if (!take_marked(file))
        infer(file);
    else
        drop_unfilled(file);
    file_graph_settle(file);
    join_backwards(file);
    split_closures(file);
    return file->out_of_memory ? -ENOMEM : 0;
}

/* ---- phases ---------------------------------------------------------------------------- */

void file_phases_begin(const struct file *file, struct file_phases *phases)
{
    const struct file_mark *marks = file->marks.items;

    *phases = (struct file_phases){0};
    for (uint32_t i = 0; i < file->marks.count; i++) {
        phases->known[EVENT_PHASE_DATA] |= marks[i].kind == FILE_NAME_DATA;
        phases->known[EVENT_PHASE_OPTIMIZER] |= marks[i].kind == FILE_NAME_OPTIMIZER;
    }
    phases->known[EVENT_PHASE_BACKWARD] = file->backwards.count > 0;
    phases->known[EVENT_PHASE_FORWARD] = file->backwards.count > 0;
}

/* One step while its time is told apart. */
struct telling {
    const struct file *file;
    const struct file_step *step;
    bool forward; /* the graph has been begun since the last phase */
    struct event *events;
    uint32_t count, most;
    uint32_t waiting; /* events from here on: what may be forward */
    uint64_t *lost;   /* counts those for which there was no room */
    int64_t cursor_ns;
};

static void put(struct telling *telling, enum event_phase phase, int64_t from_ns,
                int64_t to_ns)
{
    if (from_ns >= to_ns)
        return;
    if (telling->count == telling->most) {
        ++*telling->lost;
        return;
    }
    telling->events[telling->count++] =
        (struct event){.time = (uint64_t)from_ns,
                       .value = (uint64_t)(to_ns - from_ns),
                       .meta = EVENT_META(0, EVENT_PHASE, 0, phase),
                       .aux = telling->step->number};
}

/* The part of [from, to) that lies between evaluations of an optimizer's closure. */
static void put_closures(struct telling *telling, int64_t from_ns, int64_t to_ns)
{
    const struct file_mark *closures = telling->file->closures.items;
    uint32_t low = 0, high = telling->file->closures.count;

    while (low < high) { /* the first that ends behind the begin */
        uint32_t middle = low + (high - low) / 2;

        if (closures[middle].end_ns > from_ns)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == telling->file->closures.count || closures[low].start_ns >= to_ns)
        return;
    put(telling, EVENT_PHASE_OPTIMIZER,
        from_ns > closures[low].start_ns ? from_ns : closures[low].start_ns,
        to_ns < closures[low].end_ns ? to_ns : closures[low].end_ns);
    telling->waiting = telling->count;
}

/* What was in none of the marks, up to `to_ns`: the forward pass, from where it begins. */
static void tell_between(struct telling *telling, int64_t to_ns)
{
    int64_t from_ns = telling->cursor_ns;

    if (from_ns >= to_ns)
        return;
    if (!telling->forward && file_graph_known(telling->file)) {
        int64_t begin_ns = file_graph_begin(telling->file, from_ns, to_ns);

        put_closures(telling, from_ns, begin_ns);
        from_ns = begin_ns;
    }
    telling->forward = telling->forward || from_ns < to_ns;
    put(telling, EVENT_PHASE_FORWARD, from_ns, to_ns);
}

static void tell(struct telling *telling, const struct file_mark *mark)
{
    int64_t from = mark->start_ns > telling->step->start_ns ? mark->start_ns
                                                            : telling->step->start_ns;
    int64_t to =
        mark->end_ns < telling->step->end_ns ? mark->end_ns : telling->step->end_ns;

    tell_between(telling, from);
    if (mark->kind == FILE_NAME_BACKWARD)
        telling->waiting = telling->count; /* it was */
    else if (mark->kind != FILE_NAME_ZERO_GRAD)
        telling->count = telling->waiting;
    /* A phase inside of another takes nothing from it. */
    if (telling->cursor_ns > from)
        from = telling->cursor_ns;
    if (mark->kind == FILE_NAME_DATA)
        put(telling, EVENT_PHASE_DATA, from, to);
    else if (mark->kind == FILE_NAME_OPTIMIZER)
        put(telling, EVENT_PHASE_OPTIMIZER, from, to);
    else if (mark->kind == FILE_NAME_BACKWARD)
        put(telling, EVENT_PHASE_BACKWARD, from, to);
    if (mark->kind != FILE_NAME_ZERO_GRAD) {
        telling->waiting = telling->count;
        telling->forward = false;
    }
    telling->cursor_ns = to > telling->cursor_ns ? to : telling->cursor_ns;
}

/* The next mark that touches the step, of both lists by start; NULL when there is none. */
static const struct file_mark *next_mark(const struct file *file,
                                         struct file_phases *phases,
                                         const struct file_step *step,
                                         struct file_mark *backward)
{
    const struct file_mark *marks = file->marks.items, *found = NULL;
    const struct file_mark *backwards = file->backwards.items;

    while (phases->mark < file->marks.count &&
           (marks[phases->mark].kind == FILE_NAME_STEP ||
            marks[phases->mark].end_ns <= step->start_ns))
        phases->mark++;
    while (phases->backward < file->backwards.count &&
           backwards[phases->backward].end_ns <= step->start_ns)
        phases->backward++;
    if (phases->mark < file->marks.count && marks[phases->mark].start_ns < step->end_ns)
        found = &marks[phases->mark];
    if (phases->backward < file->backwards.count &&
        backwards[phases->backward].start_ns < step->end_ns &&
        (found == NULL || backwards[phases->backward].start_ns < found->start_ns)) {
        *backward = backwards[phases->backward];
        backward->kind = FILE_NAME_BACKWARD;
        found = backward;
    }
    return found;
}

uint32_t file_phases_step(const struct file *file, struct file_phases *phases,
                          const struct file_step *step, struct event *events,
                          uint32_t most)
{
    struct telling telling = {.file = file,
                              .step = step,
                              .events = events,
                              .most = most,
                              .lost = &file->result->remarks[FILE_REMARK_MARKS],
                              .cursor_ns = step->start_ns};
    const struct file_mark *mark;
    struct file_mark backward;

    while ((mark = next_mark(file, phases, step, &backward)) != NULL) {
        tell(&telling, mark);
        if (mark->end_ns > step->end_ns)
            break; /* it goes on in the next step */
        if (mark == &backward)
            phases->backward++;
        else
            phases->mark++;
    }
    return telling.waiting;
}
