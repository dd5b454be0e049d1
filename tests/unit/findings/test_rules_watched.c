/* Rules over functions that a job watches, each on numbers made by hand. */
#include "unit/rule_summary.h"

static void watch(double ns_per_step, uint32_t workers)
{
    summary.cpu.watched[summary.cpu.watched_count++] = (struct op_row){
        .name = workers > 0 ? "polygons" : "augment",
        .kind = "range",
        .per_step_ns = ns_per_step,
        .per_step_count = 2,
        .mean_ns = ns_per_step / 2,
        .workers = workers,
        .watched = true,
        .validation_share = (double)NAN,
    };
}

static void
a_watched_function_costs_what_its_workers_make_the_training_wait(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 20 * MS;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_CPU_COUNT, 8);
    watch(30 * MS, 2);
    const struct finding *finding = find("watched-function");

    assert_non_null(strstr(finding->title, "`polygons`"));
    assert_true(fabs(finding->ns_per_step - 15 * MS) < 1);
    summary.cpu.watched[0].per_step_ns = 90 * MS; /* more than is waited for it */
    assert_true(fabs(find("watched-function")->ns_per_step - 19.625 * MS) < 1);
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 1 * MS; /* nobody waits */
    assert_string_equal(find("watched-function")->id, "none");
}

static void a_watched_function_of_the_trainer_costs_its_time(void **state)
{
    (void)state;
    watch(8 * MS, 0);
    const struct finding *finding = find("watched-function");

    assert_non_null(
        strstr(finding->sentence, "`augment` takes 8 ms of each step, 4 ms"));
    assert_true(fabs(finding->ns_per_step - 8 * MS) < 1);
    summary.cpu.watched[0].per_step_ns = 1 * MS; /* a hundredth of the step */
    assert_string_equal(find("watched-function")->id, "none");
}

static void
a_watched_function_of_the_trainer_takes_nothing_from_data_loading(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 30 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_FORWARD] = 11 * MS;
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_CPU_COUNT, 16);
    double loading = find("data-loading")->owned_ns;

    assert_true(loading > 0);
    watch(8 * MS, 0);
    assert_true(fabs(find("data-loading")->owned_ns - loading) < 1);
    assert_true(fabs(find("watched-function")->owned_ns - 8 * MS) < 1);
    assert_string_equal(find("watched-function")->colour, "other");
    /* That of its workers is the same time. */
    watch(32 * MS, 4);
    summary.cpu.watched[0] = summary.cpu.watched[1];
    summary.cpu.watched_count = 1;
    assert_true(fabs(find("data-loading")->owned_ns - (loading - 8 * MS)) < 1);
    assert_string_equal(find("watched-function")->colour, "data");
}

static void
a_watched_function_of_a_trainer_that_loads_is_a_part_of_loading(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 30 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_FORWARD] = 11 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 16);
    (void)find("data-loading");
    double avoidable = findings.avoidable_ns;

    watch(8 * MS, 0);
    assert_string_equal(find("watched-function")->colour, "data");
    assert_true(findings.avoidable_ns <= fmax(avoidable, 30 * MS));
    assert_true(find("data-loading")->owned_ns + find("watched-function")->owned_ns <=
                30 * MS + 1);
}

/* The host has time: it is ahead of a device that hardly waits. */
static void what_the_host_takes_while_the_device_works_costs_nothing(void **state)
{
    (void)state;
    struct gpu_device *device = busy_device("NVIDIA H100");

    device->use_ns[GPU_COMPUTE] = 98 * MS;
    device->idle_ns[GPU_IDLE_LAUNCH] = device->idle_ns[GPU_IDLE_PYTHON] = 1 * MS;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    summary.load.faults_per_s = summary.load.faults_least = 200000;
    summary.load.system_share = 0.15;
    watch(12 * MS, 0);
    assert_string_equal(find("cpu-wait")->id, "none");
    assert_string_equal(find("memory-churn")->id, "none");
    /* Two of its twelve milliseconds are what the device waits for. */
    assert_true(fabs(find("watched-function")->ns_per_step - 2 * MS) < 1);
    assert_non_null(strstr(find("watched-function")->formula,
                           ", at most the 2 ms that cuda:0 waits for the host = 2 ms"));
}

static void what_the_host_takes_costs_no_more_than_the_device_waits_for_it(void **state)
{
    (void)state;
    struct gpu_device *device = busy_device("NVIDIA H100");

    device->idle_ns[GPU_IDLE_LAUNCH] = device->idle_ns[GPU_IDLE_PYTHON] = 2 * MS;
    device->idle_ns[GPU_IDLE_UNKNOWN] = device->idle_ns[GPU_IDLE_DATA] = 3 * MS;
    device->idle_ns[GPU_IDLE_SYNC] = 7 * MS;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    summary.load.faults_per_s = summary.load.faults_least = 200000;
    summary.load.system_share = 0.15;
    number(FACT_DATALOADER_WORKERS, 4);
    const struct finding *finding = find("cpu-wait");

    assert_true(fabs(finding->ns_per_step - 7 * MS) < 1);
    assert_true(finding->estimated);
    assert_non_null(strstr(finding->sentence, "20 ms of a step"));
    assert_true(fabs(find("memory-churn")->ns_per_step - 7 * MS) < 1);
    /* It waits for batches too, where the trainer loads them. */
    facts[0].number = 0;
    assert_true(fabs(find("cpu-wait")->ns_per_step - 10 * MS) < 1);
}

static void
a_watched_function_of_workers_costs_what_the_device_idles_for_data(void **state)
{
    (void)state;
    busy_device("NVIDIA H100")->idle_ns[GPU_IDLE_DATA] = 4 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 20 * MS;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_CPU_COUNT, 8);
    watch(30 * MS, 2);
    assert_true(fabs(find("watched-function")->ns_per_step - 4 * MS) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_watched_function_costs_what_its_workers_make_the_training_wait),
        TEST(a_watched_function_of_the_trainer_costs_its_time),
        TEST(a_watched_function_of_the_trainer_takes_nothing_from_data_loading),
        TEST(a_watched_function_of_a_trainer_that_loads_is_a_part_of_loading),
        TEST(what_the_host_takes_while_the_device_works_costs_nothing),
        TEST(what_the_host_takes_costs_no_more_than_the_device_waits_for_it),
        TEST(a_watched_function_of_workers_costs_what_the_device_idles_for_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
