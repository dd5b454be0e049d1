#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/numbers.h"

#define JOBS 4000
#define PI   3.14159265358979323846

static uint64_t state = 88172645463325252u;

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

/* A job's steps: a mean that is known, a spread, how much neighbours are alike, how many
 * steps in a hundred take five times as long. */
struct job {
    uint32_t steps;
    double spread, alike, slow;
};

/* Share of jobs whose interval holds the true mean. */
static double coverage(const struct job *job)
{
    double truth = 100 * (1 + 4 * job->slow), carried;
    uint32_t held = 0;

    for (uint32_t i = 0; i < JOBS; i++) {
        struct numbers_series series = {0};
        double mean = 0;

        carried = normal();
        for (uint32_t j = 0; j < job->steps; j++) {
            double fresh = sqrt(1 - job->alike * job->alike) * normal();
            double factor = draw() < job->slow ? 5 : 1;

            carried = job->alike * carried + fresh;
            double step = 100 * factor + job->spread * carried;

            numbers_series_add(&series, step);
            mean += step / job->steps;
        }
        held += fabs(mean - truth) <= numbers_series_error(&series, series.count);
    }
    return (double)held / JOBS;
}

static void the_interval_of_steady_steps_holds_their_mean_in_95_of_100_jobs(void **test)
{
    (void)test;
    for (uint32_t steps = 10; steps <= 1000; steps *= 10) {
        double share = coverage(&(struct job){.steps = steps, .spread = 10});

        assert_true(share > 0.94 && share < 0.98);
    }
}

static void steps_like_their_neighbours_have_a_wider_interval(void **test)
{
    (void)test;
    /* 200 steps as independent ones would hold the mean in 82 and 48 of 100 jobs. */
    assert_true(coverage(&(struct job){200, 10, 0.3, 0}) > 0.92);
    assert_true(coverage(&(struct job){200, 10, 0.8, 0}) > 0.90);
}

static void a_few_slow_steps_are_part_of_the_interval(void **test)
{
    (void)test;
    assert_true(coverage(&(struct job){200, 5, 0, 0.05}) > 0.90);
    assert_true(coverage(&(struct job){1000, 5, 0, 0.02}) > 0.90);
}

static void one_value_has_no_interval_and_equal_ones_have_none_to_speak_of(void **test)
{
    struct numbers_series series = {0};

    (void)test;
    numbers_series_add(&series, 4e9);
    assert_true(isnan(numbers_series_error(&series, 1)));
    for (uint32_t i = 0; i < 100; i++)
        numbers_series_add(&series, 4e9);
    assert_true(numbers_series_error(&series, series.count) <= 0);
}

static void large_values_lose_no_digits(void **test)
{
    struct numbers_series small = {0}, large = {0};

    (void)test;
    for (uint32_t i = 0; i < 50; i++) {
        numbers_series_add(&small, i % 7);
        numbers_series_add(&large, 1e15 + i % 7);
    }
    assert_true(fabs(numbers_series_error(&small, 50) -
                     numbers_series_error(&large, 50)) < 1e-9);
}

static void an_interval_of_more_steps_than_are_remembered_is_narrower(void **test)
{
    struct numbers_series series = {0};

    (void)test;
    for (uint32_t i = 0; i < 100; i++)
        numbers_series_add(&series, i * 37 % 11);
    assert_true(numbers_series_error(&series, 400) <
                numbers_series_error(&series, 100) * 0.51);
}

static void numbers_up_to_a_value_are_found_in_any_list(void **test)
{
    const struct {
        int64_t ns;
        char other[9];
    } list[] = {{.ns = -5}, {.ns = 3}, {.ns = 3}, {.ns = 8}};

    (void)test;
    assert_int_equal(numbers_upto(&list[0].ns, sizeof(list[0]), 0, 3), 0);
    assert_int_equal(numbers_upto(&list[0].ns, sizeof(list[0]), 4, INT64_MIN), 0);
    assert_int_equal(numbers_upto(&list[0].ns, sizeof(list[0]), 4, 2), 1);
    assert_int_equal(numbers_upto(&list[0].ns, sizeof(list[0]), 4, 3), 3);
    assert_int_equal(numbers_upto(&list[0].ns, sizeof(list[0]), 4, INT64_MAX), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_interval_of_steady_steps_holds_their_mean_in_95_of_100_jobs),
        cmocka_unit_test(steps_like_their_neighbours_have_a_wider_interval),
        cmocka_unit_test(a_few_slow_steps_are_part_of_the_interval),
        cmocka_unit_test(
            one_value_has_no_interval_and_equal_ones_have_none_to_speak_of),
        cmocka_unit_test(large_values_lose_no_digits),
        cmocka_unit_test(numbers_up_to_a_value_are_found_in_any_list),
        cmocka_unit_test(an_interval_of_more_steps_than_are_remembered_is_narrower),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
