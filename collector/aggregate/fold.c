/* Events to tables: where each kind goes. The one loop that every event passes; what is
 * frequent stands first. Work of a device goes to device_ops (its row), gpu (when it was busy),
 * kernels (how it was launched), op_links (what launched it) and history (to be downloaded). */
#include "aggregate/kernels.h"
#include "aggregate/process.h"

ALWAYS_INLINE int64_t end_of(const struct event *event)
{
    return (int64_t)event->time + (int64_t)event->value;
}

/* A range on a CPU thread: it takes self time from its parent in `nest`; NULL: it takes
 * and has none. */
ALWAYS_INLINE void fold_cpu(struct process *process, struct nest *nest,
                            const struct event *event, enum ops_kind kind)
{
    uint32_t entry = ops_row(&process->ops, EVENT_NAME(event->meta), kind);
    int64_t start = (int64_t)event->time, duration = (int64_t)event->value;

    if (UNLIKELY(entry & OPS_ROW_STEP))
        return;
    bool nests = nest != NULL && !(entry & OPS_ROW_RANGE);
    int64_t times[2] = {duration, nests ? nest_close(nest, start, duration) : 0};

    ops_add(&process->ops, OPS_ROW(entry), start, times);
}

/* A call of the host: one ring has those of all threads, and each nests among its own
 * thread's. */
static void fold_call(struct process *process, struct process_thread *thread,
                      const struct event *event, enum ops_kind kind)
{
    uint32_t caller = EVENT_CALLER(event->meta, UINT32_MAX);
    struct process_thread *by =
        caller < process->thread_count ? process->threads[caller] : NULL;

    fold_cpu(process, by != NULL ? &by->calls : &thread->nest, event, kind);
}

static void fold_accelerator(struct process *process, const struct event *event,
                             enum ops_kind kind)
{
    uint32_t entry = ops_row(&process->device.ops, EVENT_NAME(event->meta), kind);

    device_ops_add(&process->device, EVENT_AUX16(event->meta),
                   &(struct ops_held){.start_ns = (int64_t)event->time,
                                      .duration_ns = (int64_t)event->value,
                                      .self_ns = (int64_t)event->value,
                                      .row = OPS_ROW(entry)});
    if (UNLIKELY(process->device.given_up_from_ns != INT64_MAX))
        process_give_up_works(process);
    process->gpu.on = true;
}

static void fold_step(struct process *process, struct process_thread *thread,
                      const struct event *event)
{
    struct event told = *event;
    bool whole = process->whole && (int64_t)told.time >= process->lacks_until_ns;

    if (process->works_lost || (int64_t)told.time < process->works_lost_until_ns)
        told.meta &= ~EVENT_META(0, 0, EVENT_STEP_KERNELS, 0);
    const struct step *step = steps_fold(&process->steps, &told, whole);

    if (step != NULL)
        process_end(process, step);
    gpu_fold_step(&process->gpu, &told);
    process_give_up_works(process);
    process->works_lost = process->ring_lost_works;
    process_settle_works(process, (int64_t)event->time);
    nest_clear(&thread->nest);
    thread->tells_steps = true;
    process->whole = true;
    process->rev++;
}

static void fold_group(struct process *process, struct process_thread *thread)
{
    if (thread->group_count > 0 && EVENT_KIND(thread->group[0].meta) == EVENT_MEMORY)
        memory_fold(&process->memory, thread->group, thread->group_count - 1);
    thread->group_count = 0;
}

static void fold_known(struct process *process, struct process_thread *thread,
                       const struct event *event)
{
    thread->tells_works = true;
    /* What the ring lost had begun before this was told. */
    if (process->ring_lost_works) {
        process->ring_lost_works = process->works_lost = false;
        process_lose_works(process, process->device.told_ns, end_of(event));
    }
    process->gpu.tells = true;
    ops_known(&process->ops, (int64_t)event->time);
    device_ops_told(&process->device, (int64_t)event->time);
}

/* Events without a duration. */
static void fold_note(struct process *process, struct process_thread *thread,
                      const struct event *event)
{
    switch (EVENT_KIND(event->meta)) {
    case EVENT_SAMPLES:
        steps_fold_samples(&process->steps, event);
        break;
    case EVENT_WAITED:
        steps_fold_waited(&process->steps, event);
        break;
    case EVENT_ALLOC:
        memory_fold_alloc(&process->memory, event);
        break;
    case EVENT_THREAD:
        thread->tid = (uint32_t)event->value;
        if (EVENT_NAME(event->meta) != 0)
            thread->name = EVENT_NAME(event->meta);
        break;
    case EVENT_KNOWN:
        if (event->aux == WIRE_SOURCE_CUPTI)
            fold_known(process, thread, event);
        break;
    case EVENT_METRIC:
    case EVENT_FACT:
        break;
    default:
        process->unknown_kinds++;
        break;
    }
}

/* Everything that is not an op; true when `value` is a duration. */
static bool fold_rare(struct process *process, struct process_thread *thread,
                      const struct event *event)
{
    uint8_t flags = EVENT_FLAGS(event->meta);

    switch (EVENT_KIND(event->meta)) {
    case EVENT_STEP:
        fold_step(process, thread, event);
        return true;
    case EVENT_PHASE:
        steps_fold_phase(&process->steps, event);
        if (EVENT_AUX16(event->meta) == EVENT_PHASE_DATA)
            process_begin(process, (int64_t)event->time);
        return true;
    case EVENT_USER_RANGE:
        fold_cpu(process, NULL, event,
                 flags & EVENT_RANGE_NVTX ? OPS_RANGE_SAMPLED : OPS_RANGE);
        return true;
    case EVENT_RUNTIME:
    case EVENT_LAUNCH:
        fold_call(process, thread, event, OPS_RUNTIME);
        return true;
    case EVENT_SYNC:
        fold_call(process, thread, event, OPS_SYNC);
        return true;
    case EVENT_KERNEL:
        fold_accelerator(process, event, OPS_KERNEL);
        return true;
    case EVENT_MEMCPY:
        fold_accelerator(process, event, OPS_MEMCPY);
        return true;
    case EVENT_MEMSET:
        fold_accelerator(process, event, OPS_MEMSET);
        return true;
    case EVENT_COLLECTIVE:
        fold_cpu(process, NULL, event, OPS_RANGE_SAMPLED);
        return true;
    case EVENT_OVERHEAD:
        return true;
    case EVENT_MARK:
        steps_fold_mark(&process->steps, event);
        return flags == EVENT_MARK_GC;
    default:
        fold_note(process, thread, event);
        return false;
    }
}

/* Longer ones: until when is absurd. */
#define LOSS_MAX_NS (INT64_C(86400) * 1000000000)

/* How many is counted where it was lost; that steps have gaps only here. `more` is the
 * record behind it, NULL without. */
static void fold_loss(struct process *process, const struct event *event,
                      const struct event *more)
{
    int64_t since_ns = (int64_t)event->time, length_ns;
    bool until = more != NULL && EVENT_KIND(more->meta) == EVENT_MORE &&
                 EVENT_AUX16(more->meta) == 1 &&
                 !__builtin_sub_overflow((int64_t)more->time, since_ns, &length_ns) &&
                 length_ns <= LOSS_MAX_NS;

    if (event->aux == WIRE_SOURCE_CUPTI)
        process_lose_works(process, since_ns, until ? (int64_t)more->time : INT64_MAX);
    else
        process->whole = false;
}

static void keep(struct process *process, struct process_thread *thread, uint32_t index,
                 const struct event *event, int64_t end_ns)
{
    bool more = EVENT_KIND(event->meta) == EVENT_MORE;
    struct history_block *block = thread->open_block;

    if (UNLIKELY(block == NULL ||
                 block->count + (more ? 1 : RING_RECORDS_MAX) > block->capacity))
        block = history_room(process->history, &thread->open_block, &process->blocks,
                             index);
    if (LIKELY(block != NULL))
        history_put(block, event, more ? INT64_MAX : (int64_t)event->time, end_ns);
}

static NEVER_INLINE void fold_device(struct process *process,
                                     struct process_thread *thread,
                                     const struct event *events, uint32_t count)
{
    gpu_fold(&process->gpu, process->texts, events, count);
    kernels_fold(process, events, count);
    if (process->gpu.tells)
        op_links_fold(process, thread, events, count);
}

void process_fold(struct process *process, uint32_t thread, const struct event *events,
                  uint32_t count)
{
    struct process_thread *of = process_thread(process, thread);

    if (of == NULL) {
        process_lose(process, thread, count);
        return;
    }
    int64_t newest = process->newest_ns;

    for (uint32_t i = 0; i < count; i++) {
        const struct event *event = &events[i];
        uint8_t kind = EVENT_KIND(event->meta);
        int64_t end = (int64_t)event->time;

        if (LIKELY(kind == EVENT_CPU_OP)) {
            bool nests = !(EVENT_FLAGS(event->meta) & EVENT_OP_ASYNC);

            fold_cpu(process, nests ? &of->nest : NULL, event, OPS_OP);
            end = end_of(event);
        } else if (kind == EVENT_MORE) {
            /* Without its head it belongs to nobody: the head was lost. */
            if (of->group_count > 0 && of->group_count < RING_RECORDS_MAX)
                of->group[of->group_count++] = *event;
            end = INT64_MIN;
        } else {
            fold_group(process, of);
            if (kind == EVENT_MEMORY) {
                of->group[0] = *event;
                of->group_count = 1;
            } else if (kind == EVENT_LOSS) {
                fold_loss(process, event, i + 1 < count ? event + 1 : NULL);
            } else if (fold_rare(process, of, event)) {
                end = end_of(event);
            }
        }
        keep(process, of, thread, event, end);
        newest = end > newest ? end : newest;
    }
    if (UNLIKELY(process->gpu.on))
        fold_device(process, of, events, count);
    if (process->ops.any_late)
        ops_refresh(&process->ops);
    if (process->device.ops.any_late)
        ops_refresh(&process->device.ops);
    if (process->links.table.ops.any_late)
        ops_refresh(&process->links.table.ops);
    process->newest_ns = newest;
    process->events += count;
    of->events += count;
    process->rev += count > 0;
}

void process_fold_whole(struct process *process, uint32_t thread)
{
    if (thread < process->thread_count && process->threads[thread] != NULL)
        fold_group(process, process->threads[thread]);
}
