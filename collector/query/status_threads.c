/* What every thread of a process is in: its open ranges, and of the training thread the
 * step and the phase, which are no ranges before they end. */
#include <errno.h>

#include "query/parts.h"
#include "wire/words.h"

#define STEP_AND_PHASE 2u

/* The thread that told of steps; before the first one the process's own. */
static bool trains(const struct process *process, const struct process_thread *thread)
{
    for (uint32_t i = 0; i < process->thread_count; i++)
        if (process->threads[i] != NULL && process->threads[i]->tells_steps)
            return thread->tells_steps;
    return thread->tid == process->identity.pid;
}

static double open_for(int64_t start_ns, int64_t until_ns)
{
    double length = (double)(until_ns - start_ns);

    if (start_ns == INT64_MIN)
        return UNKNOWN;
    return length > 0 ? length : 0;
}

static void add(struct status_thread *to, const char *name, enum event_kind kind,
                double open_for_ns)
{
    to->open[to->open_count++] =
        (struct status_range){.name = name, .kind = kind, .open_for_ns = open_for_ns};
}

static void add_step(struct answer *head, const struct process *process,
                     int64_t until_ns, struct status_thread *to)
{
    unsigned long long number = process->told_steps;

    add(to, arena_print(&head->arena, "step %llu", number), EVENT_STEP,
        open_for(process->step_start_ns, until_ns));
    if (process->phase != 0)
        add(to, wire_phase_word(process->phase - 1), EVENT_PHASE,
            open_for(process->phase_start_ns, until_ns));
}

static void add_range(struct answer *head, const struct process *process,
                      const struct process_range *range, int64_t until_ns,
                      struct status_thread *to)
{
    add(to, arena_text(&head->arena, texts_get(process->texts, range->text)),
        range->kind, open_for(range->start_ns, until_ns));
}

/* Since when a dead process's ranges are open: until its last sign of life. */
static int list_open(struct answer *head, const struct process *process,
                     const struct process_thread *thread, int64_t until_ns,
                     struct status_thread *to)
{
    int64_t step_start_ns = process->step_start_ns;
    uint32_t next = 0;

    if (!ARENA_LIST(&head->arena, to->open, thread->range_count + STEP_AND_PHASE))
        return -ENOMEM;
    bool in_step = step_start_ns != INT64_MIN && process->state != PROCESS_ENDED &&
                   trains(process, thread);

    /* What was opened before the step holds it. */
    while (next < thread->range_count &&
           !(in_step && thread->ranges[next].start_ns >= step_start_ns))
        add_range(head, process, &thread->ranges[next++], until_ns, to);
    if (in_step)
        add_step(head, process, until_ns, to);
    while (next < thread->range_count)
        add_range(head, process, &thread->ranges[next++], until_ns, to);
    return 0;
}

int parts_threads(struct answer *head, const struct process *process, int64_t until_ns,
                  struct status_process *to)
{
    int error = 0;

    if (!ARENA_LIST(&head->arena, to->threads, process->thread_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < process->thread_count && error == 0; i++) {
        const struct process_thread *thread = process->threads[i];
        struct status_thread *at = &to->threads[to->thread_count];

        if (thread == NULL)
            continue;
        at->tid = thread->tid;
        at->name = arena_text(&head->arena, texts_get(process->texts, thread->name));
        at->depth = thread->depth;
        error = list_open(head, process, thread, until_ns, at);
        if (at->open_count > 0 || thread->name != 0)
            to->thread_count++;
    }
    return error;
}
