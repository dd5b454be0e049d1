/* Steps whose work on a device was lost, or was never told, are in no mean of the
 * device. */
#include <math.h>

#include "query/gpu_query.h"
#include "unit/tables.h"

static void steps_whose_kernels_were_lost_are_none_with_kernels(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss = {.time = 15 * MS,
                         .meta = EVENT_META(0, EVENT_LOSS, 0, 0),
                         .aux = WIRE_SOURCE_CUPTI};
    struct ops_answer ops;
    struct gpu_answer gpu;
    struct process_capability *source = &process->capabilities[WIRE_SOURCE_CUPTI];

    /* From the middle of the second step to that of the fourth nothing came. */
    for (int64_t n = 0; n < 8; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        if (n == 3) {
            source->state = WIRE_STATE_STOLEN;
            source->reason = text("another profiler has taken CUPTI");
            process_fold(process, 1, &loss, 1);
            assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu),
                             0);
            assert_string_equal(gpu.head.reason, "another profiler has taken CUPTI");
            answer_free(&gpu.head);
            source->state = WIRE_STATE_ACTIVE;
        }
        if (n == 0 || n > 3)
            fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    work_begins_at(80 * MS);
    step(8, FULL, 80 * MS, 90 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work, the last goes on behind what is
     * settled. */
    assert_int_equal(gpu.head.recorded_steps, 3);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    /* From 1 to 10 ms, and from 40 ms to the end of the last work that is settled. */
    assert_true(fabs(gpu.devices[0].span_ns - (9 + 33) * 1e6) < 1);
    answer_free(&gpu.head);
    ops = ask_ops(run);
    assert_int_equal(ops.head.recorded_steps, 9); /* of the host nothing was lost */
    answer_free(&ops.head);
}

/* The job ran on before anybody read of it, or was read of step by step. */
static void lost_work_has_an_end_whenever_it_is_told(int64_t told)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss[2] = {
        {15 * MS, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {38 * MS, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};
    struct ops_answer ops;
    struct gpu_answer gpu;

    for (int64_t n = 0; n < 8; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        if (n == told)
            process_fold(process, 1, loss, 2);
        if (n == 0 || n > 3)
            fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    work_begins_at(80 * MS);
    step(8, FULL, 80 * MS, 90 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work, the last goes on behind what is
     * settled. */
    assert_int_equal(gpu.head.recorded_steps, 3);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    assert_true(fabs(gpu.devices[0].span_ns - (9 + 33) * 1e6) < 1);
    answer_free(&gpu.head);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t flags = steps_at(&process->steps, i)->flags;

        assert_int_equal((flags & EVENT_STEP_KERNELS) != 0, i == 0 || i > 3);
    }
}

static void lost_work_is_of_every_step_until_its_end_and_of_none_behind(void **state)
{
    (void)state;
    lost_work_has_an_end_whenever_it_is_told(1); /* as the reader of a backlog */
}

static void lost_work_that_is_told_late_spares_the_step_that_runs(void **state)
{
    (void)state;
    lost_work_has_an_end_whenever_it_is_told(4);
}

static void lose_works(int64_t since_ns, int64_t until_ns)
{
    struct event loss[2] = {
        {(uint64_t)since_ns, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {(uint64_t)until_ns, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};

    process_fold(process, 1, loss, 2);
}

static void
a_longer_loss_that_is_told_later_takes_out_what_an_earlier_one_left(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 8; n++)
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
    lose_works(55 * MS, 58 * MS);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(has_kernels(i), i != 5);
    lose_works(25 * MS, 58 * MS);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(has_kernels(i), i < 2 || i > 5);
}

static void
losses_without_number_look_at_each_step_a_bounded_number_of_times(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, n * MS, (n + 1) * MS);
        for (int i = 0; i < 1000; i++)
            lose_works(100 * MS, 100 * MS + n * MS);
    }
    assert_in_range(process->loss_looks, 1000, 500000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_false(has_kernels(i)); /* the first ones too: none is claimed too much */
}

static void work_that_comes_long_after_it_was_told_lost_is_in_no_table(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss[2] = {
        {10 * MS, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {20 * MS, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};
    struct ops_answer answer;

    for (int64_t n = 0; n < 200; n++) {
        int64_t t = n * 10 * MS;

        if (n != 1)
            fold(1, gemm, t + MS, MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 10)
            process_fold(process, 1, loss, 2);
        know_works(n < 10 ? MS : t + 4 * MS);
    }
    fold(1, gemm, 11 * MS, 2 * MS);
    assert_int_equal(process->device.late_events, 1);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 198);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 198);
    answer_free(&answer.head);
}

/* Of 20 steps, each with one kernel, the source tells up to then; the kernels of the
 * last four have not come. */
static void works_come_until(int64_t until_ns)
{
    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        if (n < 16)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + MS, 2 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (t + 4 * MS <= until_ns)
            know_works(t + 4 * MS);
    }
    know_works(until_ns);
}

static void finish_after_telling(int64_t until_ns)
{
    works_come_until(until_ns);
    process->said_goodbye = true;
    process_finish(process, PROCESS_ENDED, "");
}

static void
steps_of_which_nothing_was_told_until_a_clean_end_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;
    struct gpu_answer gpu;

    finish_after_telling(164 * MS); /* the flush of step 16 hung */
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 16);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 16);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has_kernels(i), i < 16);
    assert_int_equal(process->steps.train->kernels, 16);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work. */
    assert_int_equal(gpu.head.recorded_steps, 15);
    answer_free(&gpu.head);
    whose.window = (struct window){.kind = WINDOW_STEPS, .a = 17, .b = 19};
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "was not told"));
    answer_free(&gpu.head);
}

static void steps_of_which_nothing_was_told_before_a_crash_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 17, .b = 19}};
    struct gpu_answer gpu;

    works_come_until(164 * MS);
    process_finish(process, PROCESS_CRASHED, "crashed at step 20");
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has_kernels(i), i < 16);
    assert_int_equal(process->steps.train->kernels, 16);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "was not told"));
    answer_free(&gpu.head);
}

static void steps_of_which_all_was_told_at_the_end_stay_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;

    finish_after_telling(200 * MS); /* nothing ran in the last four */
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 20);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 16);
    answer_free(&ops.head);
    assert_int_equal(process->steps.train->kernels, 20);
}

static void work_that_its_ring_lost_is_of_the_steps_since_all_was_known(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    for (int64_t n = 0; n < 40; n++) {
        int64_t t = n * 10 * MS;

        if (n < 15 || n >= 20)
            fold(1, gemm, t + MS, MS);
        if (n == 20)
            process_lose(process, 1, 5);
        if (n < 15 || n > 20)
            know_works(t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 39 - 8); /* 14 to 21 */
    assert_int_equal(find(&answer, "gemm")->recorded_count, 39 - 8);
    answer_free(&answer.head);
}

/* The steps are told by another ring, long before; and behind one buffer that is not
 * back others were written. */
static void
work_that_its_ring_lost_is_of_all_steps_until_the_source_tells_again(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    for (int64_t n = 0; n < 40; n++) {
        int64_t t = n * 10 * MS;

        if (n < 15 || n >= 30)
            fold(1, gemm, t + MS, MS);
        if (n == 20)
            process_lose(process, 1, 15);
        if (n < 15 || n > 35)
            know_works(t + 4 * MS);
        if (n == 25) /* the work of 15 is not back, that of 16 to 25 was lost */
            know_works_at(150 * MS, t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 29) /* that of 26 to 29 comes late */
            for (int64_t late = 26; late < 30; late++)
                fold(1, gemm, late * 10 * MS + MS, MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 39 - 12); /* 14 to 25 */
    assert_int_equal(find(&answer, "gemm")->recorded_count, 39 - 12);
    answer_free(&answer.head);
}

static void where_all_steps_have_lost_work_the_answers_say_so(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    process->capabilities[WIRE_SOURCE_CUPTI].state = WIRE_STATE_ACTIVE;
    for (int64_t n = 0; n < 10; n++) {
        int64_t t = n * 10 * MS;

        fold(1, gemm, t + MS, MS);
        know_works(t + 4 * MS);
        process_lose(process, 1, 15);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    process->capabilities[WIRE_SOURCE_CUPTI].lost = 150;
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.row_count, 0);
    assert_non_null(strstr(ops.head.reason, "some was lost"));
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "some was lost"));
    answer_free(&gpu.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_whose_kernels_were_lost_are_none_with_kernels),
        TEST(lost_work_is_of_every_step_until_its_end_and_of_none_behind),
        TEST(lost_work_that_is_told_late_spares_the_step_that_runs),
        TEST(a_longer_loss_that_is_told_later_takes_out_what_an_earlier_one_left),
        TEST(losses_without_number_look_at_each_step_a_bounded_number_of_times),
        TEST(work_that_comes_long_after_it_was_told_lost_is_in_no_table),
        TEST(steps_of_which_nothing_was_told_until_a_clean_end_are_in_no_mean),
        TEST(steps_of_which_nothing_was_told_before_a_crash_are_in_no_mean),
        TEST(steps_of_which_all_was_told_at_the_end_stay_recorded),
        TEST(work_that_its_ring_lost_is_of_the_steps_since_all_was_known),
        TEST(work_that_its_ring_lost_is_of_all_steps_until_the_source_tells_again),
        TEST(where_all_steps_have_lost_work_the_answers_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
