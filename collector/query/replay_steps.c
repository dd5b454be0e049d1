#include <errno.h>
#include <stdlib.h>

#include "aggregate/history.h"
#include "query/pick.h"
#include "query/replay_inside.h"
#include "query/replay_query.h"

#define RECORDED ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))
#define APART    ((uint32_t)(STEP_APART | EVENT_STEP_TAGGED))

/* ---- which steps ------------------------------------------------------------------------ */

static int64_t end_of(const struct step_row *row)
{
    return row->start_ns + (int64_t)row->duration_ns;
}

/* What the best recorded steps of the window have: others would miss a part. */
static uint32_t level_of(const struct trace_process *process)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < process->step_count; i++)
        if ((process->steps[i].flags & APART) == 0 &&
            (process->steps[i].flags & RECORDED) > best)
            best = process->steps[i].flags & RECORDED;
    return best;
}

bool replay_block_touches(const struct trace_block *block, int64_t from_ns,
                          int64_t to_ns)
{
    return block->count > 0 && block->block->to_ns >= from_ns &&
           block->block->from_ns < to_ns;
}

/* Every thread that tells of the step also tells of a time before it. */
static bool is_remembered(const struct trace_answer *trace,
                          const struct trace_process *process,
                          const struct step_row *row)
{
    if (!trace->forgot)
        return true;
    for (uint32_t i = 0; i < process->block_count; i++) {
        bool first =
            i == 0 || process->blocks[i].thread != process->blocks[i - 1].thread;

        if (first && process->blocks[i].block->from_ns > row->start_ns &&
            process->blocks[i].block->from_ns < end_of(row))
            return false;
    }
    return process->block_count > 0;
}

static int by_duration(const void *left, const void *right)
{
    const struct step_row *a = *(const struct step_row *const *)left;
    const struct step_row *b = *(const struct step_row *const *)right;

    if (a->duration_ns != b->duration_ns)
        return a->duration_ns < b->duration_ns ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* Those that can be replayed, of them only those whose devices' work is known; how many. */
static uint32_t list(const struct trace_answer *trace,
                     const struct trace_process *process, bool known,
                     const struct step_row **steps)
{
    uint32_t level = level_of(process), count = 0;
    bool any = !known || (level & EVENT_STEP_KERNELS) == 0;

    for (uint32_t i = 0; level != 0 && i < process->step_count; i++) {
        const struct step_row *row = &process->steps[i];

        if (row->whole && (row->flags & APART) == 0 &&
            (row->flags & RECORDED) == level && (row->works_known || any) &&
            is_remembered(trace, process, row))
            steps[count++] = row;
    }
    return count;
}

const struct step_row **replay_steps_list(const struct trace_answer *trace,
                                          const struct trace_process *process,
                                          uint32_t *count)
{
    const struct step_row **steps =
        malloc((process->step_count + 1) * sizeof(struct step_row *));

    *count = steps == NULL ? 0 : list(trace, process, true, steps);
    /* A file holds what it holds: no other step will come. */
    if (*count == 0 && steps != NULL && trace->head.from_file)
        *count = list(trace, process, false, steps);
    if (*count > 1)
        qsort(steps, *count, sizeof(struct step_row *), by_duration);
    return steps;
}

/* One for `count` steps; `usual`: for how many one stands in the mean. */
static struct replay_pick pick_of(const struct step_row *const *steps, uint32_t count,
                                  double usual)
{
    double all = 0, over = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < count; i++)
        all += (double)steps[i]->duration_ns;
    while (at + 1 < count && over + (double)steps[at]->duration_ns < all / 2)
        over += (double)steps[at++]->duration_ns;
    double own = (double)steps[at]->duration_ns;

    return (struct replay_pick){.row = steps[at],
                                .scale = own > 0 ? all / usual / own : 1};
}

uint32_t replay_steps_spread(const struct step_row *const *steps, uint32_t count,
                             struct replay_pick picks[])
{
    uint32_t most = count < REPLAY_STEPS_MAX ? count : REPLAY_STEPS_MAX;

    for (uint32_t i = 0; i < most; i++) {
        uint32_t from = (uint32_t)((uint64_t)count * i / most);
        uint32_t to = (uint32_t)((uint64_t)count * (i + 1) / most);

        picks[i] = pick_of(steps + from, to - from, (double)count / most);
    }
    return most;
}

uint64_t replay_steps_feed(struct replay *replay, const struct trace_process *process,
                           const struct step_row *row)
{
    struct replay_step step = {.start_ns = row->start_ns, .end_ns = end_of(row)};
    uint64_t read = 0;

    for (uint32_t i = process->thread_count; i-- > 0;)
        if (process->threads[i].tells_steps)
            step.trainer = i;
    replay_begin(replay, &step);
    for (uint32_t i = 0; i < process->block_count; i++) {
        const struct trace_block *block = &process->blocks[i];

        if (!replay_block_touches(block, step.start_ns, step.end_ns))
            continue;
        read += block->count;
        for (uint32_t j = 0; j < block->count; j++)
            if (!replay_add(replay, block->thread, &block->events[j],
                            j + 1 < block->count ? &block->events[j + 1] : NULL))
                return read;
    }
    return read;
}

const struct trace_process *replay_steps_of(const struct trace_answer *trace)
{
    for (uint32_t i = 0; i < trace->process_count; i++)
        if (trace->processes[i].pid == trace->head.pid &&
            trace->processes[i].rank == trace->head.rank)
            return &trace->processes[i];
    return NULL;
}

const char *replay_steps_why_none(const struct trace_process *process)
{
    if (process == NULL || process->step_count == 0)
        return "no step of this window is remembered";
    if (level_of(process) == 0)
        return "no step of this window was recorded in full";
    return "the events of the steps that were recorded in full are no longer "
           "remembered, some were lost, or not all that devices did in them is known";
}

/* ---- marks in a trace --------------------------------------------------------------------------- */

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t) * (const struct event *const *)left;
    uintptr_t b = (uintptr_t) * (const struct event *const *)right;

    return a < b ? -1 : a > b;
}

static int mark_path(struct replay_marks *marks, const struct replay_result *result)
{
    const struct event **events =
        realloc(marks->events, (marks->count + result->path_count) * sizeof(*events));

    if (events == NULL)
        return -ENOMEM;
    marks->events = events;
    for (uint32_t i = 0; i < result->path_count; i++)
        if (result->path[i].event != NULL)
            events[marks->count++] = result->path[i].event;
    marks->steps++;
    return 0;
}

int replay_marks(const struct trace_answer *trace, struct replay_marks *marks)
{
    const struct trace_process *process = replay_steps_of(trace);
    struct replay *replay = process == NULL ? NULL : replay_new(process->texts);
    struct replay_result result;
    uint64_t read = 0;
    uint32_t count = 0;
    int error = 0;

    *marks = (struct replay_marks){0};
    if (replay == NULL)
        return process == NULL ? 0 : -ENOMEM;
    const struct step_row **steps = replay_steps_list(trace, process, &count);

    for (uint32_t i = 0; i < count && error == 0 && read < REPLAY_READ_MAX; i++) {
        read += replay_steps_feed(replay, process, steps[i]);
        if (replay_run(replay, &result) == 0)
            error = mark_path(marks, &result);
    }
    if (marks->count > 1)
        qsort(marks->events, marks->count, sizeof(*marks->events), by_address);
    free(steps);
    replay_free(replay);
    return error;
}

void replay_marks_free(struct replay_marks *marks)
{
    free(marks->events);
    *marks = (struct replay_marks){0};
}

bool replay_is_marked(const struct replay_marks *marks, const struct event *event)
{
    return marks->count > 0 && bsearch(&event, marks->events, marks->count,
                                       sizeof(*marks->events), by_address) != NULL;
}
