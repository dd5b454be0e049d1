#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingest/timeline.h"

#define S INT64_C(1000000000)

static void two_pairs_give_a_line(void **state)
{
    (void)state;
    struct timeline timeline = {.zero_ns = 100 * S};

    timeline_pair(&timeline, 26000000000u, 100 * S);
    timeline_pair(&timeline, 28600000000u, 101 * S);
    assert_int_equal(timeline_ns(&timeline, 26000000000u), 0);
    assert_int_equal(timeline_ns(&timeline, 27300000000u), S / 2);
    assert_int_equal(timeline_ns(&timeline, 24700000000u), -S / 2);
    assert_true(llabs(timeline_length_ns(&timeline, 2600) - 1000) <= 1);
}

static void a_stamp_keeps_its_time_when_later_pairs_bend_the_line(void **state)
{
    (void)state;
    struct timeline timeline = {0};
    int64_t before[1000];

    timeline_pair(&timeline, 1000, 1000);
    timeline_pair(&timeline, 1000 + S, 1000 + S);
    timeline_seen(&timeline, (uint64_t)(2 * S));
    for (uint64_t i = 0; i < 1000; i++)
        before[i] = timeline_ns(&timeline, i * 2000000);
    for (uint64_t k = 2; k < 60; k++)
        timeline_pair(&timeline, 1000 + k * (uint64_t)S,
                      1000 + (int64_t)k * (S + 20000));
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(timeline_ns(&timeline, i * 2000000), before[i]);
}

static void ranges_that_touch_in_ticks_touch_in_ns(void **state)
{
    struct timeline timeline = {.count = 0};
    uint64_t ticks = 26000000000u;

    (void)state;
    timeline_pair(&timeline, ticks, 100 * S);
    timeline_pair(&timeline, ticks + 2599999999u, 101 * S);
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t length = 1 + i * 7919 % 300001;
        int64_t start_ns = timeline_ns(&timeline, ticks);
        int64_t length_ns = timeline_range_ns(&timeline, ticks, start_ns, length);

        assert_int_equal(start_ns + length_ns, timeline_ns(&timeline, ticks + length));
        ticks += length;
        timeline_seen(&timeline, ticks);
        if (i % 1000 == 0)
            timeline_pair(&timeline, ticks,
                          100 * S + (int64_t)((double)(ticks - 26000000000u) / 2.6) +
                              99);
    }
}

static void time_never_runs_back_over_adjusted_clocks(void **state)
{
    (void)state;
    struct timeline timeline = {0};
    int64_t newest = INT64_MIN;

    timeline_pair(&timeline, 5, 5);
    for (uint64_t k = 1; k < 500; k++) {
        timeline_pair(&timeline, k * (uint64_t)S,
                      (int64_t)k * S + (k % 3 == 0 ? 300000 : -200000));
        for (uint64_t i = 0; i < 100; i++) {
            uint64_t ticks = k * (uint64_t)S + i * 9000000;
            int64_t ns = timeline_ns(&timeline, ticks);

            timeline_seen(&timeline, ticks);
            assert_true(ns > newest);
            newest = ns;
        }
        assert_true(llabs(newest - (int64_t)(k * (uint64_t)S + 891000000)) < 2000000);
    }
}

static void a_machine_that_slept_is_a_jump_and_no_slope(void **state)
{
    (void)state;
    struct timeline timeline = {0};

    timeline_pair(&timeline, 0, 0);
    timeline_pair(&timeline, (uint64_t)S, S);
    timeline_seen(&timeline, (uint64_t)S + 10);
    /* The counter went on for an hour in which the clock stood still. */
    timeline_pair(&timeline, 3601 * (uint64_t)S, 2 * S);
    assert_int_equal(timeline.jumps, 1);
    assert_int_equal(timeline_ns(&timeline, 3601 * (uint64_t)S), 2 * S);
    assert_true(llabs(timeline_ns(&timeline, 3602 * (uint64_t)S) - 3 * S) < 1000);
}

static void any_bits_stay_in_range(void **state)
{
    (void)state;
    struct timeline timeline = {.zero_ns = S};
    uint64_t bits = 0x9e3779b97f4a7c15u;

    for (uint32_t i = 0; i < 100000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        if (i % 10 == 0)
            timeline_pair(&timeline, bits, (int64_t)(bits >> (i % 64)));
        timeline_seen(&timeline, bits >> (i % 7));
        int64_t ns = timeline_ns(&timeline, bits ^ i);

        assert_true(ns < (int64_t)1 << 61 && ns > -((int64_t)1 << 61));
        assert_true(timeline_length_ns(&timeline, bits) <= (int64_t)1 << 47);
        assert_true(timeline_range_ns(&timeline, bits, timeline_ns(&timeline, bits),
                                      bits >> (i % 64)) <= (int64_t)1 << 47);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_pairs_give_a_line),
        cmocka_unit_test(a_stamp_keeps_its_time_when_later_pairs_bend_the_line),
        cmocka_unit_test(ranges_that_touch_in_ticks_touch_in_ns),
        cmocka_unit_test(time_never_runs_back_over_adjusted_clocks),
        cmocka_unit_test(a_machine_that_slept_is_a_jump_and_no_slope),
        cmocka_unit_test(any_bits_stay_in_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
