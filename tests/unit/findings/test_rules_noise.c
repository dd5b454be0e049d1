/* What a machine that others use too does to steps is no finding of the job. */
#include "query/numbers.h"
#include "unit/rule_summary.h"
#include "unit/simulated_job.h"

static struct slow_step slow = {
    .number = 1, .duration_ns = 900 * MS, .cause = "unknown"};

static void put_steps(double *durations, uint32_t count)
{
    struct steps_summary *train = &summary.steps.train;
    struct numbers_series series = {0};
    double sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        numbers_series_add(&series, durations[i]);
        sum += durations[i];
    }
    train->count = count;
    train->mean_ns = sum / count;
    train->error_pct = 100 * numbers_series_error(&series, count) / train->mean_ns;
    numbers_sort(durations, count);
    train->p50_ns = numbers_quantile(durations, count, 0.5);
    summary.rhythm.steps = 0;
    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
}

/* Steps of 100 ms that only ever become longer: by some per cent, and one in `seldom` by
 * another step. */
static void scatter(struct job *job, uint32_t count, uint32_t seldom)
{
    static double durations[2000];

    for (uint32_t i = 0; i < count; i++) {
        durations[i] = 100 * MS * (1 + 0.03 * fabs(job_normal(job)));
        if (job_uniform(job) < 1.0 / seldom)
            durations[i] += 100 * MS * job_uniform(job);
    }
    put_steps(durations, count);
}

static bool is_unsteady(void)
{
    return strcmp(find("unsteady-steps")->id, "none") != 0;
}

static void a_few_late_steps_of_a_short_window_are_not_unsteadiness(void **state)
{
    struct job job = {.random = 1};
    uint32_t alarms = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        scatter(&job, 80, 20);
        alarms += is_unsteady();
    }
    assert_int_equal(alarms, 0);
}

static void steps_that_are_often_late_are_unsteady_once_enough_were_seen(void **state)
{
    struct job job = {.random = 2};

    (void)state;
    scatter(&job, 2000, 5);
    assert_true(is_unsteady());
    assert_true(find("unsteady-steps")->low_ns > 0.05 * summary.steps.train.mean_ns);
}

/* Mean 100 ms, median 80 ms. */
static void be_unsteady(void)
{
    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 80 * MS;
    summary.rhythm.rest = extra(20 * MS, 500, EVENT_PHASE_FORWARD);
}

static void memory_that_is_made_anew_now_and_then_is_no_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.load.samples = 5;
    summary.load.faults_per_s = 100000;
    summary.load.system_share = 0.08;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 12 * MS) < 1);
    assert_non_null(strstr(find("unsteady-steps")->formula, "8 ms of known causes"));
    summary.load.system_share = 0.16;
    assert_false(is_unsteady());
    summary.load.faults_per_s = 10000; /* that are 5 ms at most: the rest is another's */
    assert_true(is_unsteady());
}

static void the_wait_for_a_core_is_no_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.load.delay_most = 0.08;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 12 * MS) < 1);
    summary.load.delay_most = 0.16;
    assert_false(is_unsteady());
    summary.load.delay_most = (double)NAN; /* nobody knows */
    assert_true(is_unsteady());
}

static void the_wait_for_data_that_is_told_is_no_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.rhythm.rest = extra(20 * MS, 500, EVENT_PHASE_DATA);
    assert_true(is_unsteady()); /* a ms of data in each step is no finding */
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 25 * MS;
    assert_string_equal(find("data-loading")->id, "data-loading");
    assert_false(is_unsteady());
    /* Who wants to hear of less of them hears of unsteadiness. */
    struct findings_settings few = findings_configured();

    assert_true(findings_settings_set(&few, "data-loading", 0.5));
    findings_free(&findings);
    findings_find(&summary, &few, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.list[0].id, "unsteady-steps");
    summary.rhythm.rest.part = EVENT_PHASE_FORWARD; /* the others have another cause */
    summary.rhythm.rest.data_ns = 4 * MS;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 16 * MS) < 1);
}

/* One batch in twenty comes 160 ms late, which more workers do not make less. */
static void few_late_batches_that_no_finding_tells_are_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.rhythm.rest = extra(8 * MS, 25, EVENT_PHASE_DATA);
    summary.steps.train.p50_ns = 92 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 9 * MS;
    summary.steps.train.waited_ns = 6 * MS;
    summary.steps.train.waited_error_ns = 1 * MS;
    summary.steps.train.late_share = 0.05;
    summary.load.workers = 4;
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_DATALOADER_PREFETCH, 2);
    number(FACT_CPU_COUNT, 16);
    assert_string_equal(find("data-loading")->id, "none");
    assert_true(is_unsteady());
}

static void
long_steps_of_a_device_whose_batches_differ_are_told_without_a_price(void **state)
{
    (void)state;
    struct gpu_device device = {.device = "cuda:0", .name = "NVIDIA A100"};
    struct memory_device memory = {
        .device = "cuda:0", .peaks = 500, .other_peaks = 450, .peak_op = ""};

    be_unsteady();
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    const struct finding *finding = find("unsteady-steps");

    assert_true(finding->open);
    assert_true(finding->ns_per_step == 0);
    assert_int_equal(finding->severity, FINDING_LOW);
    assert_non_null(
        strstr(finding->sentence, "90 % of the steps need more or less memory"));
    assert_non_null(strstr(finding->advice[0], "alike in length"));
    assert_null(strstr(finding->advice[0], "group_by_length"));
    text(FACT_FRAMEWORK, "transformers");
    assert_non_null(strstr(find("unsteady-steps")->advice[0], "group_by_length=True"));
    summary.native = true; /* it has no Trainer */
    assert_null(strstr(find("unsteady-steps")->advice[0], "group_by_length"));
    summary.native = false;
    memory.other_peaks = 20; /* last batches of epochs */
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 20 * MS) < 1);
    memory.other_peaks = 450;
    slow.cause = "data"; /* no batch is waited for longer because it is larger */
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 20 * MS) < 1);
    slow.cause = "unknown";
}

static void stolen_time_is_no_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.load.stolen_share = 0.16;
    assert_false(is_unsteady());
    summary.load.stolen_share = 0.08;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 12 * MS) < 1);
}

static void
an_interval_that_reaches_below_the_threshold_is_no_unsteadiness(void **state)
{
    (void)state;
    be_unsteady();
    summary.steps.train.error_pct = 16;
    assert_false(is_unsteady());
    summary.steps.train.error_pct = 14;
    assert_true(is_unsteady());
    /* What stands needs no more than its price. */
    struct findings_settings relaxed = findings_configured();

    relaxed.relaxed = true;
    summary.steps.train.error_pct = 19;
    findings_free(&findings);
    findings_find(&summary, &relaxed, &findings);
    assert_int_equal(findings.count, 1);
    summary.rhythm.rest.ns_per_step = 3.9 * MS; /* and four fifths of the threshold */
    findings_free(&findings);
    findings_find(&summary, &relaxed, &findings);
    assert_int_equal(findings.count, 0);
}

/* One worker that has each batch ready in time, on steps of 6 ms. */
static void load_in_time(double waited)
{
    struct steps_summary *train = &summary.steps.train;

    train->mean_ns = train->p50_ns = 6 * MS;
    train->phase_ns[EVENT_PHASE_DATA] = waited;
    summary.rhythm.median_other_ns = 0.1 * MS;
    number(FACT_DATALOADER_WORKERS, 1);
    number(FACT_CPU_COUNT, 2);
    summary.load.workers = 1;
    summary.load.worker_cpu_share = 0.2;
}

static void batches_that_are_ready_are_no_finding(void **state)
{
    (void)state;
    load_in_time(0.4 * MS);
    assert_string_equal(find("data-loading")->id, "none");
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 2.375 * MS;
    assert_true(fabs(find("data-loading")->ns_per_step - 2 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->formula, "that no loader saves"));
}

static void
a_batch_that_costs_less_than_its_way_from_a_worker_is_no_finding(void **state)
{
    (void)state;
    struct steps_summary *train = &summary.steps.train;

    train->mean_ns = train->p50_ns = 3 * MS;
    train->phase_ns[EVENT_PHASE_DATA] = 0.3 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    assert_string_equal(find("data-loading")->id, "none");
    train->phase_ns[EVENT_PHASE_DATA] = 1.1 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    train->phase_ns[EVENT_PHASE_DATA] = 2 * MS;
    assert_true(fabs(find("data-loading")->ns_per_step - 0.5 * MS) < 1);
}

/* Four tensors of a batch are taken over in 4 ms of 6, and each was there. */
static void of_the_wait_for_workers_only_that_without_a_batch_is_won_back(void **state)
{
    struct steps_summary *train = &summary.steps.train;

    (void)state;
    load_in_time(4 * MS);
    summary.load.asleep_share = 0.4;
    train->waited_ns = 0.02 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    train->waited_ns = 1.5 * MS;
    assert_true(fabs(find("data-loading")->ns_per_step - 1.5 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->formula, "2.5 ms that no loader"));
    /* A job that only evaluates says of its loader nothing else. */
    summary.fact_count = 0;
    assert_true(fabs(find("data-loading")->ns_per_step - 1.5 * MS) < 1);
    train->waited_ns = 0;
    assert_string_equal(find("data-loading")->id, "none");
    train->waited_ns = 1.5 * MS;
    number(FACT_DATALOADER_WORKERS, 1);
    number(FACT_CPU_COUNT, 2);
    /* Sure enough, or not. */
    train->phase_error_ns[EVENT_PHASE_DATA] = 9 * MS;
    train->waited_error_ns = 1.4 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    train->waited_error_ns = 0.3 * MS;
    assert_true(fabs(find("data-loading")->low_ns - 1.2 * MS) < 1);
    /* The first batches of epochs are told of elsewhere. */
    summary.rhythm.epoch = extra(1.4 * MS, 20, EVENT_PHASE_DATA);
    assert_string_equal(find("data-loading")->id, "none");
}

static void what_the_trainer_unpacks_itself_no_worker_makes_less(void **state)
{
    (void)state;
    load_in_time(2.4 * MS);
    summary.load.asleep_share = 0.02; /* of 6 ms */
    assert_string_equal(find("data-loading")->id, "none");
    summary.load.asleep_share = 0.2;
    summary.load.worker_cpu_share = 0.9; /* no core for another: half of it is told */
    assert_true(fabs(find("data-loading")->ns_per_step - 0.6 * MS) < 1);
}

/* Each batch was there, and yet it took a long time to get at it. */
static void workers_that_do_not_answer_for_long_are_waited_for(void **state)
{
    struct steps_summary *train = &summary.steps.train;

    struct findings_settings stands = findings_configured();

    (void)state;
    stands.relaxed = true;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_CPU_COUNT, 2);
    summary.load.workers = 2;
    summary.load.worker_cpu_share = 0.95;
    train->waited_ns = 0.5 * MS;
    train->waited_error_ns = 0.1 * MS;
    train->phase_ns[EVENT_PHASE_DATA] = 9 * MS;
    train->taken_ns = 8.5 * MS;
    train->taken_error_ns = 1 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    train->phase_ns[EVENT_PHASE_DATA] = 60 * MS;
    train->taken_ns = 59.5 * MS;
    /* All but 3 ms of talk, and half of that. */
    assert_true(fabs(find("data-loading")->ns_per_step - 28.5 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->formula, "3 ms that no loader saves"));
    assert_non_null(strstr(find("data-loading")->sentence,
                           "for 56.5 ms of it a batch is there, but the workers, "
                           "whose Python computes, do not hand it over"));
    /* First batches of epochs are a finding of their own. */
    summary.rhythm.epoch.data_ns = 20 * MS;
    assert_true(fabs(find("data-loading")->ns_per_step - 18.5 * MS) < 1);
    /* The workers are blamed for no more than they surely do. */
    train->waited_ns = 20 * MS;
    train->taken_ns = 28 * MS;
    assert_true(fabs(find("data-loading")->ns_per_step - 12.5 * MS) < 1);
    assert_null(strstr(find("data-loading")->sentence, "hand it over"));
    train->waited_ns = 0.5 * MS;
    train->taken_ns = 59.5 * MS;
    summary.rhythm.epoch.data_ns = 0;
    summary.load.worker_cpu_share = 0.2; /* who holds a lock computes */
    assert_string_equal(find("data-loading")->id, "none");
    /* Beside steps of validation, in which they rest. */
    summary.load.worker_cpu_share = 0.45;
    summary.steps.validation.count = train->count;
    summary.steps.validation.mean_ns = train->mean_ns;
    assert_string_equal(find("data-loading")->id, "data-loading");
    summary.steps.validation.count = 0;
    summary.load.worker_cpu_share = 0.95;
    /* On either side of a bound what stands stays. */
    train->taken_ns = 8.8 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    assert_string_equal(find_as(&stands, "data-loading")->id, "data-loading");
    train->taken_ns = 59.5 * MS;
    number(FACT_DATALOADER_TENSORS, 96); /* each of which takes its time */
    assert_string_equal(find("data-loading")->id, "none");
    facts[summary.fact_count - 1].number = 0; /* nobody can count them */
    train->phase_ns[EVENT_PHASE_DATA] = 9 * MS;
    train->taken_ns = 8.5 * MS;
    assert_string_equal(find("data-loading")->id, "none");
}

static void one_second_that_waited_for_a_core_is_no_finding(void **state)
{
    (void)state;
    summary.load.samples = 2;
    summary.load.delay_share = 0.1;
    summary.load.delay_least = 0.02;
    assert_string_equal(find("cpu-wait")->id, "none");
    summary.load.delay_least = 0.06;
    assert_string_equal(find("cpu-wait")->id, "cpu-wait");
}

static void a_loader_that_others_keep_from_its_core_is_no_finding(void **state)
{
    (void)state;
    load_in_time(1.6 * MS);
    assert_string_equal(find("data-loading")->id, "data-loading");
    summary.load.worker_delay = 0.25;
    summary.load.others_share = 0.8;
    assert_string_equal(find("data-loading")->id, "none");
    /* Its own brothers and the trainer: these are too many. */
    summary.load.others_share = 0.05;
    assert_string_equal(find("data-loading")->id, "data-loading");
    /* A worker that nobody sees fares as the trainer does. */
    summary.load.worker_delay = (double)NAN;
    summary.load.others_share = 0.8;
    summary.load.delay_share = 0.25;
    assert_string_equal(find("data-loading")->id, "none");
}

static void a_few_late_batches_are_no_finding(void **state)
{
    (void)state;
    load_in_time(1.4 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 0.9 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 0.5 * MS;
    assert_string_equal(find("data-loading")->id, "data-loading");
}

static void
a_wait_of_which_less_than_the_threshold_can_be_won_is_no_finding(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 6 * MS;
    number(FACT_DATALOADER_WORKERS, 7);
    number(FACT_CPU_COUNT, 8);
    assert_string_equal(find("data-loading")->id, "none"); /* all cores load: a half */
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 12 * MS;
    assert_string_equal(find("data-loading")->id, "data-loading");
}

static void noise_does_not_end_a_wait_that_stands(void **state)
{
    struct findings_settings settings = findings_configured();

    (void)state;
    load_in_time(1.4 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 2 * MS;
    assert_string_equal(find("data-loading")->id, "none");
    settings.by_price = true;
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(findings.list[0].id, "data-loading");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_few_late_steps_of_a_short_window_are_not_unsteadiness),
        TEST(steps_that_are_often_late_are_unsteady_once_enough_were_seen),
        TEST(memory_that_is_made_anew_now_and_then_is_no_unsteadiness),
        TEST(the_wait_for_a_core_is_no_unsteadiness),
        TEST(the_wait_for_data_that_is_told_is_no_unsteadiness),
        TEST(few_late_batches_that_no_finding_tells_are_unsteadiness),
        TEST(long_steps_of_a_device_whose_batches_differ_are_told_without_a_price),
        TEST(stolen_time_is_no_unsteadiness),
        TEST(an_interval_that_reaches_below_the_threshold_is_no_unsteadiness),
        TEST(batches_that_are_ready_are_no_finding),
        TEST(a_batch_that_costs_less_than_its_way_from_a_worker_is_no_finding),
        TEST(of_the_wait_for_workers_only_that_without_a_batch_is_won_back),
        TEST(what_the_trainer_unpacks_itself_no_worker_makes_less),
        TEST(workers_that_do_not_answer_for_long_are_waited_for),
        TEST(one_second_that_waited_for_a_core_is_no_finding),
        TEST(a_loader_that_others_keep_from_its_core_is_no_finding),
        TEST(a_few_late_batches_are_no_finding),
        TEST(noise_does_not_end_a_wait_that_stands),
        TEST(a_wait_of_which_less_than_the_threshold_can_be_won_is_no_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
