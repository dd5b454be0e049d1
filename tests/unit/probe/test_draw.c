#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "probe/budget/draw.h"

#define SEED   UINT64_C(0x5eed)
#define BLOCKS UINT64_C(100000)

static void a_lower_rate_records_a_subset_of_a_higher_one(void **state)
{
    (void)state;
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (unsigned rate = 1; rate <= DRAW_RATE_LAST; rate++)
            if (draw_arm(SEED, block, rate) == DRAW_RECORDED)
                assert_int_equal(draw_arm(SEED, block, rate - 1), DRAW_RECORDED);
}

static void in_a_control_block_nobody_records_at_any_rate(void **state)
{
    (void)state;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        enum draw_arm arm = draw_arm(SEED, block, 0);

        for (unsigned rate = 1; rate <= DRAW_RATE_NONE; rate++)
            assert_int_equal(draw_arm(SEED, block, rate) == DRAW_CONTROL,
                             arm == DRAW_CONTROL);
    }
}

static void ranks_with_the_same_environment_draw_the_same_steps(void **state)
{
    (void)state;
    char address[] = "10.0.0.7", port[] = "29500";
    const char *const rank0[] = {"10.0.0.7", "29500", "16", NULL};
    const char *const rank1[] = {address, port, "16", NULL};

    assert_int_equal(draw_seed(rank0, 4), draw_seed(rank1, 4));
}

static void another_job_draws_other_steps(void **state)
{
    (void)state;
    const char *const texts[][2] = {
        {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"abc", NULL}, {"", "abc"}};
    uint64_t same = 0;

    for (size_t i = 0; i < 5; i++)
        for (size_t j = i + 1; j < 5; j++)
            assert_true(draw_seed(texts[i], 2) != draw_seed(texts[j], 2));
    for (uint64_t block = 0; block < BLOCKS; block++)
        same += draw_arm(SEED, block, 4) == DRAW_RECORDED &&
                draw_arm(SEED + 1, block, 4) == DRAW_RECORDED;
    /* Independent: 1/16 of 1/16. */
    assert_true(fabs((double)same - (double)BLOCKS / 256) < 5 * sqrt(BLOCKS / 256.0));
}

static void the_shares_are_those_that_were_promised(void **state)
{
    (void)state;
    for (unsigned rate = 0; rate <= DRAW_RATE_NONE; rate++) {
        double recorded = 0, control = 0, recorded_due = 0, control_due = 0;

        for (uint64_t block = 0; block < BLOCKS; block++) {
            enum draw_arm arm = draw_arm(SEED, block, rate);

            recorded += arm == DRAW_RECORDED;
            control += arm == DRAW_CONTROL;
            recorded_due += draw_recorded_share(block, rate);
            control_due += draw_control_share(block);
        }
        assert_true(fabs(recorded - recorded_due) <= 4 * sqrt(recorded_due));
        assert_true(fabs(control - control_due) <= 4 * sqrt(control_due));
    }
}

static void control_starts_at_one_third_and_ends_at_one_in_fifty(void **state)
{
    (void)state;
    double before = 0.5;

    for (uint64_t block = 0; block < DRAW_FIRST_BLOCKS; block++) {
        assert_true(draw_control_share(block) <= 0);
        assert_int_equal(draw_arm(SEED, block, 0), DRAW_RECORDED);
    }
    for (uint64_t block = DRAW_FIRST_BLOCKS; block < BLOCKS; block++) {
        double share = draw_control_share(block);

        assert_true(share <= before && share >= 0.02);
        before = share;
    }
    assert_true(draw_control_share(DRAW_FIRST_BLOCKS) >= 0.3);
    assert_true(draw_control_share(BLOCKS) <= 0.02);
    assert_true(draw_control_share(UINT64_MAX / 3) <= 0.02);
}

static void the_draw_knows_no_period(void **state)
{
    (void)state;
    static const uint64_t periods[] = {2, 3, 4, 5, 7, 10, 16, 25, 50, 100};

    for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
        double counts[100] = {0}, chi_squared = 0, due = 0;

        for (uint64_t step = 0; step < 3 * BLOCKS; step++)
            if (draw_arm(SEED, step / DRAW_BLOCK_STEPS, 3) == DRAW_RECORDED) {
                counts[step % periods[i]]++;
                due += 1.0 / (double)periods[i];
            }
        for (uint64_t phase = 0; phase < periods[i]; phase++)
            chi_squared += (counts[phase] - due) * (counts[phase] - due) / due;
        /* Steps of a block go together, so the spread is up to 3 times chi-squared's:
         * mean 3 p, standard deviation 3 sqrt(2 p). */
        double phases = (double)periods[i];
        assert_true(chi_squared < 3 * (phases + 4 * sqrt(2 * phases)));
    }
}

static void a_block_shares_no_divisor_with_usual_periods(void **state)
{
    (void)state;
    static const unsigned periods[] = {2, 4, 5, 8, 10, 20, 25, 50, 100, 1000};

    for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++)
        for (unsigned divisor = 2; divisor <= DRAW_BLOCK_STEPS; divisor++)
            assert_true(DRAW_BLOCK_STEPS % divisor != 0 || periods[i] % divisor != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lower_rate_records_a_subset_of_a_higher_one),
        cmocka_unit_test(in_a_control_block_nobody_records_at_any_rate),
        cmocka_unit_test(ranks_with_the_same_environment_draw_the_same_steps),
        cmocka_unit_test(another_job_draws_other_steps),
        cmocka_unit_test(the_shares_are_those_that_were_promised),
        cmocka_unit_test(control_starts_at_one_third_and_ends_at_one_in_fifty),
        cmocka_unit_test(the_draw_knows_no_period),
        cmocka_unit_test(a_block_shares_no_divisor_with_usual_periods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
