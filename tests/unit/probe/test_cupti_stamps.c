/* CUPTI's stamps to ticks: one line an era, through changes of the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "probe/cupti/stamps.h"
#include "wire/clock.h"

#define GHZ      2.6
#define EPOCH_NS UINT64_C(1700000000000000000)
#define BOOT     UINT64_C(5000000000000) /* ticks at the first pair */

static struct stamps stamps;

static int open_stamps(void **state)
{
    (void)state;
    stamps_open(&stamps, true, GHZ);
    return 0;
}

static uint64_t ticks_at(double seconds)
{
    return BOOT + (uint64_t)(seconds * 1e9 * GHZ);
}

static uint64_t realtime_at(double seconds)
{
    return EPOCH_NS + (uint64_t)(seconds * 1e9);
}

static enum stamps_change add(enum stamps_clock clock, uint64_t stamp, double seconds)
{
    return stamps_add(&stamps, clock, (struct stamps_pair){stamp, ticks_at(seconds)});
}

static void assert_is(uint64_t stamp, double seconds, uint64_t tolerance)
{
    uint64_t ticks = 0, expected = ticks_at(seconds);

    assert_true(stamps_ticks(&stamps, stamp, &ticks));
    assert_in_range(ticks, expected - tolerance, expected + tolerance);
}

static void stamps_of_a_steady_clock_are_exact_to_a_microsecond(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) /* pairs wrap */
        assert_int_equal(add(STAMPS_REALTIME, realtime_at(0.1 * i), 0.1 * i),
                         STAMPS_SAME);
    assert_is(realtime_at(29.87), 29.87, 2600);
    assert_is(realtime_at(25.0), 25.0, 2600);
    assert_is(realtime_at(5.0), 5.0, 2600);     /* before all pairs that are left */
    assert_is(realtime_at(29.95), 29.95, 2600); /* behind the last one */
}

static void a_first_pair_alone_is_enough_for_what_is_near(void **state)
{
    (void)state;
    (void)add(STAMPS_REALTIME, realtime_at(1), 1);
    assert_is(realtime_at(0.99), 0.99, 2600);
}

static void a_step_of_the_clock_begins_an_era_and_keeps_the_one_before(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        (void)add(STAMPS_REALTIME, realtime_at(0.1 * i), 0.1 * i);
    for (int i = 10; i < 20; i++) /* NTP put it an hour forward */
        assert_int_equal(add(STAMPS_REALTIME, realtime_at(3600 + 0.1 * i), 0.1 * i),
                         i == 10 ? STAMPS_JUMPED : STAMPS_SAME);
    assert_is(realtime_at(0.55), 0.55, 2600);
    assert_is(realtime_at(3600 + 1.55), 1.55, 2600);
}

static void slewing_is_no_jump(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        double seconds = 0.1 * i, slewed = seconds > 5 ? 0.0005 * (seconds - 5) : 0;

        assert_int_equal(add(STAMPS_REALTIME, realtime_at(seconds + slewed), seconds),
                         STAMPS_SAME);
    }
}

static void another_clock_is_told_and_both_are_converted(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        (void)add(STAMPS_REALTIME, realtime_at(0.1 * i), 0.1 * i);
    assert_int_equal(add(STAMPS_TSC, ticks_at(1), 1), STAMPS_OTHER_CLOCK);
    assert_is(ticks_at(1.0001), 1.0001, 1); /* ticks are ticks */
    assert_is(realtime_at(0.5), 0.5, 2600);
    assert_int_equal(stamps_clock(&stamps), STAMPS_TSC);
}

static void a_stamp_of_no_era_is_refused(void **state)
{
    (void)state;
    uint64_t ticks;

    assert_false(stamps_ticks(&stamps, realtime_at(0), &ticks));
    (void)add(STAMPS_REALTIME, realtime_at(100), 100);
    (void)add(STAMPS_REALTIME, realtime_at(100.1), 100.1);
    assert_false(stamps_ticks(&stamps, 0, &ticks));
    assert_false(stamps_ticks(&stamps, UINT64_MAX, &ticks));
    assert_false(stamps_ticks(&stamps, realtime_at(10), &ticks));  /* long before */
    assert_false(stamps_ticks(&stamps, realtime_at(200), &ticks)); /* of the future */
}

static int monotonic(uint64_t *stamp)
{
    *stamp = clock_ns(CLOCK_MONOTONIC);
    return 0;
}

static int realtime(uint64_t *stamp)
{
    *stamp = clock_ns(CLOCK_REALTIME);
    return 0;
}

static int broken(uint64_t *stamp)
{
    *stamp = 0;
    return 0;
}

static void the_machines_clocks_are_recognised(void **state)
{
    (void)state;
    stamps_open(&stamps, false, 1);
    assert_int_equal(stamps_take(&stamps, broken), STAMPS_SAME);
    assert_int_equal(stamps_clock(&stamps), STAMPS_UNKNOWN);
    assert_int_equal(stamps_take(&stamps, realtime), STAMPS_SAME);
    assert_int_equal(stamps_clock(&stamps), STAMPS_REALTIME);
    assert_int_equal(stamps_take(&stamps, monotonic), STAMPS_OTHER_CLOCK);
    assert_int_equal(stamps_clock(&stamps), STAMPS_MONOTONIC);
}

static void a_clock_that_hardly_moves_gives_no_ticks_far_from_its_pairs(void **state)
{
    (void)state;
    uint64_t ticks;

    add(STAMPS_UNKNOWN, EPOCH_NS, 0);
    add(STAMPS_UNKNOWN, EPOCH_NS + 1, 2);
    assert_true(stamps_ticks(&stamps, EPOCH_NS + 1, &ticks));
    assert_int_equal(ticks, ticks_at(2));
    assert_false(stamps_ticks(&stamps, EPOCH_NS - UINT64_C(50000000000), &ticks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(stamps_of_a_steady_clock_are_exact_to_a_microsecond,
                               open_stamps),
        cmocka_unit_test_setup(a_first_pair_alone_is_enough_for_what_is_near,
                               open_stamps),
        cmocka_unit_test_setup(
            a_step_of_the_clock_begins_an_era_and_keeps_the_one_before, open_stamps),
        cmocka_unit_test_setup(slewing_is_no_jump, open_stamps),
        cmocka_unit_test_setup(another_clock_is_told_and_both_are_converted,
                               open_stamps),
        cmocka_unit_test_setup(a_stamp_of_no_era_is_refused, open_stamps),
        cmocka_unit_test_setup(
            a_clock_that_hardly_moves_gives_no_ticks_far_from_its_pairs, open_stamps),
        cmocka_unit_test_setup(the_machines_clocks_are_recognised, open_stamps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
