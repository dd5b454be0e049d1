/* Rules over cores, pages and code between steps, each on numbers made by hand. */
#include "unit/rule_summary.h"

static void waits_for_a_core_name_the_threads_that_are_too_many(void **state)
{
    (void)state;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    summary.load.delay_error = 0.02;
    number(FACT_CPU_COUNT, 4);
    number(FACT_THREADS_INTRA, 16);
    const struct finding *finding = find("cpu-wait");

    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    /* While one of them waits another works; or all wait for that one. */
    assert_true(fabs(finding->low_ns - 2 * MS) < 1);
    assert_true(fabs(finding->high_ns - 34 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "set_num_threads(4)"));
    /* A quota of two cores is less than four that are there. */
    summary.load.core_limit = 2;
    assert_non_null(strstr(find("cpu-wait")->advice[0], "set_num_threads(2)"));
}

static void
a_quota_that_is_no_whole_number_is_told_so_and_advised_as_whole_threads(void **state)
{
    (void)state;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    summary.load.core_limit = 1.5;
    number(FACT_CPU_COUNT, 8);
    number(FACT_THREADS_INTRA, 2);
    assert_string_equal(find("cpu-wait")->advice[0],
                        "`torch.set_num_threads(1)` or `OMP_NUM_THREADS=1`: one op has "
                        "2 threads on 1.5 cores");
    /* One thread is the least: no advice changes that. */
    summary.load.core_limit = 0.5;
    facts[1].number = 1;
    assert_null(strstr(find("cpu-wait")->advice[0], "set_num_threads"));
    assert_null(strstr(find("cpu-wait")->title, "threads"));
    number(FACT_DATALOADER_WORKERS, 2);
    assert_string_equal(find("cpu-wait")->advice[0],
                        "1 thread of an op and 2 loader workers share 0.5 cores: "
                        "fewer workers");
}

static void fresh_pages_cost_their_time_in_the_kernel(void **state)
{
    (void)state;
    summary.load.faults_per_s = summary.load.faults_least = 200000; /* 78 MiB a step */
    summary.load.system_share = 0.15;
    const struct finding *finding = find("memory-churn");

    assert_true(fabs(finding->ns_per_step - 15 * MS) < 1);
    assert_true(finding->low_ns < 8 * MS && finding->high_ns > 20 * MS);
    assert_non_null(strstr(finding->formula, "0.75 us in the kernel = 15"));
    /* Most of the pages stay: they are what the memory grows by. */
    summary.memory.host.growth.sure = true;
    summary.memory.host.growth.slope_bytes_per_s = 170000.0 * 4096;
    assert_string_equal(find("memory-churn")->id, "none");
    summary.memory.host.growth.slope_bytes_per_s = 100000.0 * 4096;
    assert_true(fabs(find("memory-churn")->ns_per_step - 7.5 * MS) < 1);
    summary.memory.host.growth.sure = false;
    /* Other time in the kernel is not theirs: 5 us a page at most. */
    summary.load.faults_per_s = summary.load.faults_least = 50000;
    summary.load.system_share = 0.9;
    assert_true(fabs(find("memory-churn")->ns_per_step - 25 * MS) < 1);
    /* What a second had that began before the window says nothing of it. */
    summary.load.faults_least = 5000;
    assert_string_equal(find("memory-churn")->id, "none");
    summary.load.faults_per_s = summary.load.faults_least = 2000;
    assert_string_equal(find("memory-churn")->id, "none");
}

static void pages_that_threads_make_beside_each_other_cost_the_time_of_one(void **state)
{
    (void)state;
    summary.load.made_per_s = 16 * 100000.0; /* of sixteen threads, each as many */
    summary.load.faults_per_s = summary.load.faults_least = 100000;
    summary.load.system_share = 0.09;
    const struct finding *finding = find("memory-churn");

    assert_true(fabs(finding->ns_per_step - 9 * MS) < 1);
    assert_non_null(strstr(finding->formula,
                           "10000 pages of the training thread * 0.9 us in the kernel "
                           "= 9 ms"));
    assert_non_null(strstr(finding->sentence, "625 MiB"));
    /* Memory grows by what all of them make: no page of theirs is given back. */
    summary.memory.host.growth.sure = true;
    summary.memory.host.growth.slope_bytes_per_s = 16 * 99000.0 * 4096;
    assert_string_equal(find("memory-churn")->id, "none");
}

static void pages_of_more_threads_than_cores_cost_what_each_core_makes(void **state)
{
    (void)state;
    summary.load.made_per_s = 16 * 10000.0;
    summary.load.faults_per_s = summary.load.faults_least = 10000;
    summary.load.system_share = 0.009;
    number(FACT_THREADS_INTRA, 16);
    number(FACT_CPU_COUNT, 16);
    assert_string_equal(find("memory-churn")->id, "none");
    facts[1].number = 2; /* eight of them take turns on each */
    assert_true(fabs(find("memory-churn")->ns_per_step - 7.2 * MS) < 1);
    assert_non_null(strstr(find("memory-churn")->formula,
                           "8000 pages for each core * 0.9 us in the kernel = 7.2 ms"));
    /* No more make them for one op than it has threads; others do other work. */
    facts[0].number = 4;
    assert_string_equal(find("memory-churn")->id, "none");
}

static void fresh_pages_never_cost_more_than_the_step(void **state)
{
    (void)state;
    summary.load.faults_per_s = summary.load.faults_least = 1000000;
    summary.load.system_share = 0.8;
    summary.load.delay_share = 0.4; /* samples of ticks do not add up to one */
    assert_true(find("memory-churn")->ns_per_step == 100 * MS);
    assert_true(find("memory-churn")->high_ns == 100 * MS);
}

static void time_in_no_phase_is_code_around_the_training(void **state)
{
    (void)state;
    static struct gpu_device device = {.device = "cuda:0"};

    summary.rhythm.median_other_ns = 12 * MS;
    assert_true(fabs(find("between-steps")->ns_per_step - 12 * MS) < 1);
    /* One of them any step has there, or a twentieth of a small one. */
    assert_true(fabs(find("between-steps")->low_ns - 11 * MS) < 1);
    assert_true(fabs(find("between-steps")->high_ns - 12 * MS) < 1);
    /* Beside a device the host waits there. */
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    assert_string_equal(find("between-steps")->id, "none");
}

static void
code_between_steps_costs_its_mean_without_what_has_a_cause_of_its_own(void **state)
{
    (void)state;
    summary.rhythm.median_other_ns = 12 * MS;
    summary.steps.train.other_ns = 20 * MS;
    summary.steps.train.other_error_ns = 2 * MS;
    assert_true(fabs(find("between-steps")->ns_per_step - 20 * MS) < 1);
    assert_true(find("between-steps")->error_ns == 2 * MS);
    summary.rhythm.period = extra(3 * MS, 10, EVENT_PHASES);
    summary.rhythm.gc = extra(4 * MS, 10, EVENT_PHASES);
    summary.steps.train.other_error_ns = 8 * MS;
    summary.rhythm.other_left_ns = 13 * MS;
    summary.rhythm.other_left_error_ns = 1 * MS;
    assert_true(fabs(find("between-steps")->ns_per_step - 13 * MS) < 1);
    assert_true(find("between-steps")->error_ns == 1 * MS);
    assert_true(fabs(findings.avoidable_ns - 20 * MS) < 1);
    assert_non_null(strstr(find("between-steps")->formula,
                           "20 ms in no phase of 100 ms - 7 ms that other findings"));
    /* A save that comes less often than the window shows: the mean of the others
     * tells. */
    summary.rhythm.other_left_ns = 12 * MS;
    assert_true(fabs(find("between-steps")->ns_per_step - 12 * MS) < 1);
    /* Nor is a mean that is so unsure more than what most steps have. */
    summary.rhythm.other_left_ns = (double)NAN;
    assert_true(fabs(find("between-steps")->ns_per_step - 12 * MS) < 1);
    /* What a few steps alone have there is none. */
    summary.rhythm.median_other_ns = 1 * MS;
    assert_string_equal(find("between-steps")->id, "none");
}

static void code_in_no_phase_is_said_to_lie_where_most_of_it_does(void **state)
{
    (void)state;
    summary.rhythm.median_other_ns = 12 * MS;
    assert_non_null(
        strstr(find("between-steps")->title, "the update and the next batch"));
    summary.rhythm.median_before_update_ns = 8 * MS;
    assert_non_null(
        strstr(find("between-steps")->title, "the backward and the update"));
    assert_non_null(strstr(find("between-steps")->sentence, "gradient clipping"));
    summary.rhythm.median_before_update_ns = 1 * MS;
    summary.rhythm.median_before_forward_ns = 8 * MS;
    assert_non_null(strstr(find("between-steps")->title, "the batch and the forward"));
    summary.rhythm.median_before_forward_ns = 0;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 0;
    assert_non_null(strstr(find("between-steps")->title, "the next forward pass"));
}

static void
collections_and_checkpoints_of_each_step_are_no_code_between_steps(void **state)
{
    (void)state;
    summary.rhythm.median_other_ns = summary.steps.train.other_ns = 20 * MS;
    summary.rhythm.gc = extra(17 * MS, 490, EVENT_PHASES);
    assert_string_equal(find("gc-pauses")->id, "gc-pauses");
    assert_string_equal(find("between-steps")->id, "none");
    /* What is left holds them too, as the usual step does. */
    summary.rhythm.median_other_ns = summary.rhythm.other_left_ns = 30 * MS;
    summary.steps.train.other_ns = 30 * MS;
    summary.rhythm.steps = 500;
    assert_true(fabs(find("between-steps")->ns_per_step - 13 * MS) < 1);
    summary.rhythm.other_left_ns = (double)NAN;
    summary.rhythm.median_other_ns = summary.steps.train.other_ns = 20 * MS;
    summary.rhythm.gc.ns_per_step = 0;
    assert_string_equal(find("between-steps")->id, "between-steps");
    summary.cpu.saving_ns = 17 * MS;
    summary.cpu.saving_count = 1;
    assert_non_null(strstr(find("checkpoints")->sentence, "one in each step"));
    assert_string_equal(find("between-steps")->id, "none");
    summary.cpu.saving_count = 0.02; /* the usual step has none */
    assert_non_null(strstr(find("checkpoints")->sentence, "one in 50 steps"));
    assert_true(fabs(find("between-steps")->ns_per_step - 20 * MS) < 1);
}

static void code_between_steps_under_lightning_is_called_its_own(void **state)
{
    (void)state;
    summary.rhythm.median_other_ns = 12 * MS;
    summary.steps.train.other_ns = 12 * MS;
    assert_null(strstr(find("between-steps")->sentence, "Lightning"));
    assert_non_null(strstr(find("between-steps")->advice[0], "step % 50 == 0"));
    text(FACT_FRAMEWORK, "lightning");
    assert_non_null(strstr(find("between-steps")->sentence, "Lightning's own loop"));
    assert_non_null(strstr(find("between-steps")->advice[0], "Larger batches"));
    assert_null(strstr(find("between-steps")->advice[0], "step % 50 == 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waits_for_a_core_name_the_threads_that_are_too_many),
        TEST(a_quota_that_is_no_whole_number_is_told_so_and_advised_as_whole_threads),
        TEST(fresh_pages_cost_their_time_in_the_kernel),
        TEST(pages_that_threads_make_beside_each_other_cost_the_time_of_one),
        TEST(pages_of_more_threads_than_cores_cost_what_each_core_makes),
        TEST(fresh_pages_never_cost_more_than_the_step),
        TEST(time_in_no_phase_is_code_around_the_training),
        TEST(code_between_steps_costs_its_mean_without_what_has_a_cause_of_its_own),
        TEST(code_in_no_phase_is_said_to_lie_where_most_of_it_does),
        TEST(collections_and_checkpoints_of_each_step_are_no_code_between_steps),
        TEST(code_between_steps_under_lightning_is_called_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
