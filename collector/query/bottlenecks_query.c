#include "query/bottlenecks_query.h"

#include <errno.h>
#include <string.h>

#include "query/ops_inside.h"
#include "wire/facts.h"

#define RECORDED ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))

/* Of what is remembered the oldest quarter goes next: who follows a link has as long. */
#define GOES_NEXT 4

static int64_t oldest_event(const struct process *process)
{
    for (const struct history_block *block = process->blocks.oldest; block != NULL;
         block = block->after)
        if (block->thread < process->thread_count &&
            process->threads[block->thread] != NULL &&
            process->threads[block->thread]->tells_steps)
            return block->from_ns;
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct process_thread *thread = process->threads[i];

        if (thread != NULL && thread->tells_steps && thread->open_block != NULL)
            return thread->open_block->from_ns;
    }
    return INT64_MAX;
}

/* Steps that begin from then on can be shown. */
static int64_t shown_since(const struct pick *pick)
{
    int64_t oldest = oldest_event(pick->process), now = pick->head->now_ns;

    if (oldest >= now)
        return INT64_MAX;
    return pick->process->history->dropped_blocks == 0
               ? INT64_MIN
               : oldest + (now - oldest) / GOES_NEXT;
}

static bool is_shown(const struct step *step, int64_t since_ns)
{
    return (step->flags & STEP_APART) == 0 && step->start_ns >= since_ns;
}

/* What the best recorded of them have: others would miss a part. */
static uint32_t level_of(const struct pick *pick, int64_t since_ns)
{
    uint32_t count, first = pick_steps(pick, &count), level = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(&pick->process->steps, i);
        uint32_t own = step->flags & RECORDED;

        if (is_shown(step, since_ns) && !(step->flags & EVENT_STEP_FIRST) &&
            step->whole && own > level)
            level = own;
    }
    return level;
}

/* Takes the step where it is longer than what was taken before. */
static void take(const struct step *step, double ns, double *longest, int64_t *number)
{
    if (!(ns > *longest))
        return;
    *longest = ns;
    *number = (int64_t)step->number;
}

static void find_shown(const struct pick *pick, struct shown_steps *shown)
{
    int64_t since = shown_since(pick);
    uint32_t count, first = pick_steps(pick, &count), level = level_of(pick, since);
    double longest = -1, recorded = -1, waited = 0;

    *shown = (struct shown_steps){NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN};
    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(&pick->process->steps, i);
        double ns = (double)step->duration_ns;

        if (!is_shown(step, since))
            continue;
        if (shown->first == NOT_KNOWN)
            shown->first = (int64_t)step->number;
        if (step->flags & EVENT_STEP_FIRST) /* it is long for reasons of its own */
            continue;
        take(step, ns, &longest, &shown->longest);
        if (level > 0 && step->whole && (step->flags & RECORDED) == level)
            take(step, ns, &recorded, &shown->recorded);
        take(step, step_phase_ns(step, EVENT_PHASE_DATA), &waited, &shown->waited);
    }
}

/* ---- the parts ---------------------------------------------------------------------- */

static int fill_parts(struct pick *pick, const struct bottlenecks_request *request,
                      bool run, struct bottlenecks_answer *answer)
{
    const struct ops_request cpu = {
        .device = OPS_CPU, .k = request->k, .judged = OPS_JUDGED};
    const struct ops_request cuda = {
        .device = OPS_ACCELERATOR, .k = request->k, .judged = OPS_JUDGED};
    const struct steps_answer *steps = &answer->steps;
    struct pick part = pick_part(pick, &answer->steps.head);

    if (parts_steps_summary(&part, run, &answer->steps) != 0)
        return -ENOMEM;
    pick->head->steps = steps->head.steps;
    pick->head->recorded_steps = steps->head.recorded_steps;
    if (pick->head->recorded_steps == 0) /* of a job whose CPU ops nobody can tell */
        pick->head->recorded_steps = steps->train.kernels;
    pick->head->window.complete = steps->head.window.complete;
    if (parts_slow(&part, &answer->steps) != 0)
        return -ENOMEM;
    part = pick_part(pick, &answer->cpu.head);
    if (parts_ops(&part, &cpu, steps, &answer->cpu) != 0 ||
        parts_callers(&part, steps, &answer->cpu) != 0 ||
        parts_modules(&part, steps, &answer->cpu) != 0)
        return -ENOMEM;
    part = pick_part(pick, &answer->cuda.head);
    if (parts_ops(&part, &cuda, steps, &answer->cuda) != 0)
        return -ENOMEM;
    part = pick_part(pick, &answer->memory.head);
    if (parts_memory(&part, 0, &answer->memory) != 0)
        return -ENOMEM;
    part = pick_part(pick, &answer->gpu.head);
    if (parts_gpu(&part, 0, &answer->gpu) != 0 ||
        parts_hardware(&part, 0, &answer->hardware) != 0)
        return -ENOMEM;
    if (gpu_busiest(&answer->gpu) != NULL)
        ops_sums_fit(gpu_busiest(&answer->gpu)->use_ns[GPU_COMPUTE], &answer->cuda);
    part = pick_part(pick, &answer->ranks.head);
    return parts_ranks(&part, &answer->ranks);
}

static int list_peaks(struct bottlenecks_answer *answer)
{
    const struct memory_answer *memory = &answer->memory;

    if (!ARENA_LIST(&answer->head.arena, answer->peaks, memory->device_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (isnan(device->peak_bytes))
            continue;
        answer->peaks[answer->peak_count++] =
            (struct memory_peak){.device = device->device,
                                 .bytes = device->peak_bytes,
                                 .time_ns = device->peak_time_ns,
                                 .op = device->peak_op};
    }
    return 0;
}

int bottlenecks_query(struct store *store, const struct selection *selection,
                      const struct bottlenecks_request *request,
                      struct bottlenecks_answer *answer)
{
    struct pick pick;

    *answer = (struct bottlenecks_answer){.dataloader_share = UNKNOWN};
    if (request->k > OPS_K_MAX)
        return -EINVAL;
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_judged(&pick, &selection->window);
    bool run = pick_is_run(&pick, &selection->window);

    error = fill_parts(&pick, request, run, answer);
    if (error == 0)
        error = list_peaks(answer);
    if (error == 0)
        error = parts_rhythm(&pick, &answer->rhythm);
    parts_load(&pick, &answer->load);
    parts_between_ops(&pick, &answer->between_ops);
    find_shown(&pick, &answer->shown);
    if (error == 0)
        error = parts_facts(&answer->head, pick.process, &answer->facts,
                            &answer->fact_count);
    answer->own_file = pick.session->own_file;
    answer->foreign = pick.process->foreign;
    answer->native = !answer->head.from_file &&
                     *parts_fact_text(pick.process, FACT_VERSION_PYTHON) == '\0';
    answer->dataloader_share = answer->steps.train.phase_share[EVENT_PHASE_DATA];
    parts_explain_steps(&pick, &answer->head);
    pick_end(&pick);
    return error;
}

void bottlenecks_replay(struct store *store, const struct selection *selection,
                        struct bottlenecks_answer *answer)
{
    if (gpu_busiest(&answer->gpu) != NULL)
        answer->replay = replay_query_table(store, selection);
}

void bottlenecks_free(struct bottlenecks_answer *answer)
{
    answer_free(&answer->steps.head);
    answer_free(&answer->cpu.head);
    answer_free(&answer->cuda.head);
    answer_free(&answer->memory.head);
    answer_free(&answer->gpu.head);
    answer_free(&answer->ranks.head);
    answer_free(&answer->head);
}
