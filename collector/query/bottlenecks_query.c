#include "query/bottlenecks_query.h"

#include <errno.h>
#include <string.h>

#include "query/ops_inside.h"
#include "wire/facts.h"

static int fill_parts(struct pick *pick, const struct bottlenecks_request *request,
                      bool run, struct bottlenecks_answer *answer)
{
    struct ops_request cpu = {.device = OPS_CPU, .k = request->k, .judged = OPS_JUDGED};
    struct ops_request cuda = {
        .device = OPS_ACCELERATOR, .k = request->k, .judged = OPS_JUDGED};
    struct pick part = pick_part(pick, &answer->steps.head);
    int error = parts_steps_summary(&part, run, &answer->steps);

    pick->head->steps = answer->steps.head.steps;
    pick->head->recorded_steps = answer->steps.head.recorded_steps;
    if (pick->head->recorded_steps == 0) /* of a job whose CPU ops nobody can tell */
        pick->head->recorded_steps = answer->steps.train.kernels;
    pick->head->window.complete = answer->steps.head.window.complete;
    if (error == 0)
        error = parts_slow(&part, &answer->steps);
    part = pick_part(pick, &answer->cpu.head);
    if (error == 0)
        error = parts_ops(&part, &cpu, &answer->steps, &answer->cpu);
    if (error == 0)
        error = parts_callers(&part, &answer->steps, &answer->cpu);
    if (error == 0)
        error = parts_modules(&part, &answer->steps, &answer->cpu);
    part = pick_part(pick, &answer->cuda.head);
    if (error == 0)
        error = parts_ops(&part, &cuda, &answer->steps, &answer->cuda);
    part = pick_part(pick, &answer->memory.head);
    if (error == 0)
        error = parts_memory(&part, 0, &answer->memory);
    part = pick_part(pick, &answer->gpu.head);
    if (error == 0)
        error = parts_gpu(&part, 0, &answer->gpu);
    if (error == 0 && gpu_busiest(&answer->gpu) != NULL)
        ops_sums_fit(gpu_busiest(&answer->gpu)->use_ns[GPU_COMPUTE], &answer->cuda);
    if (error == 0)
        error = parts_hardware(&part, 0, &answer->hardware);
    part = pick_part(pick, &answer->ranks.head);
    if (error == 0)
        error = parts_ranks(&part, &answer->ranks);
    return error;
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

static bool has_no_python(const struct bottlenecks_answer *answer)
{
    for (uint32_t i = 0; i < answer->fact_count; i++)
        if (strcmp(answer->facts[i].key, FACT_VERSION_PYTHON) == 0)
            return false;
    return true;
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
    parts_shown(&pick, &answer->shown);
    if (error == 0)
        error = parts_facts(&answer->head, pick.process, &answer->facts,
                            &answer->fact_count);
    answer->own_file = pick.session->own_file;
    answer->foreign = pick.process->foreign;
    answer->native = !answer->head.from_file && has_no_python(answer);
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
