/* The summary that rules read, of events folded by hand: all of it counts the same
 * steps. */
#include <math.h>
#include <stdio.h>

#include "query/bottlenecks_query.h"
#include "unit/tables.h"

static void
a_job_without_cpu_ops_counts_its_steps_with_kernels_as_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct bottlenecks_answer answer;

    for (int64_t n = 0; n < 20; n++)
        step((uint64_t)n, n % 4 == 0 ? EVENT_STEP_KERNELS : 0, n * MS, (n + 1) * MS);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 20);
    assert_int_equal(answer.head.recorded_steps, 5);
    bottlenecks_free(&answer);
}

static void
a_place_that_the_kernel_names_speaks_for_looks_of_which_it_names_none(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct process_place *places = process->between_ops.places[EVENT_PHASE_FORWARD];
    struct bottlenecks_answer answer;

    step(0, 0, 0, 10 * MS);
    places[0] = (struct process_place){.name = "", .count = 30};
    places[1] = (struct process_place){.name = "futex_do_wait", .count = 2};
    places[2] = (struct process_place){.name = "hrtimer_nanosleep", .count = 5};
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_string_equal(answer.between_ops.place[EVENT_PHASE_FORWARD],
                        "hrtimer_nanosleep");
    assert_string_equal(answer.between_ops.place[EVENT_PHASE_OPTIMIZER], "");
    bottlenecks_free(&answer);
}

static void a_summary_counts_everything_over_the_same_steps(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 100}};
    struct bottlenecks_answer answer;

    for (int64_t n = 0; n < 300; n++) {
        int64_t t = n * 10 * MS;

        phase(EVENT_PHASE_DATA, t, t + 4 * MS);
        op(0, "aten::mm", t + 4 * MS, t + 9 * MS);
        step((uint64_t)n, FULL, t, t + 10 * MS);
    }
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 100);
    assert_int_equal(answer.cpu.head.steps, 100);
    assert_int_equal(answer.cpu.head.recorded_steps, 100);
    assert_true(fabs(answer.dataloader_share - 0.4) < 1e-9);
    assert_true(fabs(answer.cpu.rows[0].share - 0.5) < 1e-9);
    bottlenecks_free(&answer);
}

static void rules_see_the_same_rows_however_few_are_asked_for(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct bottlenecks_answer one, all;

    for (int64_t n = 0; n < 20; n++) {
        for (int64_t i = 0; i < 120; i++) {
            char name[16];

            (void)snprintf(name, sizeof(name), "aten::op%03d", (int)i);
            op(0, name, n * 100 * MS + i * MS / 2,
               n * 100 * MS + i * MS / 2 + 400000 - i);
        }
        step((uint64_t)n, FULL, n * 100 * MS, n * 100 * MS + 90 * MS);
    }
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){.k = 1}, &one),
        0);
    assert_int_equal(bottlenecks_query(store, &whose,
                                       &(struct bottlenecks_request){.k = 1000}, &all),
                     0);
    assert_int_equal(one.cpu.row_count, 1);
    assert_int_equal(one.cpu.other_ops, 119);
    assert_int_equal(all.cpu.row_count, 120);
    assert_int_equal(one.cpu.judged_count, OPS_JUDGED);
    assert_int_equal(all.cpu.judged_count, OPS_JUDGED);
    for (uint32_t i = 0; i < OPS_JUDGED; i++) {
        assert_string_equal(one.cpu.rows[i].name, all.cpu.rows[i].name);
        assert_true(one.cpu.rows[i].p50_ns == all.cpu.rows[i].p50_ns);
        assert_non_null(one.cpu.rows[i].caller);
    }
    bottlenecks_free(&one);
    bottlenecks_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_without_cpu_ops_counts_its_steps_with_kernels_as_recorded),
        TEST(a_place_that_the_kernel_names_speaks_for_looks_of_which_it_names_none),
        TEST(a_summary_counts_everything_over_the_same_steps),
        TEST(rules_see_the_same_rows_however_few_are_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
