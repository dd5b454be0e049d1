/* Work of a device that is told long after its step has ended is that of its own step,
 * or of none. */
#include <math.h>

#include "query/gpu_query.h"
#include "unit/tables.h"

static void kernels_of_a_step_that_is_not_whole_are_in_no_sum(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* The source comes up in the middle of the first step; what it recorded there comes
     * in time and late. */
    for (int64_t n = 0; n < 4; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        fold(1, gemm, t + (n == 0 ? 8 : 1) * MS, MS);
        fold(1, gemm, t + 9 * MS, MS);
        step((uint64_t)n, n == 0 ? FULL : FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 1)
            fold(1, gemm, 7 * MS, MS);
    }
    work_begins_at(40 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 3);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 6);
    assert_true(fabs(find(&answer, "gemm")->per_step_count - 2) < 1e-9);
    assert_true(fabs(find(&answer, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&answer.head);
    answer = ask_ops(run);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 4);
    assert_true(fabs(find(&answer, "aten::mm")->per_step_ns - 1e6) < 1e-3);
    answer_free(&answer.head);
}

static void kernels_that_come_200_ms_late_are_those_of_their_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* One step of four is recorded; what ran in it and what ran elsewhere comes when
     * 20 more have ended. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS, then = t - 200 * MS;

        step((uint64_t)n, n % 4 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 10 * MS);
        if (then >= 0)
            fold(1, gemm, then + 5 * MS, MS);
        if (then >= 0 && n % 4 == 0)
            fold(1, gemm, then + 7 * MS, MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 20);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 2 * 20);
    answer_free(&answer.head);
}

static void steps_whose_kernels_have_not_come_yet_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 100}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;
    struct gpu_answer gpu;

    fold_late_kernels(401, "gemm");
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.steps, 100);
    assert_int_equal(ops.head.recorded_steps, 29);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 2 * 29);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 4e6) < 1e-3);
    assert_true(fabs(find(&ops, "gemm")->count - 200) < 1e-6);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.head.recorded_steps, 29);
    assert_true(fabs(gpu.devices[1].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    assert_true(fabs(gpu.devices[2].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    answer_free(&gpu.head);
}

static void work_that_outlives_the_open_steps_is_counted_as_late(void **state)
{
    (void)state;
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t reduce = EVENT_META(text("ncclAllReduce"), EVENT_KERNEL, 0, 0x100);

    for (int64_t n = 0; n < 10; n++) {
        int64_t t = n * 10 * MS;

        fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 2)
            fold(1, reduce, 5 * MS, 20 * MS); /* two steps back: they are open */
        assert_int_equal(process->device.ops.late_events, 0);
    }
    fold(1, reduce, 6 * MS, 88 * MS);
    assert_int_equal(process->device.ops.late_events, 1);
}

static void work_that_later_work_has_overtaken_is_that_of_its_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 10, .b = 14}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    /* Of steps 10 to 14 it comes in the middle of step 30. */
    for (int64_t n = 0; n < 60; n++) {
        int64_t t = n * 10 * MS;
        bool held = n >= 10 && n < 15;

        for (int64_t late = 10; n == 30 && late < 15; late++)
            fold(1, gemm, late * 10 * MS + MS, 2 * MS);
        if (!held)
            fold(1, gemm, t + MS, 2 * MS);
        know_works(n >= 10 && n < 30 ? 100 * MS : t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 5);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.head.recorded_steps, 5);
    assert_int_equal(gpu.uncounted, 0);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    answer_free(&gpu.head);
    assert_int_equal(process->device.late_events + process->device.ops.late_events, 0);
    whose.window = (struct window){.kind = WINDOW_STEPS, .a = 59, .b = 59};
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.row_count, 0);
    assert_non_null(strstr(ops.head.reason, "has not come yet"));
    answer_free(&ops.head);
}

static void steps_that_find_no_room_to_wait_are_none_with_kernels(void **state)
{
    (void)state;
    const int64_t all = DEVICE_OPS_WAITING + 100;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;

    /* Of the first nothing is told while all the others end; then what ran in all
     * comes. */
    know_works(0);
    for (int64_t n = 0; n < all; n++)
        step((uint64_t)n, EVENT_STEP_KERNELS, n * MS, (n + 1) * MS);
    for (int64_t n = 0; n < all; n++)
        fold(1, gemm, n * MS + MS / 4, MS / 2);
    know_works(all * MS);
    for (uint32_t i = 0; i < all; i++)
        assert_int_equal(has_kernels(i), i >= 100);
    assert_int_equal(process->steps.train->kernels, DEVICE_OPS_WAITING);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, DEVICE_OPS_WAITING);
    assert_int_equal(find(&ops, "gemm")->recorded_count, DEVICE_OPS_WAITING);
    answer_free(&ops.head);
    assert_true(process->loss_looks < 1000); /* of each only those that were closed */
}

static void steps_whose_work_waits_behind_too_much_are_none_with_kernels(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t mm = EVENT_META(text("mm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;

    /* What ran in the first step comes when 70,000 kernels of the next seven have
     * come. */
    know_works(0);
    for (int64_t n = 0; n < 9; n++)
        step((uint64_t)n, EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
    for (int64_t n = 1; n < 8; n++)
        for (int64_t i = 0; i < 10000; i++)
            fold(1, gemm, n * 10 * MS + i * 1000, 500);
    fold(1, mm, MS, 2 * MS);
    fold(1, mm, 81 * MS, 2 * MS);
    know_works(90 * MS);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(has_kernels(i), i >= 7);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 2);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 10000);
    assert_int_equal(find(&ops, "mm")->recorded_count, 1);
    answer_free(&ops.head);
}

/* 10,000 kernels a step, and one that they overtake; more than a device has room for
 * while nothing is told. */
static void
steps_that_were_settled_before_they_were_told_are_none_of_the_device(void **state)
{
    (void)state;
    const int64_t all = GPU_ITEMS / 10000 + 1, overtaken = all - 5;
    struct selection whose = {
        .rank = SELECT_ANY,
        .window = {.kind = WINDOW_STEPS, .a = overtaken, .b = overtaken}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t mm = EVENT_META(text("mm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    know_works(0);
    for (int64_t n = 0; n < all; n++) {
        step((uint64_t)n, EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
        for (int64_t i = 0; i < 10000; i++)
            fold(1, gemm, n * 10 * MS + i * 1000, 500);
    }
    fold(1, mm, overtaken * 10 * MS + MS, 2 * MS);
    know_works(all * 10 * MS);
    step((uint64_t)all, EVENT_STEP_KERNELS, all * 10 * MS, (all + 1) * 10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 1);
    assert_int_equal(find(&ops, "mm")->recorded_count, 1);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    answer_free(&gpu.head);
}

/* Steps of 5 ms, of which every fourth is recorded; CUPTI tells of its calls 150 ms
 * late. */
static void calls_that_are_told_late_are_those_of_their_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 40, .b = 79}};
    uint64_t launch = EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 0);
    struct ops_answer answer;

    know_works(0);
    for (int64_t n = 0; n < 200; n++) {
        int64_t t = n * 5 * MS, then = t - 150 * MS;

        op(0, "aten::mm", t, t + MS);
        step((uint64_t)n, n % 4 == 0 ? FULL | EVENT_STEP_KERNELS : 0, t, t + 5 * MS);
        for (int64_t i = 0; i < 3 && then >= 0 && n % 4 == 2; i++)
            fold(1, launch, then + i * MS, MS / 10); /* n - 30 was recorded */
        know_works(then > 0 ? then + 5 * MS : 0);
    }
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    assert_int_equal(answer.head.recorded_steps, 10);
    assert_int_equal(find(&answer, "cudaLaunchKernel")->recorded_count, 30);
    assert_true(fabs(find(&answer, "cudaLaunchKernel")->per_step_count - 3) < 1e-9);
    assert_int_equal(process->ops.late_events, 0);
    assert_true(process->ops.open_count < 40);
    answer_free(&answer.head);
}

static void
calls_of_a_job_without_torch_are_means_of_the_steps_with_their_work(void **state)
{
    (void)state;
    uint64_t launch = EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 0);
    struct ops_answer answer;

    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        for (int64_t i = 0; i < 3 && n % 2 == 0; i++)
            fold(1, launch, t + i * MS, MS / 10);
        step((uint64_t)n, n % 2 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 10 * MS);
    }
    answer = ask_ops(run);
    assert_int_equal(answer.head.recorded_steps, 10);
    assert_true(fabs(find(&answer, "cudaLaunchKernel")->per_step_count - 3) < 1e-9);
    answer_free(&answer.head);
}

/* A source that is far behind costs no more than one that is not: what it holds back is
 * not gone through at each step. */
static void work_that_is_held_back_for_long_costs_no_more_at_each_step(void **state)
{
    (void)state;
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);

    know_works(MS);
    for (int64_t n = 0; n < 3000; n++) {
        int64_t t = n * 10 * MS;

        for (int64_t i = 0; i < 100; i++)
            fold(1, gemm, t + i * MS / 20, MS / 50);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(process->gpu.settled_ns, MS);
    know_works(3000 * 10 * MS);
    step(3000, EVENT_STEP_KERNELS, 3000 * 10 * MS, 3001 * 10 * MS);
    assert_int_equal(process->gpu.settled_ns, 3000 * 10 * MS);
    assert_int_equal(process->gpu.tables[0]->works, 300000);
    assert_int_equal(process->gpu.tables[0]->late, 0);
}

static void what_ran_where_nothing_was_recorded_is_of_no_step_beside_it(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* The source came up in the first step, and all is told when the third has
     * ended. */
    phase(EVENT_PHASE_DATA, 0, MS);
    for (int64_t n = 0; n < 3; n++)
        step((uint64_t)n, n == 0 ? 0 : EVENT_STEP_KERNELS, n * 10 * MS,
             (n + 1) * 10 * MS);
    for (int64_t n = 0; n < 4; n++)
        fold(1, gemm, n * 10 * MS + 5 * MS, MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 2);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 2);
    answer_free(&answer.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_of_a_step_that_is_not_whole_are_in_no_sum),
        TEST(kernels_that_come_200_ms_late_are_those_of_their_own_step),
        TEST(steps_whose_kernels_have_not_come_yet_are_in_no_mean),
        TEST(work_that_outlives_the_open_steps_is_counted_as_late),
        TEST(work_that_later_work_has_overtaken_is_that_of_its_own_step),
        TEST(steps_that_find_no_room_to_wait_are_none_with_kernels),
        TEST(steps_whose_work_waits_behind_too_much_are_none_with_kernels),
        TEST(steps_that_were_settled_before_they_were_told_are_none_of_the_device),
        TEST(calls_that_are_told_late_are_those_of_their_own_step),
        TEST(calls_of_a_job_without_torch_are_means_of_the_steps_with_their_work),
        TEST(work_that_is_held_back_for_long_costs_no_more_at_each_step),
        TEST(what_ran_where_nothing_was_recorded_is_of_no_step_beside_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
