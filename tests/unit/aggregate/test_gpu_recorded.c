/* Time in which the work of a device was not recorded is neither busy nor idle, and in
 * no step. */
#include "aggregate/gpu_buckets.h"
#include "unit/gpu_bench.h"

static void the_run_tells_in_how_many_of_its_steps_work_was_recorded(void **state)
{
    struct bench *bench = *state;

    step(bench, SPAN(0, 10), EVENT_STEP_KERNELS);
    step(bench, SPAN(10, 20), 0);
    step(bench, SPAN(20, 30), EVENT_STEP_WINDOW);
    step(bench, SPAN(30, 40), EVENT_STEP_KERNELS | EVENT_STEP_VALIDATION);
    step(bench, SPAN(40, 50), EVENT_STEP_KERNELS);
    assert_int_equal(bench->gpu.training_steps, 4);
    assert_int_equal(bench->gpu.recorded_steps, 2);
    assert_int_equal(gpu_lose(&bench->gpu, 42 * US, 43 * US), 1);
    (void)gpu_lose(&bench->gpu, 44 * US, 45 * US); /* once is enough */
    assert_int_equal(bench->gpu.recorded_steps, 1);
}

static void a_step_counts_in_the_sums_of_the_run_once_it_is_final(void **state)
{
    struct bench *bench = *state;
    const struct gpu_moves *moves;

    copy(bench, 10, EVENT_COPY_H2D);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    copy(bench, 110, EVENT_COPY_H2D);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    moves = &gpu_find(&bench->gpu, CUDA0)->work.copies[EVENT_COPY_H2D][0];
    gpu_settle(&bench->gpu, 100 * US);
    assert_int_equal(moves->count, 1);
    assert_int_equal(gpu_settled_steps(&bench->gpu), 1);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(moves->count, 2);
    assert_int_equal(gpu_settled_steps(&bench->gpu), 2);
}

/* Recorded up to 100 and from 900 on, and a part of the step before that. */
static void record_in_two_stretches(struct bench *bench)
{
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(5, 9), 0);
    work(bench, "a", SPAN(10, 20), 1, 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    for (int64_t at = 100; at < 900; at += 100)
        step(bench, SPAN(at, at + 100), EVENT_STEP_OPS);
    work(bench, "after the source came up", SPAN(850, 870), 1, 0);
    work(bench, "b", SPAN(950, 960), 1, 0);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
}

static void steps_without_their_kernels_are_none_of_the_device(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    record_in_two_stretches(bench);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(
        gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum),
        2);
    assert_int_equal(gpu_busy_ns(&sum), 20 * US);
    assert_int_equal(gpu_idle_ns(&sum), 180 * US);
}

static void
time_in_which_kernels_were_not_recorded_is_neither_busy_nor_idle(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    record_in_two_stretches(bench);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 20 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 180 * US);
    gpu_sum_time(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum);
    assert_memory_equal(&sum, sums(bench), sizeof(sum));
    /* Nor is it a stream's: that would be busier than its device. */
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->work.streams[0].busy_ns, 20 * US);
}

static void a_gap_that_recording_cut_has_the_cause_of_each_of_its_ends(void **state)
{
    struct bench *bench = *state;

    work(bench, "a", SPAN(0, 40), 1, 0);
    host(bench, EVENT_CPU_OP, "enumerate(DataLoader)", SPAN(40, 95), 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    step(bench, SPAN(100, 900), 0);
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(900, 960), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(955, 958), 7);
    work(bench, "b", SPAN(960, 1000), 1, 7);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_DATA], 60 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 60 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 120 * US);
}

static void
what_runs_through_time_that_was_not_recorded_counts_on_both_sides(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    work(bench, "gemm", SPAN(50, 950), 1, 0);
    work(bench, "ncclKernel_AllReduce", SPAN(60, 940), 2, 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    step(bench, SPAN(100, 900), 0);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 1000 * US);
    gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum);
    assert_int_equal(sum.use_ns[GPU_COMPUTE], 100 * US);
    assert_int_equal(sum.overlap_ns, 80 * US);
    assert_memory_equal(&sum, sums(bench), sizeof(sum));
}

static void what_came_before_the_first_recorded_step_is_not_known(void **state)
{
    struct bench *bench = *state;

    work(bench, "after the source came up", SPAN(60, 70), 1, 0);
    step(bench, SPAN(50, 100), 0);
    work(bench, "a", SPAN(110, 120), 1, 0);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 10 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 90 * US);
}

static void
a_device_that_runs_behind_is_not_idle_where_recording_begins_again(void **state)
{
    struct bench *bench = *state;
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);
    struct gpu_cell sum;

    /* Steps of 100 us, the device 150 us behind; two of four are recorded. What was
     * launched in the first two is never told. */
    step(bench, SPAN(0, 100), 0);
    step(bench, SPAN(100, 200), 0);
    for (int64_t n = 2; n < 5; n++) {
        int64_t t = n * 100;

        step(bench, SPAN(t, t + 100), EVENT_STEP_KERNELS);
        host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(t + 5, t + 10), (uint64_t)n);
        work(bench, "gemm", SPAN(t + 155, t + 255), 1, (uint64_t)n);
    }
    step(bench, SPAN(500, 600), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 600 * US);
    /* Of the third step nothing is known, of the fourth its second half. */
    assert_int_equal(gpu_idle_ns(sums(bench)), 0);
    assert_int_equal(gpu_busy_ns(sums(bench)), 245 * US);
    assert_int_equal(gpu_sum_steps(&bench->gpu, table, SPAN(0, 600), &sum), 2);
    assert_int_equal(sum.use_ns[GPU_COMPUTE], 200 * US);
    assert_int_equal(gpu_idle_ns(&sum), 0);
}

static void a_device_that_waits_for_its_first_launch_is_idle_until_then(void **state)
{
    struct bench *bench = *state;
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);
    struct gpu_cell sum;

    step(bench, SPAN(0, 100), 0);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(150, 155), 1);
    work(bench, "gemm", SPAN(157, 190), 1, 1);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(gpu_sum_steps(&bench->gpu, table, SPAN(0, 200), &sum), 1);
    assert_int_equal(gpu_idle_ns(&sum), 67 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_run_tells_in_how_many_of_its_steps_work_was_recorded),
        TEST(a_step_counts_in_the_sums_of_the_run_once_it_is_final),
        TEST(steps_without_their_kernels_are_none_of_the_device),
        TEST(time_in_which_kernels_were_not_recorded_is_neither_busy_nor_idle),
        TEST(a_gap_that_recording_cut_has_the_cause_of_each_of_its_ends),
        TEST(what_runs_through_time_that_was_not_recorded_counts_on_both_sides),
        TEST(what_came_before_the_first_recorded_step_is_not_known),
        TEST(a_device_that_runs_behind_is_not_idle_where_recording_begins_again),
        TEST(a_device_that_waits_for_its_first_launch_is_idle_until_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
