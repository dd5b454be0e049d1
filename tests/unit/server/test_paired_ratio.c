#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "command/selftest/paired_ratio.h"

#define JOBS    100u
#define PAIRS   8u
#define WINDOWS 30u
#define PI      3.14159265358979323846

static struct paired_ratios ratios;
static struct paired_estimate estimate;
static uint64_t state = UINT64_C(88172645463325252);

static double draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(draw())) * cos(2 * PI * draw());
}

static int start(void **test)
{
    (void)test;
    memset(&ratios, 0, sizeof(ratios));
    return 0;
}

static void add(double bare, double watched)
{
    double ratio = log(watched / bare);

    paired_add(&ratios, (struct paired_ratio){ratio, ratio});
}

/* A job whose watched step is `pct` longer: processes that differ by a fifth of the noise
 * of a window, a machine that drifts under both, windows that are disturbed; and in the
 * mean a cost of `rare_pct` that few steps have. */
static void simulate(double pct, double rare_pct, double noise)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        double process = noise / 5 * normal();

        for (uint32_t j = 0; j < WINDOWS; j++) {
            double disturbed = draw() < 0.02 ? 1 : draw() < 0.02 ? -1 : 0;
            double typical = log1p(pct / 100) + process + noise * normal() + disturbed;

            paired_add(&ratios,
                       (struct paired_ratio){typical, typical + log1p(rare_pct / 100) +
                                                          noise / 2 * normal()});
        }
        assert_int_equal(paired_end_group(&ratios), WINDOWS);
    }
    assert_int_equal(paired_estimate(&ratios, &estimate), 0);
}

static void a_cost_of_five_per_cent_comes_out(void **test)
{
    (void)test;
    simulate(5, 0, 0.02);
    assert_true(fabs(estimate.pct - 5) < 1);
    assert_true(estimate.low_pct < 5 && estimate.high_pct > 5);
    assert_true(estimate.high_pct - estimate.low_pct < 2);
}

static void what_few_steps_cost_is_found(void **test)
{
    (void)test;
    simulate(0, 1.5, 0.02);
    assert_true(fabs(estimate.pct - 1.5) < 1);
    assert_true(estimate.low_pct > 0);
}

static void where_there_is_no_cost_none_is_found(void **test)
{
    (void)test;
    simulate(0, 0, 0.02);
    assert_true(estimate.low_pct < 0 && estimate.high_pct > 0);
}

static void the_interval_holds_the_truth_in_at_least_nine_of_ten_jobs(void **test)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < JOBS; i++) {
        start(test);
        simulate(1, 1, 0.1);
        held += estimate.low_pct <= 2.01 && 2.01 <= estimate.high_pct;
    }
    assert_in_range(held, JOBS * 9 / 10, JOBS);
}

static void one_pair_has_a_value_and_no_interval(void **test)
{
    (void)test;
    add(100, 104);
    assert_int_equal(paired_end_group(&ratios), 1);
    assert_int_equal(paired_estimate(&ratios, &estimate), 0);
    assert_true(fabs(estimate.pct - 4) < 1e-9);
    assert_true(isnan(estimate.low_pct) && isnan(estimate.high_pct));
}

static void windows_without_steps_and_pairs_without_windows_do_not_count(void **test)
{
    (void)test;
    add((double)NAN, 104);
    add(100, (double)NAN);
    add(0, 104);
    assert_int_equal(paired_end_group(&ratios), 0);
    assert_int_equal(ratios.group_count, 0);
    assert_int_equal(paired_estimate(&ratios, &estimate), 0);
    assert_true(isnan(estimate.pct));
}

static void what_has_no_room_is_left_out(void **test)
{
    (void)test;
    for (uint32_t i = 0; i < PAIRED_RATIOS_MAX + 10; i++)
        add(1, 2);
    assert_int_equal(paired_end_group(&ratios), PAIRED_RATIOS_MAX);
    assert_true(fabs(paired_group_pct(&ratios, 0) - 100) < 1e-9);
    start(test);
    for (uint32_t i = 0; i < PAIRED_GROUPS_MAX + 10; i++) {
        add(1, 2);
        (void)paired_end_group(&ratios);
    }
    assert_int_equal(ratios.group_count, PAIRED_GROUPS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_cost_of_five_per_cent_comes_out, start),
        cmocka_unit_test_setup(what_few_steps_cost_is_found, start),
        cmocka_unit_test_setup(where_there_is_no_cost_none_is_found, start),
        cmocka_unit_test_setup(
            the_interval_holds_the_truth_in_at_least_nine_of_ten_jobs, start),
        cmocka_unit_test_setup(one_pair_has_a_value_and_no_interval, start),
        cmocka_unit_test_setup(
            windows_without_steps_and_pairs_without_windows_do_not_count, start),
        cmocka_unit_test_setup(what_has_no_room_is_left_out, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
