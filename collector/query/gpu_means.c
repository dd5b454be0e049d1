/* A step of which the device's work is known stands for those around it of which it is not
 * (drawn.h), as a recorded one does in the tables of ops: the first, slow steps were all
 * recorded, of later ones perhaps every 20th. One that was recorded on demand stands for
 * itself. The time between the steps is no part of any. */
#include <errno.h>

#include "query/drawn.h"
#include "query/parts.h"

/* While steps are listed, or summed, in their order. */
struct walk {
    const struct gpu *gpu;
    const struct gpu_table *table;
    uint64_t at; /* in the steps of the gpu */
};

static const struct gpu_step *step_of(const struct walk *walk)
{
    return &walk->gpu->steps[walk->at % walk->gpu->step_capacity];
}

static bool is_known(void *whose, const struct step *step)
{
    struct walk *walk = whose;
    int64_t end_ns = step->start_ns + step->duration_ns;

    if (!(step->flags & EVENT_STEP_KERNELS))
        return false;
    while (walk->at < walk->gpu->step_count && step_of(walk)->end_ns < end_ns)
        walk->at++;
    return walk->at < walk->gpu->step_count &&
           step_of(walk)->start_ns == step->start_ns &&
           gpu_knows_step(walk->gpu, walk->table, walk->at);
}

/* What the trainer waited for data in the step that began then, of the `left` from `*at` on;
 * NaN unknown. */
static double data_ns(const struct steps *steps, int64_t start_ns, uint32_t *at,
                      uint32_t *left)
{
    for (; *left > 0; ++*at, --*left) {
        const struct step *step = steps_at(steps, *at);

        if (step->start_ns >= start_ns)
            return step->start_ns == start_ns && step->known >> EVENT_PHASE_DATA & 1
                       ? (double)step->phase_ns[EVENT_PHASE_DATA]
                       : UNKNOWN;
    }
    return UNKNOWN;
}

/* The sum of all weights; 0: of no step the work is known. */
static double sum_steps(const struct drawing *drawing, struct walk *walk,
                        const struct pick *pick, struct gpu_device *device)
{
    const struct answer_window *window = &pick->head->window;
    const struct steps *steps = &pick->process->steps;
    const struct gpu *gpu = walk->gpu;
    uint32_t left, at = pick_steps(pick, &left);
    uint32_t drawn = 0;
    double sum = 0;

    for (; walk->at < gpu->step_count; walk->at++) {
        const struct gpu_step *step = step_of(walk);
        double weight = 1;

        if (step->start_ns < window->from_ns || step->end_ns > window->to_ns)
            continue;
        if (!gpu_knows_step(gpu, walk->table, walk->at)) {
            device->behind_steps +=
                step->start_ns < step->end_ns && step->end_ns <= walk->table->cursor_ns;
            continue;
        }
        while (drawn < drawing->count &&
               drawing->steps[drawn].start_ns < step->start_ns)
            drawn++;
        if (drawn < drawing->count && drawing->steps[drawn].start_ns == step->start_ns)
            weight = drawing->steps[drawn].weight;
        const struct gpu_cell *cell =
            &walk->table->steps[walk->at % gpu->step_capacity];

        for (uint32_t i = 0; i < GPU_USES; i++)
            device->use_ns[i] += weight * (double)cell->use_ns[i];
        for (uint32_t i = 0; i < GPU_IDLES; i++)
            device->idle_ns[i] += weight * (double)cell->idle_ns[i];
        device->queued_ns += weight * (double)cell->queued_ns;
        device->data_ns += weight * data_ns(steps, step->start_ns, &at, &left);
        device->known_steps++;
        sum += weight;
    }
    return sum;
}

/* Of the training steps of the window, known or not; NaN without any, or where it begins
 * before all that are remembered. For slow ones before the first known one none stands: what
 * took them longer was not the device's work. */
static double mean_step_ns(const struct pick *pick)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);
    uint32_t usual = first + warm_up_unknown(steps, first, count);
    double sum = 0, trained = 0;

    if (first == 0 && steps->count > steps_remembered(steps))
        return UNKNOWN;
    for (uint32_t i = usual; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & STEP_APART)
            continue;
        sum += (double)step->duration_ns;
        trained++;
    }
    return sum / (trained > 0 ? trained : UNKNOWN);
}

/* Where the known steps were longer than those they stand for, the device did the same in
 * less time, and waited less. */
static void fit_into_step(double step_ns, struct gpu_device *device)
{
    double busy = gpu_device_busy_ns(device), idle = 0;
    double left = busy < step_ns ? step_ns - busy : 0;
    double launch = device->idle_ns[GPU_IDLE_LAUNCH];

    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += device->idle_ns[i];
    if (!(busy + idle > step_ns))
        return;
    for (uint32_t i = 0; i < GPU_USES && busy > step_ns; i++)
        device->use_ns[i] *= step_ns / busy;
    for (uint32_t i = 0; i < GPU_IDLES && idle > left; i++)
        device->idle_ns[i] *= left / idle;
    if (launch > 0)
        device->queued_ns *= device->idle_ns[GPU_IDLE_LAUNCH] / launch;
}

const char *gpu_why_unknown(const struct process *process)
{
    if (device_ops_awaits(&process->device))
        return "the GPU work of the newest steps has not come yet: CUPTI tells it when "
               "what runs beside it is done";
    if (process->capabilities[WIRE_SOURCE_CUPTI].lost > 0)
        return "of no step of this window all GPU work is known: some was lost, "
               "because "
               "launches came faster than they can be told, or another profiler took "
               "it";
    if (process->device.given_up > 0)
        return "of no step of this window all GPU work is known: it was not told "
               "before the process ended, or before too much waited for it";
    return "";
}

int gpu_means(const struct pick *pick, const struct gpu_table *table,
              struct gpu_device *device)
{
    const struct gpu *gpu = &pick->process->gpu;
    uint64_t oldest = gpu_oldest_step(gpu);
    struct walk walk = {gpu, table, oldest};
    struct drawing drawing;

    if (!drawing_weigh(&drawing, pick, is_known, &walk)) {
        drawing_free(&drawing);
        return -ENOMEM;
    }
    walk.at = oldest;
    double sum = sum_steps(&drawing, &walk, pick, device);

    drawing_free(&drawing);
    sum = sum > 0 ? sum : UNKNOWN;
    for (uint32_t i = 0; i < GPU_USES; i++)
        device->use_ns[i] /= sum;
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        device->idle_ns[i] /= sum;
    device->queued_ns /= sum;
    device->data_ns /= sum;
    fit_into_step(mean_step_ns(pick), device);
    if (device->known_steps > 0)
        return 0;
    device->reason =
        device->behind_steps > 1 /* one alone: it came up within a step */
            ? "GPU work was recorded in some steps, but of none of them from its first "
              "instant on: where recording began, the device was still busy with what "
              "had been launched before. Level kernels records every step"
            : gpu_why_unknown(pick->process);
    return 0;
}

/* ---- whether it computes longer and longer for the same steps ---------------------- */

/* Fewer tell no trend from noise; of more the newest are looked at. */
#define STEPS_LEAST 64u
#define STEPS_MOST  2048u

/* Of the first level: less is no trend worth a name, as for steps. */
#define DRIFT_LEAST 0.1

/* Compute of steps in the range in which the device computed at all, newest first. */
static uint32_t collect(const struct gpu *gpu, const struct gpu_table *table,
                        const int64_t range[2], double *values)
{
    uint32_t count = 0;

    for (uint64_t i = 0; i < gpu->step_count && i < gpu->step_capacity; i++) {
        uint64_t step = gpu->step_count - 1 - i, at = step % gpu->step_capacity;
        int64_t compute = table->steps[at].use_ns[GPU_COMPUTE];

        if (count == STEPS_MOST || gpu->steps[at].end_ns < range[0])
            break;
        if (gpu->steps[at].start_ns >= range[0] && gpu->steps[at].end_ns <= range[1] &&
            compute > 0 && gpu_knows_step(gpu, table, step))
            values[count++] = (double)compute;
    }
    return count;
}

/* The first level and the last of `values`, newest first; left as they are without a
 * trend. */
static void look_at(double *values, uint32_t count, struct gpu_device *device)
{
    double times[NUMBERS_SLOPE_MAX], levels[NUMBERS_SLOPE_MAX];
    uint32_t points =
        count < 4 * NUMBERS_SLOPE_MAX ? count / 4 : (uint32_t)NUMBERS_SLOPE_MAX;
    int sure = 0;

    /* Medians of neighbours; the newest come first in `values`, last in `levels`. */
    for (uint32_t p = 0; p < points; p++) {
        uint32_t from = (uint32_t)((uint64_t)count * p / points);
        uint32_t to = (uint32_t)((uint64_t)count * (p + 1) / points);

        levels[points - 1 - p] = numbers_median(values + from, to - from);
        times[p] = p;
    }
    double rise = numbers_slope(times, levels, points, &sure) * points;

    if (!sure || !(rise > 0) || !numbers_rises(levels, points, DRIFT_LEAST / 4))
        return;
    double first = numbers_median(values, count) - rise / 2;

    if (!(first > 0) || rise < DRIFT_LEAST * first)
        return;
    device->compute_first_ns = first;
    device->compute_last_ns = first + rise;
}

int gpu_drift(struct arena *arena, const struct gpu *gpu, const struct gpu_table *table,
              const int64_t range[2], struct gpu_device *device)
{
    device->compute_first_ns = device->compute_last_ns = UNKNOWN;
    if (gpu->step_count < STEPS_LEAST)
        return 0;
    double *values = arena_new(arena, STEPS_MOST, sizeof(*values));

    if (values == NULL)
        return -ENOMEM;
    uint32_t count = collect(gpu, table, range, values);

    if (count >= STEPS_LEAST)
        look_at(values, count, device);
    return 0;
}
