/* When steps are replayed, and when what they told is told again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "judge/replays.h"
#include "unit/hand.h"
#include "unit/kernel_step.h"

static struct replays *replays;

static int begin(void **state)
{
    (void)state;
    replays = replays_new();
    return replays == NULL ? -1 : hand_begin();
}

static int end(void **state)
{
    (void)state;
    replays_free(replays);
    store_free(store);
    return 0;
}

static void steps_with_a_kernel(uint64_t first, uint64_t count, int64_t data_ns)
{
    for (uint64_t i = first; i < first + count; i++)
        kernel_step(process, i, &now, data_ns);
}

static struct replay_table ask(struct window window, bool for_rules)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct bottlenecks_answer answer;
    struct replay_table table;

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    if (for_rules)
        replays_for_rules(replays, store, &whose, &answer);
    else
        replays_fill(replays, store, &whose, &answer);
    table = answer.replay;
    bottlenecks_free(&answer);
    return table;
}

static const struct window usual = {.kind = WINDOW_DEFAULT};

static void what_was_replayed_is_told_again_though_the_job_goes_on(void **state)
{
    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true);

    assert_int_equal(first.steps, REPLAY_STEPS_MAX);
    assert_true(first.step_ns == 10.0 * MS && first.compute_ns == 6.0 * MS);
    steps_with_a_kernel(20, 1, 4 * MS);
    assert_true(ask(usual, true).step_ns == first.step_ns);
    /* Another stretch has an entry of its own. */
    assert_true(ask((struct window){.kind = WINDOW_RUN}, true).step_ns > first.step_ns);
    assert_true(ask(usual, true).step_ns == first.step_ns);
}

static void the_usual_window_is_replayed_once_under_both_of_its_names(void **state)
{
    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true);

    steps_with_a_kernel(20, 20, 4 * MS);
    assert_true(ask((struct window){WINDOW_LAST_NS, 60 * S, 0}, true).step_ns ==
                first.step_ns);
    assert_true(ask((struct window){WINDOW_LAST_NS, 61 * S, 0}, true).step_ns !=
                first.step_ns);
}

static void without_a_device_rules_ask_for_no_replay(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        kernel_step_put(process, 0,
                        kernel_step_named(process, "aten::mm", EVENT_CPU_OP, 0),
                        (const int64_t[2]){now, now + MS}, 0);
        kernel_step_put(process, 0,
                        EVENT_META(0, EVENT_STEP, EVENT_STEP_OPS, 0xf),
                        (const int64_t[2]){now, now + 2 * MS}, i | UINT64_C(1) << 48);
        now += 2 * MS;
    }
    assert_int_equal(ask(usual, true).steps, 0);
    assert_int_equal(ask(usual, false).steps, REPLAY_STEPS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_was_replayed_is_told_again_though_the_job_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(
            the_usual_window_is_replayed_once_under_both_of_its_names, begin, end),
        cmocka_unit_test_setup_teardown(without_a_device_rules_ask_for_no_replay, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
