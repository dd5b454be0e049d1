/* Which operators, ranges, calls and kernels took the time of a step, of events folded
 * by hand. */
#include <math.h>
#include <stdio.h>

#include "unit/tables.h"

static void range(const char *name, int64_t start, int64_t end_ns)
{
    fold(0, EVENT_META(text(name), EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0), start,
         end_ns - start);
}

/* Thread 2 has fetched them. */
static void a_call(const char *name, uint8_t kind, uint16_t thread, int64_t start,
                   int64_t end)
{
    fold(2, EVENT_META(text(name), kind, 0, thread + 1), start, end - start);
}

static void a_wait_takes_the_time_of_no_call_of_another_thread(void **state)
{
    (void)state;
    op(0, "of the trainer", 0, MS);
    op(1, "of another", 0, MS);
    a_call("cuLaunchKernel", EVENT_RUNTIME, 1, 2 * MS, 4 * MS);
    a_call("cudaLaunchKernel", EVENT_LAUNCH, 1, 2 * MS, 5 * MS);
    a_call("cudaStreamSynchronize", EVENT_SYNC, 0, 1 * MS, 9 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_true(find(&answer, "cudaStreamSynchronize")->self_ns == 8e6);
    assert_true(find(&answer, "cudaLaunchKernel")->self_ns == 1e6);
    answer_free(&answer.head);
}

static void a_range_takes_no_self_time_from_ops_and_gives_none(void **state)
{
    (void)state;
    op(0, "inner", 2 * MS, 4 * MS);
    range("mine", 1 * MS, 5 * MS);
    op(0, "outer", 0, 6 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_true(find(&answer, "outer")->self_ns == 4e6);
    assert_true(find(&answer, "mine")->self_ns == 0);
    assert_true(find(&answer, "mine")->total_ns == 4e6);
    assert_string_equal(find(&answer, "mine")->kind, "range");
    answer_free(&answer.head);
}

static void a_profiler_step_is_never_a_row_and_an_optimizer_is_a_range(void **state)
{
    (void)state;
    op(0, "aten::add", 1 * MS, 2 * MS);
    op(0, "Optimizer.step#SGD.step", 0, 3 * MS);
    op(0, "ProfilerStep#4", 0, 4 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.total_ops, 2);
    assert_string_equal(find(&answer, "Optimizer.step#SGD.step")->kind, "range");
    answer_free(&answer.head);
}

static void a_kernel_has_its_family_and_what_is_none_has_no_other(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer answer;

    op(0, "sgemm", 0, MS);
    fold(1, EVENT_META(text("volta_sgemm_64x64_nt"), EVENT_KERNEL, 0, 0x100), 0,
         2 * MS);
    fold(1, EVENT_META(text("flash_fwd_kernel"), EVENT_KERNEL, 0, 0x100), 2 * MS, MS);
    fold(1, EVENT_META(text("Memcpy sgemm"), EVENT_MEMCPY, 0, 0x100), 3 * MS, MS);
    step(0, FULL | EVENT_STEP_KERNELS, 0, 10 * MS);
    work_begins_at(10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(find(&answer, "volta_sgemm_64x64_nt")->family, KERNEL_FLOAT32);
    assert_int_equal(find(&answer, "flash_fwd_kernel")->family, KERNEL_OTHER);
    assert_int_equal(find(&answer, "Memcpy sgemm")->family, KERNEL_OTHER);
    assert_true(answer.family_ns[KERNEL_FLOAT32] == 2e6);
    assert_true(answer.family_ns[KERNEL_OTHER] == 1e6);
    answer_free(&answer.head);
    answer = ask_ops(run);
    assert_int_equal(find(&answer, "sgemm")->family, KERNEL_OTHER);
    answer_free(&answer.head);
}

static void sampled_ops_are_scaled_and_ranges_are_not(void **state)
{
    (void)state;
    /* One step in four recorded; the op takes 1 or 3 ms in turns. */
    for (int64_t n = 0; n < 400; n++) {
        int64_t t = n * 10 * MS;

        if (n % 4 == 0)
            op(0, "aten::mm", t + MS, t + (n % 8 == 0 ? 2 : 4) * MS);
        range("mine", t + 5 * MS, t + 6 * MS);
        step((uint64_t)n, n % 4 == 0 ? FULL : 0, t, t + 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_int_equal(answer.head.steps, 400);
    assert_int_equal(answer.head.recorded_steps, 100);
    assert_int_equal(mm->recorded_count, 100);
    assert_int_equal(mm->recorded_total_ns, 200 * MS);
    assert_true(fabs(mm->count - 400) < 1e-6);
    assert_true(fabs(mm->total_ns - 800e6) < 1);
    assert_true(fabs(mm->per_step_ns - 2e6) < 1e-3);
    assert_true(fabs(mm->share - 0.2) < 1e-9);
    /* 1.98 * 400 * sqrt(0.75) * sqrt(16 / 15) ms / 10 of 800 ms: blocks of 16. */
    assert_true(fabs(mm->error_pct - 8.86) < 0.1);
    assert_int_equal(find(&answer, "mine")->recorded_count, 400);
    assert_true(fabs(find(&answer, "mine")->total_ns - 400e6) < 1);
    assert_true(find(&answer, "mine")->error_pct == 0);
    answer_free(&answer.head);
}

/* `slow` steps of 100 ms are all recorded; of those of 10 ms behind them, `row` in a
 * row of `every`. The op takes half of each, so its share should be 0.5. */
static void assert_half(int64_t slow, int64_t row, int64_t every, double off)
{
    const int64_t count = slow + 40 * every;
    int64_t t = 0;

    end(NULL);
    assert_int_equal(begin(NULL), 0);
    for (int64_t n = 0; n < count; n++) {
        int64_t length = (n < slow ? 100 : 10) * MS;
        bool recorded = n < slow || (n - slow) % every >= every - row;

        if (recorded)
            op(0, "aten::mm", t, t + length / 2);
        step((uint64_t)(n < slow ? n : n + 100000), recorded ? FULL : 0, t, t + length);
        t += length;
    }
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_true(fabs(mm->count - (double)count) < 1e-6);
    assert_true(fabs(mm->share - 0.5) <= off);
    assert_true(fabs(mm->mean_ns - (double)t / 2 / (double)count) <= off * 2e7);
    assert_true(mm->error_pct < 1e-6);
    answer_free(&answer.head);
}

static void a_slow_beginning_that_was_recorded_whole_stands_for_itself(void **state)
{
    (void)state;
    assert_half(40, 1, 4, 1e-9);
    assert_half(36, 1, 50, 1e-9);
    assert_half(40, 3, 150, 1e-9);
    assert_half(8, 1, 2, 1e-9);
    assert_half(17, 1, 1, 1e-9);
}

static void a_kernel_has_its_short_name_and_is_found_by_both(void **state)
{
    (void)state;
    static const char mul[] = "void at::native::elementwise_kernel<128, 4, at::native::"
                              "gpu_kernel_impl<at::native::MulFunctor<float> > >(int)";
    static const char *const asked[] = {"mulfunctor (elem", "gpu_kernel_impl"};
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer answer;

    fold(1, EVENT_META(text(mul), EVENT_KERNEL, 0, 0x100), 0, 2 * MS);
    fold(1, EVENT_META(text("ampere_sgemm"), EVENT_KERNEL, 0, 0x100), 2 * MS, MS);
    fold(1, EVENT_META(text("Memcpy <x>::mulfunctor (elem"), EVENT_MEMCPY, 0, 0x100),
         3 * MS, MS);
    step(0, FULL | EVENT_STEP_KERNELS, 0, 10 * MS);
    work_begins_at(10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_string_equal(find(&answer, mul)->short_name, "MulFunctor (elementwise)");
    assert_null(find(&answer, "ampere_sgemm")->short_name);
    assert_null(find(&answer, "Memcpy <x>::mulfunctor (elem")->short_name);
    answer_free(&answer.head);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        request.query = asked[i];
        assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
        assert_int_equal(find(&answer, mul)->recorded_count, 1);
        assert_int_equal(answer.total_ops, i == 0 ? 2 : 1);
        answer_free(&answer.head);
    }
}

static void tagged_steps_stand_for_themselves_alone(void **state)
{
    (void)state;
    /* Ten drawn of 99 at 1 ms, and one tagged step with 50 ms. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 100 * MS;
        bool drawn = n % 10 == 0, tagged = n == 55;

        if (drawn || tagged)
            op(0, "aten::mm", t, t + (tagged ? 50 : 1) * MS);
        step((uint64_t)n,
             tagged  ? FULL | EVENT_STEP_TAGGED
             : drawn ? FULL
                     : 0,
             t, t + 100 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_true(fabs(find(&answer, "aten::mm")->total_ns - (50e6 + 99e6)) < 1);
    answer_free(&answer.head);
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 55, .b = 55});
    assert_true(fabs(find(&answer, "aten::mm")->total_ns - 50e6) < 1);
    assert_true(find(&answer, "aten::mm")->error_pct == 0);
    answer_free(&answer.head);
}

static void what_was_recorded_on_demand_alone_says_no_error_of_the_rest(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        step((uint64_t)n, n < 3 ? FULL | EVENT_STEP_TAGGED : 0, t, t + 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_true(fabs(find(&answer, "aten::mm")->count - 100) < 1e-9);
    assert_true(isnan(find(&answer, "aten::mm")->error_pct));
    answer_free(&answer.head);
    /* Of steps that were all recorded it is exact. */
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 0, .b = 2});
    assert_true(find(&answer, "aten::mm")->error_pct == 0);
    answer_free(&answer.head);
}

static void late_events_join_the_step_in_which_they_began(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 4; n++) {
        op(0, "main", n * 10 * MS, n * 10 * MS + MS);
        step((uint64_t)n, FULL, n * 10 * MS, (n + 1) * 10 * MS);
    }
    op(1, "late", 11 * MS, 19 * MS);
    struct ops_answer answer =
        ask_ops((struct window){.kind = WINDOW_STEPS, .a = 1, .b = 1});

    assert_int_equal(find(&answer, "late")->recorded_count, 1);
    assert_int_equal(find(&answer, "main")->recorded_count, 1);
    answer_free(&answer.head);
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 2, .b = 3});
    assert_int_equal(find(&answer, "late")->recorded_count, 0);
    answer_free(&answer.head);
}

static void ops_outside_of_steps_and_in_validation_are_no_part_of_a_step(void **state)
{
    (void)state;
    op(0, "init", 0, 5 * MS);
    op(0, "aten::collate", 11 * MS, 12 * MS);
    phase(EVENT_PHASE_DATA, 10 * MS, 12 * MS);
    op(0, "aten::mm", 12 * MS, 14 * MS);
    step(0, FULL, 10 * MS, 20 * MS);
    op(0, "aten::eval", 22 * MS, 24 * MS);
    step(0, FULL | EVENT_STEP_VALIDATION, 21 * MS, 25 * MS);
    op(0, "save", 26 * MS, 28 * MS);
    op(0, "aten::mm", 31 * MS, 33 * MS);
    step(1, FULL, 30 * MS, 40 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.total_ops, 2);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 2);
    assert_int_equal(find(&answer, "aten::collate")->recorded_count, 1);
    answer_free(&answer.head);
}

static void a_process_without_steps_shows_its_ops_by_its_span(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 20000; n++)
        op(0, "aten::mm", n * MS, n * MS + MS / 2);
    process_finish(process, PROCESS_ENDED, "");
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_int_equal(mm->recorded_count, 20000);
    assert_true(fabs(mm->share - 0.5) < 0.001);
    assert_true(isnan(mm->per_step_ns));
    answer_free(&answer.head);
}

static void a_step_with_losses_is_not_counted_as_recorded(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        if (n == 3)
            process_lose(process, 0, 17);
        op(0, "aten::mm", n * 10 * MS, n * 10 * MS + MS);
        step((uint64_t)n, FULL, n * 10 * MS, (n + 1) * 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.head.lost_events, 17);
    assert_int_equal(answer.head.recorded_steps, 9);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 9);
    assert_true(fabs(find(&answer, "aten::mm")->count - 10) < 1e-9);
    answer_free(&answer.head);
}

static void ten_thousand_names_are_top_k_and_other(void **state)
{
    (void)state;
    char name[32];
    double shown = 0, total = 0;

    phase(EVENT_PHASE_DATA, 0, 1);
    for (int64_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "op_%05d", (int)i);
        op(0, name, i * 2000, i * 2000 + 100 + i % 1000);
        total += (double)(100 + i % 1000);
    }
    step(0, FULL, 0, 20 * MS);
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.k = 25, .sort = OPS_BY_P95};
    struct ops_answer answer;

    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.total_ops, 10000);
    assert_int_equal(answer.row_count, 25);
    assert_int_equal(answer.other_ops, 9975);
    for (uint32_t i = 0; i < answer.row_count; i++) {
        shown += answer.rows[i].self_ns;
        assert_true(answer.rows[i].p95_ns >= 0.99 * 1083);
    }
    assert_true(fabs(shown + answer.other.self_ns - total) < 1);
    answer_free(&answer.head);
    request.query = "OP_00012";
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.total_ops, 1);
    assert_string_equal(answer.rows[0].name, "op_00012");
    answer_free(&answer.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wait_takes_the_time_of_no_call_of_another_thread),
        TEST(a_range_takes_no_self_time_from_ops_and_gives_none),
        TEST(a_profiler_step_is_never_a_row_and_an_optimizer_is_a_range),
        TEST(a_kernel_has_its_family_and_what_is_none_has_no_other),
        TEST(sampled_ops_are_scaled_and_ranges_are_not),
        TEST(a_slow_beginning_that_was_recorded_whole_stands_for_itself),
        TEST(a_kernel_has_its_short_name_and_is_found_by_both),
        TEST(tagged_steps_stand_for_themselves_alone),
        TEST(what_was_recorded_on_demand_alone_says_no_error_of_the_rest),
        TEST(late_events_join_the_step_in_which_they_began),
        TEST(ops_outside_of_steps_and_in_validation_are_no_part_of_a_step),
        TEST(a_process_without_steps_shows_its_ops_by_its_span),
        TEST(a_step_with_losses_is_not_counted_as_recorded),
        TEST(ten_thousand_names_are_top_k_and_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
