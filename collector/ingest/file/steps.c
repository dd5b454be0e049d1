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
    return FILE_LIST_ADD(file, &file->steps, FILE_REMARK_MARKS, struct file_step,
                         {.start_ns = start_ns, .end_ns = end_ns, .number = number}) !=
           NULL;
}

uint64_t file_step_number(const char *name)
{
    return strtoull(name + strlen("ProfilerStep#"), NULL, 10) & (EVENT_STEP_NONE >> 1);
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
        if (!add_step(
                file, start, marks[i].end_ns,
                file_step_number(trace_names_get(file->names, marks[i].name, NULL))))
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

static void infer(struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    uint32_t name = rarest_optimizer(file);
    int64_t start = first_start(file);
    uint64_t number = 0;

    if (name == 0) {
        /* What costs time is sought in inference and evaluation too. */
        file->result->whole_step = file->to_ns > file->from_ns &&
                                   add_step(file, file->from_ns, file->to_ns, 0);
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
    uint32_t at = file_list_from(&file->foreground, sizeof(*starts), 0, from_ns);

    return at < file->foreground.count && starts[at] < to_ns;
}

/* Threads and neighbours together. */
static void join_backwards(struct file *file)
{
    struct file_mark *marks = file->backwards.items;
    uint32_t kept = 0;

    file_list_sort(&file->backwards, sizeof(*marks), by_start);
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
    uint32_t at =
        file_list_from(&file->backwards, sizeof(struct file_mark), 0, before_ns);

    return at > 0 ? (const struct file_mark *)file->backwards.items + at - 1 : NULL;
}

static void split_closures(struct file *file)
{
    const struct file_mark *backwards = file->backwards.items;
    struct file_mark *marks = file->marks.items;
    bool moved = false;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        struct file_mark *mark = &marks[i];
        const struct file_mark *last = last_backward(file, mark->end_ns), *first = last;

        if (mark->kind != FILE_NAME_OPTIMIZER || last == NULL ||
            last->start_ns < mark->start_ns)
            continue;
        while (first > backwards && first[-1].start_ns >= mark->start_ns)
            first--;
        /* From the first backward in an optimizer's range on what is no forward is its
         * own. */
        if (first != last && file->builds.count > 0)
            (void)FILE_LIST_ADD(file, &file->closures, FILE_REMARK_MARKS,
                                struct file_mark,
                                {.start_ns = first->end_ns, .end_ns = last->start_ns});
        mark->start_ns = last->end_ns < mark->end_ns ? last->end_ns : mark->end_ns;
        moved = true;
    }
    if (moved)
        file_list_sort(&file->marks, sizeof(*marks), by_start);
}

/* Of a trace that we wrote: they are known, in any order. */
static void sort_own(struct file *file)
{
    struct file_step *steps = file->steps.items;
    uint32_t kept = 0;

    file_list_sort(&file->phases, sizeof(struct file_mark), file_by_start);
    file_list_sort(&file->steps, sizeof(*steps), file_by_start);
    for (uint32_t i = 0; i < file->steps.count; i++)
        if (kept == 0 || steps[i].start_ns + FILE_ROUNDING_NS >= steps[kept - 1].end_ns)
            steps[kept++] = steps[i];
    file->steps.count = kept;
}

int file_find_steps(struct file *file)
{
    if (file->own) {
        sort_own(file);
        return file->out_of_memory ? -ENOMEM : 0;
    }
    file_list_sort(&file->marks, sizeof(struct file_mark), by_start);
    bool marked = take_marked(file);

    if (!marked)
        infer(file);
    const struct file_step *steps = file->steps.items;
    uint32_t count = file->steps.count;

    /* torch.profiler opens a step when the one before ends, and is stopped in it: the last
     * one may be a moment in which nothing ran. */
    if (marked && count > 1 &&
        !went_forward(file, steps[count - 1].start_ns, steps[count - 1].end_ns) &&
        went_forward(file, steps[count - 2].start_ns, steps[count - 2].end_ns))
        file->steps.count--;
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
    uint32_t at = file_list_from(&telling->file->closures, sizeof(*closures),
                                 offsetof(struct file_mark, end_ns), from_ns + 1);

    if (at == telling->file->closures.count || closures[at].start_ns >= to_ns)
        return;
    put(telling, EVENT_PHASE_OPTIMIZER,
        from_ns > closures[at].start_ns ? from_ns : closures[at].start_ns,
        to_ns < closures[at].end_ns ? to_ns : closures[at].end_ns);
    telling->waiting = telling->count;
}

/* What was in none of the marks, up to `to_ns`: the forward pass, from where it begins. */
static void tell_between(struct telling *telling, int64_t to_ns)
{
    int64_t from_ns = telling->cursor_ns;

    if (from_ns >= to_ns)
        return;
    if (!telling->forward && telling->file->builds.count > 0) {
        int64_t begin_ns = file_graph_begin(telling->file, from_ns, to_ns);

        put_closures(telling, from_ns, begin_ns);
        from_ns = begin_ns;
    }
    telling->forward = telling->forward || from_ns < to_ns;
    put(telling, EVENT_PHASE_FORWARD, from_ns, to_ns);
}

static enum event_phase phase_of(uint8_t name)
{
    return name == FILE_NAME_DATA        ? EVENT_PHASE_DATA
           : name == FILE_NAME_OPTIMIZER ? EVENT_PHASE_OPTIMIZER
                                         : EVENT_PHASE_BACKWARD;
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
    if (mark->kind != FILE_NAME_ZERO_GRAD) {
        put(telling, phase_of(mark->kind), from, to);
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
