#include "query/ranks_wait.h"

#include <math.h>

#include "query/parts.h"

bool ranks_wait_on_device(const struct process *process)
{
    for (uint32_t i = 0; i < process->gpu.table_count; i++)
        if (process->gpu.tables[i]->run.use_ns[GPU_COMMUNICATION] > 0)
            return true;
    return false;
}

/* Of the device that communicates longest. */
static double communicates_ns(const struct gpu *gpu, const struct step *step)
{
    uint64_t i = gpu_step_after(gpu, step->start_ns);
    double most = (double)NAN;

    if (i == gpu->step_count ||
        gpu->steps[i % gpu->step_capacity].start_ns != step->start_ns)
        return most;
    for (uint32_t t = 0; t < gpu->table_count; t++) {
        const struct gpu_table *table = gpu->tables[t];

        if (gpu_knows_step(gpu, table, i))
            most = fmax(
                most,
                (double)table->steps[i % gpu->step_capacity].use_ns[GPU_COMMUNICATION]);
    }
    return most;
}

double ranks_wait_ns(enum ranks_wait where, const struct process *process,
                     const struct step *step)
{
    double data = step_phase_ns(step, EVENT_PHASE_DATA);
    double backward = step_phase_ns(step, EVENT_PHASE_BACKWARD);

    switch (where) {
    case RANKS_WAIT_DEVICE:
        return communicates_ns(&process->gpu, step);
    case RANKS_WAIT_ANYWHERE:
        return (double)step->duration_ns - (isnan(data) ? 0 : data);
    case RANKS_WAIT_BACKWARD:
    default:
        return isnan(backward) ? 0 : backward;
    }
}
