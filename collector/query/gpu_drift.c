#include "query/gpu_drift.h"

#include <errno.h>
#include <math.h>

#include "query/numbers.h"

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

        numbers_sort(values + from, to - from);
        levels[points - 1 - p] = numbers_quantile(values + from, to - from, 0.5);
        times[p] = p;
    }
    double rise = numbers_slope(times, levels, points, &sure) * points;

    if (!sure || !(rise > 0) || !numbers_rises(levels, points, DRIFT_LEAST / 4))
        return;
    numbers_sort(values, count);
    double first = numbers_quantile(values, count, 0.5) - rise / 2;

    if (!(first > 0) || rise < DRIFT_LEAST * first)
        return;
    device->compute_first_ns = first;
    device->compute_last_ns = first + rise;
}

int gpu_drift(struct arena *arena, const struct gpu *gpu, const struct gpu_table *table,
              const int64_t range[2], struct gpu_device *device)
{
    device->compute_first_ns = device->compute_last_ns = (double)NAN;
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
