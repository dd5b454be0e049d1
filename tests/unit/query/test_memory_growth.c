/* What a job keeps from step to step, over a minute in which it began to: on a device, and
 * in pages of its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/memory_query.h"
#include "unit/hand.h"

#define MIB (INT64_C(1) << 20)

static uint64_t steps;

static int begin(void **state)
{
    (void)state;
    steps = 0;
    return hand_begin();
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

/* A step of 100 ms, and what is allocated on cuda:0 between it and the next. */
static void step(uint16_t flags, int64_t mebibytes)
{
    int64_t start = now;
    uint64_t bytes = (uint64_t)(mebibytes * MIB);

    now += 100 * MS;
    fold(EVENT_META(0, EVENT_STEP, flags, 0xf), start, 100 * MS,
         ++steps | UINT64_C(1) << 48);
    fold(EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)), now, (int64_t)bytes,
         bytes + 1000);
    fold(EVENT_META(0, EVENT_MORE, 0, 1), now - 5, (int64_t)bytes,
         2 | UINT64_C(1) << 32);
    fold(EVENT_META(0, EVENT_MORE, 0, 2), 20, 0, 0);
    process_fold_whole(process, 0);
}

/* answer_free() its head. */
static void ask(struct window window, struct memory_answer *answer)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};

    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, answer),
                     0);
}

static struct memory_growth growth_in(struct window window)
{
    struct memory_answer answer;

    ask(window, &answer);
    assert_int_equal(answer.device_count, 1);
    struct memory_growth of_device = answer.devices[0].growth;

    answer_free(&answer.head);
    return of_device;
}

/* Of the last minute. */
static struct memory_growth growth(void)
{
    return growth_in((struct window){.kind = WINDOW_LAST_NS, .a = 60 * S});
}

static void runs_for(int64_t seconds, uint16_t flags, int64_t mebibytes,
                     int64_t more_of_each_step)
{
    for (int64_t i = 0; i < 10 * seconds; i++)
        step(flags, mebibytes + i * more_of_each_step);
}

static bool is_near(double value, double truth)
{
    return value > 0.9 * truth && value < 1.1 * truth;
}

static void a_leak_that_begins_is_seen_within_seven_seconds(void **state)
{
    (void)state;
    runs_for(120, 0, 1000, 0);
    assert_false(growth().sure);
    runs_for(7, 0, 1000, 4);
    assert_true(growth().sure);
    assert_true(is_near(growth().slope_bytes_per_s, 40.0 * (double)MIB));
}

static void
a_leak_in_steps_that_are_over_may_have_begun_behind_their_first_third(void **state)
{
    (void)state;
    runs_for(22, 0, 1000, 0);
    runs_for(38, 0, 1000, 4);
    runs_for(60, 0, 2520, 0);
    assert_true(growth_in((struct window){WINDOW_STEPS, 1, 600}).sure);
}

/* Half of the window knows nothing of it: its slope over all of that is too small. */
static void its_slope_is_that_of_the_seconds_that_have_it(void **state)
{
    (void)state;
    runs_for(120, 0, 1000, 0);
    runs_for(30, 0, 1000, 4);
    assert_true(is_near(growth().slope_bytes_per_s, 40.0 * (double)MIB));
}

static void a_leak_of_which_only_some_steps_were_counted_has_its_own_slope(void **state)
{
    (void)state;
    /* 1 MiB a step; in every other one nothing is counted. */
    for (int64_t i = 0; i < 300; i++) {
        int64_t start = now, bytes = i * MIB;

        now += 100 * MS;
        fold(EVENT_META(0, EVENT_STEP, 0, 0xf), start, 100 * MS,
             ++steps | UINT64_C(1) << 48);
        fold(EVENT_META(0, EVENT_MEMORY, 0, 0), now, bytes, 0);
        fold(EVENT_META(0, EVENT_MORE, 0, 1), now - 5, bytes, 2 | UINT64_C(1) << 32);
        fold(EVENT_META(0, EVENT_MORE, EVENT_MEMORY_PARTIAL, 2), 20, 0, 0);
        process_fold_whole(process, 0);
        fold(EVENT_META(0, EVENT_STEP, 0, 0), now, 100 * MS,
             ++steps | UINT64_C(1) << 48);
        now += 100 * MS;
        process_fold_whole(process, 0);
    }
    assert_true(growth().sure);
    assert_true(fabs(growth().slope_bytes_per_s / (10.0 * MIB) - 1) < 0.05);
}

static void what_every_epoch_gathers_and_gives_back_is_no_leak(void **state)
{
    (void)state;
    runs_for(18, 0, 1000, 4);
    for (int epoch = 0; epoch < 4; epoch++)
        for (int second = 0; second < 18; second++) {
            runs_for(1, 0, 1000 + 40 * second, 4);
            if (epoch > 0)
                assert_false(growth().sure);
        }
}

static void what_a_validation_gathers_is_no_leak(void **state)
{
    (void)state;
    runs_for(120, 0, 1000, 0);
    for (int second = 0; second < 10; second++) {
        runs_for(1, EVENT_STEP_VALIDATION, 1000 + 40 * second, 4);
        assert_false(growth().sure);
    }
    runs_for(10, 0, 1000, 0);
    assert_false(growth().sure);
}

static void what_is_taken_at_once_and_kept_is_no_leak(void **state)
{
    (void)state;
    runs_for(120, 0, 1000, 0);
    for (int second = 0; second < 20; second++) {
        runs_for(1, 0, 1500, 0);
        assert_false(growth().sure);
    }
}

/* Seconds of a process that takes `mebibytes` more in each of them, of which `own` are no
 * file's: before its first step, or in steps of 100 ms. */
static void takes(int64_t seconds, bool trains, double mebibytes, double own)
{
    static double loads[PROCESS_LOADS];

    if (now == 0) {
        for (uint32_t load = 0; load < PROCESS_LOADS; load++)
            loads[load] = (double)NAN;
        loads[PROCESS_LOAD_RSS] = loads[PROCESS_LOAD_OWN] = 100.0 * (double)MIB;
    }
    for (int64_t second = 0; second < seconds; second++) {
        series_add(&process->rss, now, 0, loads, PROCESS_LOADS);
        loads[PROCESS_LOAD_RSS] += mebibytes * (double)MIB;
        loads[PROCESS_LOAD_OWN] += own * (double)MIB;
        if (trains)
            runs_for(1, 0, 1000, 0);
        else
            now += S;
    }
}

static struct memory_host host_in(struct window window)
{
    struct memory_answer answer;

    ask(window, &answer);
    struct memory_host host = answer.host;

    answer_free(&answer.head);
    return host;
}

static struct memory_growth growth_of_host(void)
{
    return host_in((struct window){.kind = WINDOW_LAST_NS, .a = 60 * S}).growth;
}

static void what_is_loaded_before_the_first_step_is_no_leak(void **state)
{
    (void)state;
    takes(30, false, 50, 50);
    takes(30, true, 0, 0);
    struct memory_host host = host_in((struct window){.kind = WINDOW_RUN});

    assert_int_equal(host.point_count, 60);
    assert_false(host.growth.sure);
}

/* They were given to it long ago. */
static void pages_that_a_young_process_touches_are_no_leak(void **state)
{
    (void)state;
    takes(30, false, 25, 25);
    for (int second = 0; second < 70; second++) {
        takes(1, true, 0.6, 0.6);
        assert_false(growth_of_host().sure);
    }
    for (int second = 0; second < 60; second++) {
        takes(1, true, 0, 0);
        assert_false(growth_of_host().sure);
    }
}

static void pages_that_a_process_takes_all_the_time_are_a_leak(void **state)
{
    (void)state;
    takes(30, false, 25, 25);
    takes(115, true, 0.6, 0.6);
    assert_true(growth_of_host().sure);
    assert_true(is_near(growth_of_host().slope_bytes_per_s, 0.6 * (double)MIB));
}

static void what_grows_from_step_to_step_has_its_own_slope(void **state)
{
    (void)state;
    takes(30, false, 50, 50);
    takes(30, true, 3, 3);
    assert_true(growth_of_host().sure);
    assert_true(fabs(growth_of_host().slope_bytes_per_s / (double)MIB - 3) < 0.2);
}

static void pages_of_files_that_are_read_are_no_leak(void **state)
{
    (void)state;
    takes(30, false, 50, 50);
    takes(30, true, 3, 0);
    assert_false(growth_of_host().sure);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_leak_that_begins_is_seen_within_seven_seconds),
        TEST(a_leak_in_steps_that_are_over_may_have_begun_behind_their_first_third),
        TEST(its_slope_is_that_of_the_seconds_that_have_it),
        TEST(a_leak_of_which_only_some_steps_were_counted_has_its_own_slope),
        TEST(what_every_epoch_gathers_and_gives_back_is_no_leak),
        TEST(what_a_validation_gathers_is_no_leak),
        TEST(what_is_taken_at_once_and_kept_is_no_leak),
        TEST(what_is_loaded_before_the_first_step_is_no_leak),
        TEST(pages_that_a_young_process_touches_are_no_leak),
        TEST(pages_that_a_process_takes_all_the_time_are_a_leak),
        TEST(what_grows_from_step_to_step_has_its_own_slope),
        TEST(pages_of_files_that_are_read_are_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
