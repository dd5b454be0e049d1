#include "aggregate/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct process *process_new(const struct process_identity *identity, uint32_t serial,
                            struct history *history, size_t digest_bytes)
{
    struct process *process = calloc(1, sizeof(*process));

    if (process == NULL)
        return NULL;
    process->identity = *identity;
    process->serial = serial;
    process->history = history;
    process->newest_ns = INT64_MIN;
    process->alive_ns = INT64_MIN;
    process->works_lost_ns = process->works_lost_until_ns = INT64_MIN;
    process->lacks_until_ns = INT64_MIN;
    process->step_start_ns = process->phase_start_ns = INT64_MIN;
    process->whole = true;
    process->rss_bytes = (double)NAN;
    process->cpu_share = (double)NAN;
    process->shared_bytes = process->shared_used_bytes = (double)NAN;
    for (uint32_t i = 0; i < WIRE_SOURCES; i++) {
        process->capabilities[i].cost_ns = (double)NAN;
        process->capabilities[i].events_per_s = (double)NAN;
    }
    steps_init(&process->steps);
    gpu_init(&process->gpu);
    process->texts = texts_new();
    if (process->texts == NULL ||
        !ops_init(&process->ops, process->texts, digest_bytes) ||
        !device_ops_init(&process->device, process->texts, digest_bytes) ||
        !op_links_init(&process->links, process->texts, digest_bytes)) {
        process_free(process);
        return NULL;
    }
    return process;
}

void process_free(struct process *process)
{
    if (process == NULL)
        return;
    for (uint32_t i = 0; i < process->thread_count; i++) {
        struct process_thread *thread = process->threads[i];

        if (thread == NULL)
            continue;
        history_release(thread->open_block);
        nest_free(&thread->nest);
        nest_free(&thread->calls);
        op_spans_free(thread->spans);
        free(thread);
    }
    free(process->threads);
    history_forget(process->history, &process->blocks);
    ops_free(&process->ops);
    device_ops_free(&process->device);
    op_links_free(&process->links);
    steps_free(&process->steps);
    memory_free(&process->memory);
    gpu_free(&process->gpu);
    free(process->linked);
    free(process->kernels);
    for (uint32_t by = 0; by < GROUPS; by++)
        ops_group_free(process->groups[by]);
    series_free(&process->rss);
    series_free(&process->between_ops.shares);
    series_free(&process->between_ops.behind);
    free(process->loaders);
    texts_release(process->texts);
    free(process);
}

static bool reserve_threads(struct process *process, uint32_t count)
{
    if (count <= process->thread_capacity)
        return true;
    if (count > PROCESS_THREADS)
        return false;
    uint32_t capacity = process->thread_capacity == 0 ? 8 : process->thread_capacity;

    while (capacity < count)
        capacity *= 2;
    struct process_thread **threads =
        realloc(process->threads, capacity * sizeof(struct process_thread *));

    if (threads == NULL)
        return false;
    memset(threads + process->thread_capacity, 0,
           (capacity - process->thread_capacity) * sizeof(struct process_thread *));
    process->threads = threads;
    process->thread_capacity = capacity;
    return true;
}

struct process_thread *process_thread(struct process *process, uint32_t index)
{
    if (!reserve_threads(process, index + 1))
        return NULL;
    struct process_thread *thread = process->threads[index];

    if (thread != NULL)
        return thread;
    thread = calloc(1, sizeof(*thread));
    if (thread == NULL)
        return NULL;
    process->threads[index] = thread;
    if (index >= process->thread_count)
        process->thread_count = index + 1;
    return thread;
}

void process_lose(struct process *process, uint32_t thread, uint64_t count)
{
    struct process_thread *of = process_thread(process, thread);

    process->lost += count;
    process->whole = false;
    if (of == NULL)
        return;
    of->lost += count;
    /* What waited for a parent may have lost it: better own time than a wrong one. */
    nest_clear(&of->nest);
    of->group_count = 0;
    if (of->tells_works && count > 0) {
        process->ring_lost_works = true;
        process_lose_works(process, process->device.told_ns, INT64_MAX);
    }
}

void process_lack(struct process *process, uint32_t thread, int64_t until_ns,
                  bool works)
{
    struct process_thread *of = process_thread(process, thread);

    if (of == NULL || of->tells_works)
        return;
    if (!works) {
        if (until_ns > process->lacks_until_ns)
            process->lacks_until_ns = until_ns;
        return;
    }
    of->tells_works = process->ring_lost_works = true;
    process_lose_works(process, process->device.told_ns, INT64_MAX);
}

/* Steps that may be looked at for lost work, for each that there was: a flush every 100 ms
 * tells of the last ones. Who makes us look at more has lost the work of all of them. */
#define LOSS_LOOKS 256u

void process_lose_works(struct process *process, int64_t since_ns, int64_t until_ns)
{
    int64_t told_ns = process->steps.last_end_ns;
    bool all = process->loss_looks > LOSS_LOOKS * (process->steps.count + LOSS_LOOKS);

    if (until_ns == INT64_MAX)
        process->works_lost = true;
    else if (until_ns > process->works_lost_until_ns)
        process->works_lost_until_ns = until_ns;
    if (all || since_ns < process->works_lost_ns)
        since_ns = process->works_lost_ns;
    if (all) {
        until_ns = until_ns > told_ns ? until_ns : told_ns;
        process->works_lost_ns = told_ns;
    }
    process->loss_looks += steps_lose_works(&process->steps, since_ns, until_ns);
    process->loss_looks += device_ops_lose(&process->device, since_ns, until_ns);
    process->loss_looks += device_ops_lose(&process->links.table, since_ns, until_ns);
    process->loss_looks += gpu_lose(&process->gpu, since_ns, until_ns);
    process->rev++;
}

void process_give_up_works(struct process *process)
{
    int64_t range[2];

    if (!device_ops_take_given_up(&process->device, range))
        return;
    /* Those that wait are none of them, and may be thousands. */
    process->loss_looks += steps_lose_works(&process->steps, range[0], range[1]);
    process->loss_looks += device_ops_lose(&process->links.table, range[0], range[1]);
    process->loss_looks += gpu_lose(&process->gpu, range[0], range[1]);
    process->rev++;
}

/* What waits is gone through each time: where a source is behind, only when it has told
 * more. */
void process_settle_works(struct process *process, int64_t until_ns)
{
    int64_t told_ns = process->device.told_ns;

    if (told_ns != INT64_MIN && told_ns < until_ns)
        until_ns = told_ns;
    if (process->gpu.on && until_ns > process->gpu.settled_ns)
        gpu_settle(&process->gpu, until_ns);
}

/* Of the last steps, which no other has settled. */
static void finish_works(struct process *process)
{
    process_settle_works(process, process->gpu.recorded_ns);
    if (process->gpu.settled_ns != INT64_MIN)
        gpu_finish(&process->gpu, process->gpu.settled_ns);
}

void process_begin(struct process *process, int64_t start_ns)
{
    ops_begin(&process->ops, start_ns);
    device_ops_begin(&process->device, start_ns);
    device_ops_begin(&process->links.table, start_ns);
    for (uint32_t by = 0; by < GROUPS; by++)
        if (process->groups[by] != NULL)
            ops_begin(&process->groups[by]->ops, start_ns);
}

void process_end(struct process *process, const struct step *step)
{
    ops_end(&process->ops, step);
    device_ops_end(&process->device, step);
    op_links_end(&process->links, step);
    for (uint32_t by = 0; by < GROUPS; by++)
        if (process->groups[by] != NULL)
            ops_end(&process->groups[by]->ops, step);
}

void process_finish(struct process *process, enum process_state state,
                    const char *reason)
{
    for (uint32_t i = 0; i < process->thread_count; i++) {
        if (process->threads[i] == NULL)
            continue;
        process_fold_whole(process, i);
        history_seal(process->history, &process->threads[i]->open_block);
    }
    /* What was not flushed till then comes no more. */
    if (process->said_goodbye || process->device.told_ns != INT64_MIN)
        device_ops_known(&process->device, INT64_MAX);
    op_links_finish(process);
    process_give_up_works(process);
    finish_works(process);
    ops_settle(&process->ops);
    ops_settle(&process->device.ops);
    ops_settle(&process->links.table.ops);
    for (uint32_t by = 0; by < GROUPS; by++)
        if (process->groups[by] != NULL)
            ops_settle(&process->groups[by]->ops);
    process->state = state;
    snprintf(process->reason, sizeof(process->reason), "%s", reason);
    process->rev++;
}
