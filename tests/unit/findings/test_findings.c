/* What is found in a summary, at which price and which thresholds, and what is told of
 * a steady job: nothing. */
#include "unit/steady_summary.h"

static struct slow_step slow[3];

static void a_healthy_run_has_no_findings(void **state)
{
    (void)state;
    look();
    assert_int_equal(findings.count, 0);
    assert_true(findings.avoidable_ns == 0);
}

static void fewer_than_ten_steps_have_none(void **state)
{
    (void)state;
    set_phases(100 * MS, 50 * MS, 40 * MS, 10 * MS);
    summary.steps.train.count = 9;
    look();
    assert_int_equal(findings.count, 0);
    summary.steps.train.count = 10;
    look();
    assert_int_equal(findings.count, 1);
}

static void a_loader_without_workers_is_priced_by_what_workers_would_hide(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    /* 60 ms of loading by 4 workers hide behind 140 ms of computing: all of it but what
     * it takes to take a batch of two tensors over from a worker, which is a guess. */
    assert_true(fabs(finding->ns_per_step - 58.5 * MS) < 1);
    assert_true(finding->estimated);
    assert_int_equal(finding->severity, FINDING_HIGH);
    assert_string_equal(finding->colour, "data");
    assert_non_null(strstr(finding->formula, "60 ms"));
    assert_non_null(strstr(finding->advice[0], "num_workers=4"));
    assert_non_null(strstr(finding->sentence, "num_workers=0"));
    assert_int_equal(finding->first_step, 100);
    assert_true(fabs(findings.avoidable_ns - 58.5 * MS) < 1);
}

static void a_price_has_the_interval_of_the_means_that_it_reads(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 3 * MS;
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    assert_false(finding->estimated);
    assert_true(fabs(finding->low_ns - 57 * MS) < 1);
    assert_true(fabs(finding->high_ns - 63 * MS) < 1);
    /* Of few steps nothing is known; nobody invents an interval. */
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = (double)NAN;
    look();
    assert_true(isnan(find("data-loading")->low_ns));
    assert_true(isnan(find("data-loading")->high_ns));
}

static void what_taking_batches_over_will_cost_is_a_guess_with_an_interval(void **state)
{
    (void)state;
    set_phases(63 * MS, 50 * MS, 77 * MS, 10 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 3 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_DATALOADER_TENSORS, 5);
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    /* 0.5 ms for the batch and each of five tensors, from a quarter to twice as
     * much. */
    assert_true(fabs(finding->ns_per_step - 60 * MS) < 1);
    assert_true(fabs(finding->low_ns - (60 - 3 - 3) * MS) < 1);
    assert_true(fabs(finding->high_ns - (60 + 3 + 2.25) * MS) < 1);
    assert_non_null(strstr(finding->formula, "about 3 ms"));
    /* Pinning takes them over beside the training. */
    number(FACT_DEVICE_COUNT, 1);
    look();
    assert_true(fabs(find("data-loading")->ns_per_step - 63 * MS) < 1);
}

static void a_price_that_is_half_a_guess_says_so(void **state)
{
    (void)state;
    number(FACT_DATALOADER_WORKERS, 1);
    number(FACT_CPU_COUNT, 2);
    set_phases(40.375 * MS, 60 * MS, 80 * MS, 19.625 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 2 * MS;
    look();
    const struct finding *finding = find("data-loading");

    /* No core is left for more workers; 0.375 ms are what a ready batch costs. */
    assert_true(finding->estimated);
    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    assert_true(fabs(finding->low_ns - 9 * MS) < 1);
    assert_true(fabs(finding->high_ns - 31 * MS) < 1);
}

/* What it says of lost events hangs on these marks. */
static void a_rule_that_reads_what_may_be_lost_is_marked_so(void **state)
{
    static const char *const words[] = {"idle time of devices", "GPU time", "GPU work",
                                        "kernels", "ranges"};
    const struct finding_rule *rule;
    uint32_t marked = 0;

    (void)state;
    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++)
        for (uint32_t j = 0; j < sizeof(words) / sizeof(words[0]); j++)
            if (strstr(rule->reads, words[j]) != NULL) {
                marked++;
                assert_true(rule->sampled || rule->records);
            }
    assert_true(marked > 0);
}

static void a_relaxed_look_keeps_what_lies_little_below_its_threshold(void **state)
{
    (void)state;
    struct findings_settings settings = findings_configured();

    set_phases(5.1 * MS, 63 * MS, 120 * MS, 8 * MS);
    look();
    assert_string_equal(find("data-loading")->id, "none");
    settings.relaxed = true;
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "data-loading");
    set_phases(4.5 * MS, 63 * MS, 120 * MS, 8 * MS);
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "none");
}

static void more_workers_are_advised_only_where_cores_are_left(void **state)
{
    (void)state;
    set_phases(60.375 * MS, 50 * MS, 80 * MS,
               9.625 * MS); /* ready batches cost 0.375 ms */
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_CPU_COUNT, 16);
    look();
    /* 4 workers need 200 ms a batch: 800 ms of loading, 100 ms with 8. */
    assert_true(fabs(find("data-loading")->ns_per_step - 60 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=8"));
    facts[1].number = 4;
    summary.load.workers = 4;
    summary.load.worker_cpu_share = 0.9;
    look();
    assert_null(strstr(find("data-loading")->advice[0], "num_workers="));
    assert_true(fabs(find("data-loading")->ns_per_step - 30 * MS) < 1);
}

static void advice_of_workers_knows_the_machine_and_its_quota(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    /* A job in C says nothing of its cores: those of the machine. */
    summary.load.machine_cores = 2;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=1,"));
    summary.load.machine_cores = 64;
    number(FACT_CPU_COUNT, 64);
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4,"));
    summary.load.core_limit = 3.5;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=2,"));
    /* A loader that is not torch's. */
    facts[0].key = FACT_DATALOADER_SAMPLES;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=2`"));
}

static void unsteady_steps_name_the_worst_and_the_common_cause(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        slow[i] = (struct slow_step){.number = 120 + i,
                                     .duration_ns = (500 + 100 * i) * MS,
                                     .cause = i == 0 ? "unknown" : "data"};
    summary.steps.slow = slow;
    summary.steps.slow_count = 3;
    summary.steps.train.p50_ns = 170 * MS;
    look();
    const struct finding *finding = find("unsteady-steps");

    assert_true(fabs(finding->ns_per_step - 30 * MS) < 1);
    assert_int_equal(finding->worst_step, 122);
    assert_string_equal(finding->colour, "data");
    assert_non_null(strstr(finding->sentence, "in 2 of 3 it was data"));
}

static void claims_on_the_same_time_count_once(void **state)
{
    (void)state;
    slow[0] =
        (struct slow_step){.number = 120, .duration_ns = 900 * MS, .cause = "data"};
    summary.steps.slow = slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 170 * MS;
    set_phases(60 * MS, 50 * MS, 60 * MS, 30 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    text(FACT_OPTIMIZER_CLASS, "Adam");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    look();
    assert_int_equal(findings.count, 3);
    double sum = 0;

    for (uint32_t i = 0; i < findings.count; i++)
        sum += findings.list[i].ns_per_step;
    assert_true(fabs(sum - (58.5 + 30 + 24) * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - (58.5 + 24) * MS) < 1);
}

static void a_trace_of_one_step_has_findings_but_no_trends(void **state)
{
    (void)state;
    static struct memory_device grows = {
        .device = "cuda:0", .growth = {.slope_bytes_per_s = GIB, .sure = true}};

    summary.head.from_file = true;
    summary.steps.train.count = 1;
    summary.memory.devices = &grows;
    summary.memory.device_count = 1;
    set_phases(100 * MS, 50 * MS, 40 * MS, 10 * MS);
    look();
    assert_string_equal(find("data-loading")->id, "data-loading");
    assert_string_equal(find("memory-growth")->id, "none");
}

static void validation_has_a_price_and_is_no_part_of_a_step(void **state)
{
    (void)state;
    summary.steps.validation.count = 200;
    summary.steps.validation.mean_ns = 100 * MS;
    look();
    assert_true(fabs(find("validation-share")->ns_per_step - 50 * MS) < 1);
    assert_true(findings.avoidable_ns == 0);
}

static void a_validation_that_just_ended_is_priced_by_its_share_of_the_run(void **state)
{
    (void)state;
    double trained = summary.steps.train.mean_ns * (double)summary.steps.train.count;

    summary.steps.validation.count = 5000;
    summary.steps.validation.mean_ns = 5 * trained / 5000;
    summary.steps.run_train_ns = 100 * trained;
    summary.steps.run_validation_ns = 8 * trained;
    look();
    assert_string_equal(find("validation-share")->id, "none");
    summary.steps.run_validation_ns = 50 * trained;
    look();
    const struct finding *finding = find("validation-share");

    assert_true(fabs(finding->ns_per_step - summary.steps.train.mean_ns / 4) < 1);
    assert_non_null(strstr(finding->sentence, "33 % of the time of the whole run"));
}

static void thresholds_can_be_set_by_rule(void **state)
{
    (void)state;
    struct findings_settings settings;

    findings_settings_init(&settings);
    assert_true(findings_settings_set(&settings, "data-loading", 0.005));
    assert_false(findings_settings_set(&settings, "no-such-rule", 1));
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "data-loading");
}

/* Of a job of which nothing but its steps is known. */
static void with_thresholds_of_0_nothing_is_told_that_costs_nothing(void **state)
{
    (void)state;
    struct findings_settings settings;
    struct bottlenecks_answer bare = {
        .steps.train = {.count = 500, .mean_ns = 100 * MS, .p50_ns = 100 * MS}};

    findings_settings_init(&settings);
    for (uint32_t i = 0; findings_rule(i) != NULL; i++)
        assert_true(findings_settings_set(&settings, findings_rule(i)->id, 0));
    findings_free(&findings);
    findings_find(&bare, &settings, &findings);
    for (uint32_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];

        assert_null(strstr(finding->formula, "nan"));
        assert_null(strstr(finding->sentence, "nan"));
        assert_true(finding->ns_per_step > 0);
    }
}

static void
a_threshold_of_nothing_finds_no_watched_function_where_there_is_none(void **state)
{
    (void)state;
    struct findings_settings settings;

    findings_settings_init(&settings);
    assert_true(findings_settings_set(&settings, "watched-function", 0));
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_int_equal(findings.count, 0);
}

static void every_rule_says_what_it_reads_and_how_it_counts(void **state)
{
    (void)state;
    uint32_t count = 0;

    for (; findings_rule(count) != NULL; count++) {
        const struct finding_rule *rule = findings_rule(count);

        assert_true(strspn(rule->id, "abcdefghijklmnopqrstuvwxyz0123456789_-") ==
                    strlen(rule->id));
        assert_true(strlen(rule->reads) > 0 && strlen(rule->formula) > 0 &&
                    strlen(rule->unit) > 0);
        assert_true(rule->owner > 0);
    }
    assert_true(count >= 6 && count < RULES_MAX);
}

static void no_two_rules_have_one_id(void **state)
{
    (void)state;
    const struct finding_rule *one, *other;

    for (uint32_t i = 0; (one = findings_rule(i)) != NULL; i++)
        for (uint32_t j = i + 1; (other = findings_rule(j)) != NULL; j++)
            if (strcmp(one->id, other->id) == 0)
                fail_msg("two rules are called %s", one->id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_healthy_run_has_no_findings),
        TEST(no_two_rules_have_one_id),
        TEST(fewer_than_ten_steps_have_none),
        TEST(a_loader_without_workers_is_priced_by_what_workers_would_hide),
        TEST(a_price_has_the_interval_of_the_means_that_it_reads),
        TEST(what_taking_batches_over_will_cost_is_a_guess_with_an_interval),
        TEST(a_price_that_is_half_a_guess_says_so),
        TEST(a_rule_that_reads_what_may_be_lost_is_marked_so),
        TEST(a_relaxed_look_keeps_what_lies_little_below_its_threshold),
        TEST(more_workers_are_advised_only_where_cores_are_left),
        TEST(advice_of_workers_knows_the_machine_and_its_quota),
        TEST(unsteady_steps_name_the_worst_and_the_common_cause),
        TEST(claims_on_the_same_time_count_once),
        TEST(a_trace_of_one_step_has_findings_but_no_trends),
        TEST(validation_has_a_price_and_is_no_part_of_a_step),
        TEST(a_validation_that_just_ended_is_priced_by_its_share_of_the_run),
        TEST(thresholds_can_be_set_by_rule),
        TEST(with_thresholds_of_0_nothing_is_told_that_costs_nothing),
        TEST(a_threshold_of_nothing_finds_no_watched_function_where_there_is_none),
        TEST(every_rule_says_what_it_reads_and_how_it_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
