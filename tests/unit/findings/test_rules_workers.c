/* How many workers a loader is told to have, and where they would win nothing, on
 * numbers made by hand. */
#include "unit/rule_summary.h"

static void workers_that_start_anew_are_told_to_live_on(void **state)
{
    (void)state;
    summary.rhythm.epoch = extra(5 * MS, 10, EVENT_PHASE_DATA);
    summary.rhythm.steps_per_epoch = 50;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 6 * MS;
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_DATALOADER_PERSISTENT, 0);
    const struct finding *finding = find("epoch-start");

    assert_true(fabs(finding->ns_per_step - 5 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "persistent_workers=True"));
    assert_non_null(
        strstr(finding->sentence, "Each epoch, of 50 steps, begins 250 ms late"));
    /* What is left of the wait is no finding: the same time has one owner. */
    assert_string_equal(find("data-loading")->id, "none");
    /* Since the last fifth of the window: what each of those costs is five times as
     * much. */
    summary.rhythm.late_share = 0.2;
    assert_non_null(strstr(find("epoch-start")->sentence,
                           "Each newer epoch, of 50 steps, begins 1.25 s late"));
    facts[1].number = 1;
    assert_null(strstr(find("epoch-start")->advice[0], "persistent_workers"));
}

static void loader_workers_are_blamed_for_cores_that_the_job_itself_takes(void **state)
{
    (void)state;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    summary.load.machine_share = 0.99;
    summary.load.job_cores = 1.9;
    number(FACT_CPU_COUNT, 2);
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_THREADS_INTRA, 1);
    assert_string_equal(find("cpu-wait")->advice[0],
                        "1 thread of an op and 2 loader workers share 2 cores: "
                        "fewer workers");
    /* One thread is the least; of two, one can go. */
    summary.fact_count--;
    number(FACT_THREADS_INTRA, 2);
    assert_non_null(strstr(find("cpu-wait")->advice[0], "`torch.set_num_threads(1)`"));
    summary.load.job_cores = 0.1;
    assert_non_null(
        strstr(find("cpu-wait")->advice[0], "Other programs take the cores"));
}

static void
a_trainer_that_sleeps_while_it_loads_may_have_more_workers_than_cores(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 90 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_FORWARD] = 5 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_BACKWARD] = 2 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 2);
    summary.load.asleep_share = 0.5; /* 40 ms of loading at least: the rest computes */
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=1"));
    summary.load.asleep_share = 0.8;
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4"));
    /* 90 ms and 0.75 for handing over, on four, beside 11.5 that are not loading: of
     * the 88.5 that loading faster would end, 11.1875 are left. */
    assert_true(fabs(find("data-loading")->ns_per_step - 77.3125 * MS) < 1);
}

/* Backward computes in threads of its own, and the trainer waits for it: asleep too. */
static void looks_tell_how_much_of_its_loading_a_trainer_sleeps(void **state)
{
    struct between_ops *between = &summary.between_ops;

    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 60 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 2);
    summary.load.asleep_share = 0.6;
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=1"));
    between->looks = 300;
    between->asleep[EVENT_PHASE_DATA] = (struct between_ops_share){0.5, 0.05};
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4"));
    between->asleep[EVENT_PHASE_DATA] = (struct between_ops_share){0.2, 0.05};
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=1"));
}

static void workers_that_wait_for_storage_need_no_cores(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_CPU_COUNT, 2);
    /* What the workers do was not seen: then the advice is for both. */
    assert_non_null(strstr(find("data-loading")->advice[0],
                           "`num_workers=4` where the workers wait"));
    summary.load.workers = 2;
    summary.load.worker_cpu_share = 0.9;
    assert_non_null(strstr(find("data-loading")->advice[0], "All cores load already"));
    summary.load.worker_cpu_share = 0.1;
    /* 2 workers need 100 ms for each batch, together 200: 4 leave nothing to wait but
     * what a ready batch costs. */
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4"));
    assert_true(fabs(find("data-loading")->ns_per_step - 49.625 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->advice[1], "local disk"));
}

static void
workers_of_another_loader_rest_while_those_of_the_training_work(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    summary.steps.validation = summary.steps.train;
    number(FACT_DATALOADER_WORKERS, 1);
    number(FACT_CPU_COUNT, 8);
    summary.load.workers = 2; /* half of the time each, one behind the other */
    summary.load.worker_cpu_share = 0.4;
    assert_null(strstr(find("data-loading")->sentence, "storage"));
    assert_non_null(strstr(find("data-loading")->sentence, ", with 1 worker"));
    assert_null(strstr(find("data-loading")->sentence, "workers"));
    summary.load.workers = 1; /* the trainer validates without any */
    assert_null(strstr(find("data-loading")->sentence, "storage"));
    summary.load.worker_cpu_share = 0.2;
    assert_non_null(
        strstr(find("data-loading")->sentence, "worker that waits for its storage"));
}

static void workers_that_share_too_few_cores_wait_for_no_storage(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_DATALOADER_WORKERS, 8);
    number(FACT_CPU_COUNT, 4);
    summary.load.workers = 8;
    summary.load.worker_cpu_share = 0.35;
    assert_null(strstr(find("data-loading")->sentence, "storage"));
    summary.load.worker_cpu_share = 0.2; /* and half of these cores are free */
    assert_non_null(strstr(find("data-loading")->sentence, "storage"));
}

static void
idle_workers_of_another_loader_say_nothing_of_a_trainer_that_loads(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 2);
    summary.load.workers = 1;
    summary.load.worker_cpu_share = 0;
    const struct finding *finding = find("data-loading");

    /* The one core that is left, not as many workers as a slow disk could feed. */
    assert_non_null(strstr(finding->advice[0], "num_workers=1,"));
    assert_null(strstr(finding->sentence, "storage"));
}

static void of_workers_that_nobody_counted_no_number_is_named(void **state)
{
    (void)state;
    struct gpu_device *device = busy_device("NVIDIA H100");

    summary.head.from_file = true;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 40 * MS;
    device->idle_ns[GPU_IDLE_DATA] = 40 * MS;
    number(FACT_DATALOADER_UNCOUNTED, 1);
    const struct finding *finding = find("data-loading");

    assert_non_null(strstr(finding->advice[0], "More workers than now"));
    assert_null(strstr(finding->advice[0], "num_workers="));
    assert_non_null(strstr(finding->sentence, "though workers load it"));
    /* How much faster more of them load is not known: half, as an estimate. */
    assert_true(finding->estimated);
    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    assert_non_null(strstr(finding->formula, "waiting / 2 = 20 ms"));
    device->idle_ns[GPU_IDLE_DATA] = 15 * MS;
    assert_true(find("data-loading")->estimated);
    assert_true(fabs(find("data-loading")->ns_per_step - 7.5 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->formula, "idles 15 ms) / 2 = 7.5 ms"));
}

static void
workers_that_compute_win_nothing_where_the_trainer_has_the_only_core(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_CPU_COUNT, 1);
    number(FACT_DATALOADER_WORKERS, 0);
    const struct finding *finding = find("data-loading");

    assert_non_null(strstr(finding->advice[0], "No core is left"));
    assert_non_null(strstr(finding->advice[0], "cheaper samples"));
    assert_true(finding->estimated);
    assert_string_equal(finding->formula, "50 ms waiting / 2 = 25 ms");
    assert_true(fabs(finding->ns_per_step - 25 * MS) < 1);
    facts[0].number = 8;
    summary.load.core_limit = 1.9; /* the quota leaves no whole one either */
    assert_non_null(strstr(find("data-loading")->advice[0], "No core is left"));
    /* What sleeps while it loads leaves the core to the training. */
    summary.load.asleep_share = 0.9;
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4"));
    assert_true(find("data-loading")->ns_per_step > 40 * MS);
}

static void a_thread_that_computes_ahead_wins_nothing_on_the_only_core(void **state)
{
    (void)state;
    summary.native = true;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_CPU_COUNT, 1);
    assert_non_null(strstr(find("data-loading")->advice[0], "No core is left"));
    assert_true(fabs(find("data-loading")->ns_per_step - 25 * MS) < 1);
    summary.load.asleep_share = 0.9;
    assert_non_null(strstr(find("data-loading")->advice[0], "a thread of its own"));
    assert_non_null(strstr(find("data-loading")->formula, "a thread that loads ahead"));
}

static void workers_for_a_data_set_without_a_length_come_with_a_warning(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 50 * MS;
    number(FACT_CPU_COUNT, 8);
    number(FACT_DATALOADER_WORKERS, 0);
    const struct finding *finding = find("data-loading");

    assert_non_null(strstr(finding->advice[0], "num_workers=4"));
    assert_non_null(finding->advice[1]);
    assert_non_null(strstr(finding->advice[1], "get_worker_info()"));
    assert_non_null(strstr(finding->wrong_if, "does not split itself"));
    facts[0].number = 1; /* no more workers are advised */
    assert_null(find("data-loading")->advice[1]);
    facts[0].number = 8;
    number(FACT_DATALOADER_SAMPLES, 1000);
    assert_null(find("data-loading")->advice[1]);
    assert_null(strstr(find("data-loading")->wrong_if, "split"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_that_start_anew_are_told_to_live_on),
        TEST(loader_workers_are_blamed_for_cores_that_the_job_itself_takes),
        TEST(a_trainer_that_sleeps_while_it_loads_may_have_more_workers_than_cores),
        TEST(looks_tell_how_much_of_its_loading_a_trainer_sleeps),
        TEST(workers_that_wait_for_storage_need_no_cores),
        TEST(workers_of_another_loader_rest_while_those_of_the_training_work),
        TEST(workers_that_share_too_few_cores_wait_for_no_storage),
        TEST(idle_workers_of_another_loader_say_nothing_of_a_trainer_that_loads),
        TEST(of_workers_that_nobody_counted_no_number_is_named),
        TEST(workers_for_a_data_set_without_a_length_come_with_a_warning),
        TEST(workers_that_compute_win_nothing_where_the_trainer_has_the_only_core),
        TEST(a_thread_that_computes_ahead_wins_nothing_on_the_only_core),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
