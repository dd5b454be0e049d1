/* Compute of steps over time, in cells made by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/parts.h"

#define STEPS 400u
#define MS    INT64_C(1000000)

static struct gpu_step steps[STEPS];
static struct gpu_cell cells[STEPS];
static struct gpu gpu;
static struct gpu_table table;
static struct gpu_device device;

/* Step n of 10 ms computes for `first` + n * `rise` ns, with a wobble of a twentieth. */
static void put(uint32_t count, int64_t first, double rise)
{
    gpu = (struct gpu){.steps = steps, .step_capacity = STEPS, .step_count = count};
    table = (struct gpu_table){.steps = cells};
    for (uint32_t n = 0; n < count; n++) {
        int64_t compute = first + (int64_t)(n * rise);

        compute += compute / 20 * ((int64_t)(n * 7919 % 3) - 1);

        steps[n] =
            (struct gpu_step){.start_ns = n * 10 * MS, .end_ns = (n + 1) * 10 * MS};
        cells[n] = (struct gpu_cell){.use_ns[GPU_COMPUTE] = compute,
                                     .idle_ns[GPU_IDLE_SYNC] = 10 * MS - compute};
    }
}

static void look(int64_t from_ns, int64_t to_ns)
{
    int64_t range[2] = {from_ns, to_ns};

    struct arena arena = {0};

    assert_int_equal(gpu_drift(&arena, &gpu, &table, range, &device), 0);
    arena_free(&arena);
}

static void compute_that_grows_has_its_level_at_both_ends(void **state)
{
    (void)state;
    put(STEPS, 4 * MS, 5000); /* from 4 to 6 ms */
    look(0, INT64_MAX);
    assert_true(fabs(device.compute_first_ns - 4.0 * MS) < 0.3 * MS);
    assert_true(fabs(device.compute_last_ns - 6.0 * MS) < 0.3 * MS);
    /* Of the window alone: from 5 to 6 ms. */
    look(2000 * MS, INT64_MAX);
    assert_true(fabs(device.compute_first_ns - 5.0 * MS) < 0.3 * MS);
}

static void compute_that_wobbles_falls_or_jumps_once_is_no_drift(void **state)
{
    (void)state;
    put(STEPS, 4 * MS, 0);
    look(0, INT64_MAX);
    assert_true(isnan(device.compute_first_ns) && isnan(device.compute_last_ns));
    put(STEPS, 6 * MS, -5000);
    look(0, INT64_MAX);
    assert_true(isnan(device.compute_first_ns));
    put(STEPS, 4 * MS, 0);
    for (uint32_t n = STEPS - 40; n < STEPS; n++)
        cells[n].use_ns[GPU_COMPUTE] *= 2;
    look(0, INT64_MAX);
    assert_true(isnan(device.compute_first_ns));
}

static void few_steps_and_steps_without_work_tell_nothing(void **state)
{
    (void)state;
    put(40, 4 * MS, 100000);
    look(0, INT64_MAX);
    assert_true(isnan(device.compute_first_ns));
    put(0, 0, 0);
    look(0, INT64_MAX);
    assert_true(isnan(device.compute_first_ns));
    put(STEPS, 4 * MS, 5000);
    /* Every second one was not recorded. */
    for (uint32_t n = 0; n < STEPS; n += 2)
        cells[n] = (struct gpu_cell){0};
    look(0, INT64_MAX);
    assert_true(fabs(device.compute_last_ns - 6.0 * MS) < 0.3 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_that_grows_has_its_level_at_both_ends),
        cmocka_unit_test(compute_that_wobbles_falls_or_jumps_once_is_no_drift),
        cmocka_unit_test(few_steps_and_steps_without_work_tell_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
