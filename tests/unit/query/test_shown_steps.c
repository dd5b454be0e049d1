/* The steps that findings show: which of them, and that what was forgotten is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/hand.h"
#include "query/bottlenecks_query.h"

static const uint64_t two_blocks =
    2 * (uint64_t)HISTORY_BLOCK_EVENTS * sizeof(struct event);

static int begin(void **state)
{
    (void)state;
    return hand_begin();
}

static int begin_small(void **state)
{
    (void)state;
    struct process_identity identity = {.pid = 7, .role = WIRE_ROLE_TRAINER};

    store = store_new(&(struct store_limits){.history_bytes = two_blocks});
    process = state_process(store, state_session(store, "hand"), &identity);
    now = 0;
    return process == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static void recorded_step(uint64_t number, uint32_t flags, int64_t data_ns,
                          int64_t forward_ns)
{
    int64_t start = now;

    now += data_ns + forward_ns;
    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA), start, data_ns, 0);
    fold(EVENT_META(0, EVENT_STEP, flags, 0xf), start, now - start,
         number | (uint64_t)1 << 48);
}

static struct shown_steps ask(struct window window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;

    assert_int_equal(bottlenecks_query(store, &whose, &request, &answer), 0);
    struct shown_steps shown = answer.shown;

    bottlenecks_free(&answer);
    return shown;
}

static const struct window run = {.kind = WINDOW_RUN};

static void the_longest_step_is_shown_and_the_longest_of_those_recorded(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        recorded_step(i, i % 2 == 0 ? EVENT_STEP_OPS : 0, i == 3 ? 9 * MS : MS,
                      i == 5   ? 40 * MS
                      : i == 8 ? 20 * MS
                               : 5 * MS);
    struct shown_steps shown = ask(run);

    assert_int_equal(shown.first, 0);
    assert_int_equal(shown.longest, 5);
    assert_int_equal(shown.recorded, 8);
    assert_int_equal(shown.waited, 3);
    shown = ask((struct window){.kind = WINDOW_STEPS, .a = 10, .b = 19});
    assert_int_equal(shown.first, 10);
    assert_int_equal(shown.longest, 10); /* the first of those that are as long */
    assert_int_equal(shown.recorded, 10);
}

static void
of_those_recorded_it_is_one_with_ops_and_kernels_where_there_is_one(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        recorded_step(i, EVENT_STEP_OPS | (i == 7 ? EVENT_STEP_KERNELS : 0), MS,
                      i == 5 ? 40 * MS : 5 * MS);
    assert_int_equal(ask(run).recorded, 7);
}

static void the_first_step_of_a_run_shows_nothing_but_itself(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        recorded_step(i, EVENT_STEP_OPS | (i == 0 ? EVENT_STEP_FIRST : 0), MS,
                      i == 0   ? 90 * MS
                      : i == 9 ? 7 * MS
                               : 5 * MS);
    struct shown_steps shown = ask(run);

    assert_int_equal(shown.first, 0); /* a rule may name it */
    assert_int_equal(shown.longest, 9);
    assert_int_equal(shown.recorded, 9);
    assert_int_equal(shown.waited, 1);
}

static void validation_and_deep_windows_are_never_shown(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        recorded_step(i,
                      i == 4   ? EVENT_STEP_OPS | EVENT_STEP_WINDOW
                      : i == 6 ? EVENT_STEP_OPS | EVENT_STEP_VALIDATION
                               : 0,
                      MS, i == 4 || i == 6 ? 40 * MS : 5 * MS);
    assert_int_equal(ask(run).recorded, NOT_KNOWN);
    assert_int_not_equal(ask(run).longest, 4);
    assert_int_not_equal(ask(run).longest, 6);
}

static void a_step_whose_events_are_forgotten_or_go_next_is_not_shown(void **state)
{
    (void)state;
    /* The longest come first; twice as many events as there is room for. */
    for (uint64_t i = 0; i < 2 * HISTORY_BLOCK_EVENTS; i++)
        recorded_step(i, EVENT_STEP_OPS, MS, (i < 10 ? 40 : 5) * MS);
    struct shown_steps shown = ask(run);

    assert_true(process->history->dropped_blocks > 0);
    int64_t oldest = process->blocks.oldest->from_ns;
    const struct step *first = steps_at(&process->steps, (uint32_t)shown.first);

    assert_true(shown.longest >= shown.first && shown.recorded >= shown.first);
    assert_true(first->start_ns >= oldest + (now - oldest) / 4);
    assert_true(shown.first < 2 * (int64_t)HISTORY_BLOCK_EVENTS - 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_longest_step_is_shown_and_the_longest_of_those_recorded, begin, end),
        cmocka_unit_test_setup_teardown(
            of_those_recorded_it_is_one_with_ops_and_kernels_where_there_is_one, begin,
            end),
        cmocka_unit_test_setup_teardown(
            the_first_step_of_a_run_shows_nothing_but_itself, begin, end),
        cmocka_unit_test_setup_teardown(validation_and_deep_windows_are_never_shown,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_step_whose_events_are_forgotten_or_go_next_is_not_shown, begin_small,
            end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
