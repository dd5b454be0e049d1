/* Rules over the rhythm of steps, each on numbers made by hand: collections, first
 * steps, periods, trends. */
#include "unit/rule_summary.h"

static void steady_steps_on_a_free_machine_have_no_findings(void **state)
{
    (void)state;
    assert_string_equal(find("")->id, "none");
}

static void collections_cost_what_they_took(void **state)
{
    (void)state;
    summary.rhythm.gc = extra(8 * MS, 100, EVENT_PHASE_FORWARD);
    const struct finding *finding = find("gc-pauses");

    assert_true(fabs(finding->ns_per_step - 8 * MS) < 1);
    assert_int_equal(finding->worst_step, 77);
    assert_non_null(strstr(finding->advice[0], "gc.freeze()"));
    assert_string_equal(finding->colour, "forward");
}

static void slow_first_steps_are_told_from_the_mean(void **state)
{
    (void)state;
    summary.rhythm.warm_up = extra(20 * MS, 5, EVENT_PHASE_FORWARD);
    assert_true(fabs(find("warm-up")->ns_per_step - 20 * MS) < 1);
    assert_non_null(strstr(find("warm-up")->formula, "5 steps * 2 s"));
}

static void one_slow_step_begins_each_run_and_stays_in_the_mean_of_a_file(void **state)
{
    (void)state;
    summary.rhythm.warm_up = extra(20 * MS, 1, EVENT_PHASE_FORWARD);
    assert_string_equal(find("warm-up")->id, "none");
    summary.head.from_file = true;
    assert_string_equal(find("warm-up")->title,
                        "The first step is slow, and is still in the mean");
    assert_non_null(strstr(find("warm-up")->formula, "1 step * 10 s"));
    assert_non_null(strstr(find("warm-up")->advice[0], "schedule("));
    assert_int_equal(find("warm-up")->claim_count, 0); /* nothing is to be won */
}

static void late_first_batches_must_surely_cost_what_a_finding_must(void **state)
{
    (void)state;
    summary.rhythm.epoch = extra(5 * MS, 10, EVENT_PHASE_DATA);
    summary.rhythm.steps_per_epoch = 50;
    summary.rhythm.epoch.error_ns = 1 * MS;
    assert_string_equal(find("epoch-start")->id, "epoch-start");
    summary.rhythm.epoch.error_ns = 4 * MS; /* between 1 and 9 of 100 */
    assert_string_equal(find("epoch-start")->id, "none");
}

static void a_period_is_named_with_its_length_and_the_phase_that_grows(void **state)
{
    (void)state;
    summary.rhythm.period = extra(4 * MS, 10, EVENT_PHASES);
    summary.rhythm.period_steps = 50;
    const struct finding *finding = find("periodic-steps");

    assert_string_equal(finding->title,
                        "Every 50 steps one is slow, between its phases");
    assert_non_null(strstr(finding->advice[0], "step % 50 == 0"));
    assert_non_null(
        strstr(finding->advice[0], "between the update and the next batch"));
    assert_string_equal(finding->colour, "other");
    summary.rhythm.period.part = EVENT_PHASE_FORWARD;
    finding = find("periodic-steps");
    assert_string_equal(finding->title, "Every 50 steps one is slow, in forward");
    assert_non_null(strstr(finding->advice[0], "lies in forward"));
    assert_non_null(strstr(finding->advice[0], "step % 50 == 0"));
    /* Checkpoints are written in no forward pass. */
    for (uint32_t i = 0; i < finding->advice_count; i++)
        assert_null(strstr(finding->advice[i], "heckpoint"));
    summary.rhythm.period.part = EVENT_PHASE_DATA;
    assert_non_null(strstr(find("periodic-steps")->advice[0], "loader"));
}

static void a_period_in_steps_without_phases_claims_none(void **state)
{
    (void)state;
    summary.rhythm.period = extra(4 * MS, 10, EVENT_PHASES);
    summary.rhythm.period_steps = 50;
    summary.steps.train.other_ns = (double)NAN;
    const struct finding *finding = find("periodic-steps");

    assert_string_equal(finding->title, "Every 50 steps one is slow");
    assert_null(strstr(finding->advice[0], "phase"));
}

static void late_batches_at_the_loaders_length_are_its_epochs(void **state)
{
    (void)state;
    summary.rhythm.period = extra(15 * MS, 10, EVENT_PHASE_DATA);
    summary.rhythm.period_steps = 50;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 16 * MS;
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_DATALOADER_BATCHES, 50);
    assert_true(fabs(find("epoch-start")->ns_per_step - 15 * MS) < 1);
    assert_string_equal(find("periodic-steps")->id, "none");
    assert_string_equal(find("data-loading")->id, "none");
    /* Eight batches are what four workers have ready at once. */
    summary.rhythm.period_steps = 8;
    assert_string_equal(find("epoch-start")->id, "none");
    assert_string_equal(find("periodic-steps")->id, "none");
    assert_string_equal(find("data-loading")->id, "data-loading");
}

static void a_trend_is_found_but_not_beside_others_that_take_the_cores(void **state)
{
    (void)state;
    summary.rhythm.drift = extra(20 * MS, 500, EVENT_PHASE_FORWARD);
    summary.rhythm.first_ns = 80 * MS;
    summary.rhythm.last_ns = 120 * MS;
    assert_true(fabs(find("step-drift")->ns_per_step - 20 * MS) < 1);
    summary.rhythm.drift.error_ns = 16 * MS; /* it may cost less than it must */
    assert_string_equal(find("step-drift")->id, "none");
    summary.rhythm.drift.error_ns = 14 * MS;
    summary.load.delay_share = 0.08;
    assert_string_equal(find("step-drift")->id, "step-drift");
    summary.load.delay_share = 0.15; /* and as much for what others do to the caches */
    assert_string_equal(find("step-drift")->id, "none");
}

static void named_causes_are_no_unsteadiness(void **state)
{
    (void)state;
    struct slow_step slow = {.number = 1, .duration_ns = 900 * MS, .cause = "unknown"};

    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 80 * MS;
    summary.rhythm.rest = extra(20 * MS, 500, EVENT_PHASE_FORWARD);
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 20 * MS) < 1);
    summary.rhythm.rest.ns_per_step = 8 * MS;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 8 * MS) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steady_steps_on_a_free_machine_have_no_findings),
        TEST(collections_cost_what_they_took),
        TEST(slow_first_steps_are_told_from_the_mean),
        TEST(one_slow_step_begins_each_run_and_stays_in_the_mean_of_a_file),
        TEST(late_first_batches_must_surely_cost_what_a_finding_must),
        TEST(a_period_is_named_with_its_length_and_the_phase_that_grows),
        TEST(a_period_in_steps_without_phases_claims_none),
        TEST(late_batches_at_the_loaders_length_are_its_epochs),
        TEST(a_trend_is_found_but_not_beside_others_that_take_the_cores),
        TEST(named_causes_are_no_unsteadiness),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
