/* Rules over rhythm and load, each on numbers made by hand. */
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
    /* Since the last fifth of the window: what each of those costs is five times as much. */
    summary.rhythm.late_share = 0.2;
    assert_non_null(strstr(find("epoch-start")->sentence,
                           "Each newer epoch, of 50 steps, begins 1.25 s late"));
    facts[1].number = 1;
    assert_null(strstr(find("epoch-start")->advice[0], "persistent_workers"));
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
    /* A save that comes less often than the window shows: the mean of the others tells. */
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

/* A device that computes for 80 of 100 ms. */
static struct gpu_device *busy_device(const char *name)
{
    static struct gpu_device device;

    device = (struct gpu_device){.device = "cuda:0", .name = name};
    device.use_ns[GPU_COMPUTE] = 80 * MS;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    return &device;
}

static void float32_products_are_found_where_tensor_cores_are(void **state)
{
    (void)state;
    busy_device("NVIDIA A100-SXM4-80GB");
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    assert_true(fabs(find("float32-products")->ns_per_step - 20 * MS) < 1);
    assert_non_null(strstr(find("float32-products")->advice[0], "bfloat16"));
    busy_device("Tesla V100-SXM2-16GB");
    assert_non_null(strstr(find("float32-products")->advice[0], "GradScaler"));
    busy_device("NVIDIA GeForce RTX 2080 Ti");
    assert_non_null(strstr(find("float32-products")->advice[0], "GradScaler"));
    busy_device("NVIDIA A2");
    assert_non_null(strstr(find("float32-products")->advice[0], "bfloat16"));
    busy_device("Tesla P100-PCIE-16GB");
    assert_string_equal(find("float32-products")->id, "none");
    busy_device("NVIDIA T400 4GB"); /* no T4 */
    assert_string_equal(find("float32-products")->id, "none");
}

static void products_in_tf32_could_be_half_where_no_autocast_is(void **state)
{
    (void)state;
    busy_device("NVIDIA A100-SXM4-80GB");
    summary.cuda.family_ns[KERNEL_TF32] = 50 * MS;
    assert_true(fabs(find("tf32-products")->ns_per_step - 20 * MS) < 1);
    assert_true(find("tf32-products")->estimated);
    assert_non_null(strstr(find("tf32-products")->advice[0], "bfloat16"));
    text(FACT_AMP_DTYPE, "bfloat16");
    assert_string_equal(find("tf32-products")->id, "none");
}

static void less_work_is_no_gain_where_the_device_idles(void **state)
{
    (void)state;
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 40 * MS;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 30 * MS;
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 30 * MS;
    summary.cuda.family_ns[KERNEL_LAYOUT] = 30 * MS;
    assert_string_equal(find("")->id, "none");
}

/* Steps that were replayed gain so much with kernels shorter by an eighth, a quarter, half,
 * all. */
static void replayed(double compute_ns, const double gained_ns[REPLAY_CUTS])
{
    summary.replay = (struct replay_table){
        .steps = 16, .devices = true, .step_ns = 100 * MS, .compute_ns = compute_ns};
    memcpy(summary.replay.gained_ns, gained_ns, sizeof(summary.replay.gained_ns));
}

static void
less_work_gains_where_steps_wait_for_it_though_the_device_idles(void **state)
{
    (void)state;
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 40 * MS;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 30 * MS;
    replayed(40 * MS, (const double[]){5 * MS, 10 * MS, 20 * MS, 40 * MS});
    assert_true(fabs(find("float32-products")->ns_per_step - 15 * MS) < 1);
    assert_non_null(strstr(find("float32-products")->formula,
                           "/ 2 * 100 % that replayed steps wait for"));
}

static void less_work_is_a_risk_where_steps_wait_for_the_host(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    replayed(80 * MS, (const double[]){2 * MS, 2 * MS, 2 * MS, 2 * MS});
    const struct finding *finding = find("float32-products");

    assert_string_equal(finding->id, "float32-products");
    assert_true(finding->ns_per_step == 0 && finding->owned_ns == 0);
    assert_string_equal(finding->formula,
                        "50 ms of such kernels / 2 = 25 ms, of which a step would "
                        "gain 2 ms now");
    /* With more than a fifth of it, and less than a price begins with, it stays. */
    replayed(80 * MS, (const double[]){4 * MS, 4 * MS, 4 * MS, 4 * MS});
    summary.cuda.family_ns[KERNEL_FLOAT32] = 24 * MS;
    assert_string_equal(find("float32-products")->id, "float32-products");
    assert_true(find("float32-products")->ns_per_step == 0);
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 40 * MS;
    assert_string_equal(find("float32-products")->id, "none");
}

/* Fewer kernels are launched in less time too; but where the device rests, launches are what
 * other findings are about. */
static void fewer_kernels_count_at_least_as_the_device_is_busy(void **state)
{
    static const double flat[REPLAY_CUTS] = {2 * MS, 2 * MS, 2 * MS, 2 * MS};

    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 30 * MS;
    replayed(80 * MS, flat);
    assert_true(fabs(find("elementwise-kernels")->ns_per_step - 12 * MS) < 1);
    assert_non_null(strstr(find("elementwise-kernels")->formula, "80 % busy"));
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 40 * MS;
    replayed(40 * MS, flat);
    assert_string_equal(find("elementwise-kernels")->id, "none");
}

static void a_device_that_hardly_rests_is_what_steps_wait_for(void **state)
{
    (void)state;
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 95 * MS;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 40 * MS;
    replayed(95 * MS, (const double[]){2 * MS, 2 * MS, 2 * MS, 2 * MS});
    assert_true(fabs(find("float32-products")->ns_per_step - 19 * MS) < 1);
    busy_device("NVIDIA H100")->use_ns[GPU_COMPUTE] = 92 * MS;
    assert_true(find("float32-products")->ns_per_step == 0);
}

/* A trace of ten large steps, of which one was replayed, gates as the other nine let it. */
static void the_interval_of_work_is_that_of_the_steps_that_tell_it(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.head.from_file = true;
    summary.steps.train.kernels = 10;
    summary.steps.train.error_pct = 2;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 40 * MS;
    replayed(80 * MS, (const double[]){10 * MS, 20 * MS, 40 * MS, 80 * MS});
    summary.replay.steps = 1;
    summary.replay.gain_error = (double)NAN;
    double error = find("float32-products")->error_ns;

    assert_true(error > 0 && error < 10 * MS);
    /* Which share of their work replayed steps gain differs by a tenth of it. */
    summary.replay.gain_error = 0.1;
    summary.replay.steps = 10;
    assert_true(fabs(find("float32-products")->error_ns - hypot(error, 2 * MS)) < 1);
}

static void what_a_slow_first_step_adds_is_of_no_price_of_the_device(void **state)
{
    (void)state;
    busy_device("NVIDIA H200");
    summary.steps.train.kernels = 10;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 40 * MS;
    summary.steps.train.error_pct = 2;
    struct finding usual = *find("float32-products");

    summary.steps.train.usual =
        (struct steps_usual){summary.steps.train.count, summary.steps.train.mean_ns, 2};
    summary.steps.train.error_pct = 200;
    summary.steps.train.mean_ns *= 2;
    assert_true(fabs(find("float32-products")->ns_per_step - usual.ns_per_step) < 1);
    assert_true(fabs(find("float32-products")->error_ns - usual.error_ns) < 1);
}

/* What the device's queue hides is not given back. */
static void collections_cost_no_more_than_a_device_waits_for(void **state)
{
    (void)state;
    /* As where `loss.item()` waits before it. */
    struct gpu_device *device = busy_device("NVIDIA H100");

    device->idle_ns[GPU_IDLE_SYNC] = 6 * MS;
    device->known_steps = 50;
    summary.rhythm.gc = extra(15 * MS, 100, EVENT_PHASE_FORWARD);
    assert_true(fabs(find("gc-pauses")->ns_per_step - 6 * MS) < 1);
    assert_non_null(
        strstr(find("gc-pauses")->formula, "at most the 6 ms that cuda:0 waits"));
    /* For workers it waits with collections and without. */
    device->idle_ns[GPU_IDLE_SYNC] = 0;
    device->idle_ns[GPU_IDLE_DATA] = 6 * MS;
    number(FACT_DATALOADER_WORKERS, 4);
    assert_string_equal(find("gc-pauses")->id, "none");
}

/* Where few steps are recorded, none of them may have a collection. */
static void
of_collections_that_were_not_recorded_the_length_of_steps_tells(void **state)
{
    struct findings_settings stands = findings_configured();
    struct gpu_device *device = busy_device("NVIDIA H100");

    (void)state;
    stands.by_price = true;
    device->known_steps = 30;
    summary.rhythm.steps = 600;
    summary.rhythm.gc = extra(6 * MS, 12, EVENT_PHASE_FORWARD);
    summary.rhythm.gc.longer_ns = 5 * MS;
    assert_true(fabs(find("gc-pauses")->ns_per_step - 5 * MS) < 1);
    assert_non_null(strstr(find("gc-pauses")->formula,
                           "6 ms of each step, which make it 5 ms longer"));
    /* A part of them is as uncertain as they are. */
    summary.rhythm.gc.error_ns = 1.2 * MS;
    assert_true(fabs(find("gc-pauses")->error_ns - 1 * MS) < 1);
    summary.rhythm.gc.error_ns = 0;
    summary.rhythm.gc.longer_ns = (double)NAN; /* most steps have one */
    assert_string_equal(find("gc-pauses")->id, "none");
    summary.rhythm.gc.longer_ns = 1 * MS; /* the queue hides the rest */
    assert_string_equal(find("gc-pauses")->id, "none");
    /* A few more were seen, and the device waited for none: that stands a little longer. */
    summary.rhythm.gc.longer_ns = 5 * MS;
    device->known_steps = 150;
    assert_string_equal(find("gc-pauses")->id, "none");
    assert_true(fabs(find_as(&stands, "gc-pauses")->ns_per_step - 5 * MS) < 1);
    device->known_steps = 300;
    assert_string_equal(find_as(&stands, "gc-pauses")->id, "none");
}

static void a_few_replayed_steps_of_a_running_job_are_not_believed(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    replayed(80 * MS, (const double[]){2 * MS, 2 * MS, 2 * MS, 2 * MS});
    summary.replay.steps = 2;
    assert_true(fabs(find("float32-products")->ns_per_step - 20 * MS) < 1);
    summary.head.from_file = true;
    assert_true(find("float32-products")->ns_per_step == 0);
}

static void the_first_of_less_work_gains_more_than_what_follows(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 25 * MS;
    summary.steps.train.kernels = 100;
    replayed(80 * MS, (const double[]){10 * MS, 16 * MS, 16 * MS, 16 * MS});
    const struct finding *finding = find("elementwise-kernels");

    assert_true(fabs(finding->ns_per_step - 11.5 * MS) < 1);
    /* A quarter of 25 ms all of which is gained, and three of which 15.25 are. */
    assert_true(fabs(finding->low_ns + finding->error_ns - 6.25 * MS) < 1);
    assert_true(fabs(finding->high_ns - finding->error_ns - 15.25 * MS) < 1);
}

static void
copies_beside_which_nothing_computes_count_where_steps_wait_for_them(void **state)
{
    struct replay_what_if_row *hidden = &summary.replay.what_ifs[REPLAY_COPIES_HIDDEN];

    (void)state;
    busy_device("NVIDIA H100")->use_ns[GPU_COPY] = 14 * MS;
    assert_true(fabs(find("exposed-copies")->ns_per_step - 7 * MS) < 1);
    replayed(80 * MS, (const double[]){10 * MS, 20 * MS, 40 * MS, 80 * MS});
    *hidden = (struct replay_what_if_row){.known = true, .mean_ns = 88 * MS};
    assert_true(fabs(find("exposed-copies")->ns_per_step - 6 * MS) < 1);
    hidden->mean_ns = 99 * MS;
    assert_string_equal(find("exposed-copies")->id, "exposed-copies");
    assert_true(find("exposed-copies")->ns_per_step == 0);
}

static void elementwise_kernels_are_fused_by_compilation(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 25 * MS;
    assert_true(fabs(find("elementwise-kernels")->ns_per_step - 10 * MS) < 1);
    number(FACT_COMPILE_USED, 1);
    assert_string_equal(find("elementwise-kernels")->id, "none");
}

static void attention_that_writes_its_scores_is_found_by_its_softmax(void **state)
{
    struct op_row kernels[] = {{.name = "cunn_SoftMaxForward",
                                .kind = "kernel",
                                .per_step_ns = 40 * MS,
                                .family = KERNEL_SOFTMAX},
                               {.name = "flash_fwd_kernel", .kind = "kernel"}};
    struct op_row ops[] = {
        {.name = "aten::baddbmm", .kind = "op"},
        {.name = "aten::_scaled_dot_product_attention_math", .kind = "op"}};

    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.rows = kernels;
    summary.cuda.judged_count = 1;
    summary.cuda.family_ns[KERNEL_SOFTMAX] = 40 * MS;
    summary.cuda.family_count[KERNEL_SOFTMAX] = 24;
    /* Of what else, nobody knows; that it is one kernel is told then. */
    assert_string_equal(find("unfused-attention")->id, "none");
    assert_true(strncmp(find("dominant-kernel")->id, "dominant-kernel", 15) == 0);
    summary.cpu.rows = ops;
    summary.cpu.judged_count = 1;
    assert_true(fabs(find("unfused-attention")->ns_per_step - 16 * MS) < 1);
    assert_non_null(
        strstr(find("unfused-attention")->advice[0], "attn_implementation"));
    assert_non_null(strstr(find("unfused-attention")->sentence, "(aten::baddbmm)"));
    assert_string_equal(find("dominant-kernel")->id, "none");
    /* Who asked for the fused form is told why it was not taken. */
    summary.cpu.judged_count = 2;
    assert_non_null(strstr(find("unfused-attention")->advice[0], "says why"));
    /* Attention is fused, and the softmax another's. */
    summary.cuda.judged_count = 2;
    assert_string_equal(find("unfused-attention")->id, "none");
    summary.cuda.judged_count = 1;
    ops[0].name = "aten::mm";
    assert_string_equal(find("unfused-attention")->id, "none");
}

static void changes_of_layout_cost_their_time(void **state)
{
    (void)state;
    busy_device("NVIDIA H100");
    summary.cuda.family_ns[KERNEL_LAYOUT] = 10 * MS;
    assert_true(fabs(find("layout-changes")->ns_per_step - 8 * MS) < 1);
    assert_non_null(strstr(find("layout-changes")->advice[0], "channels_last"));
}

static void communication_and_copies_count_where_nothing_computes(void **state)
{
    (void)state;
    struct gpu_device *device = busy_device("NVIDIA H100");

    device->use_ns[GPU_COMMUNICATION] = 16 * MS;
    device->use_ns[GPU_COPY] = 12 * MS;
    assert_true(fabs(find("exposed-communication")->ns_per_step - 8 * MS) < 1);
    assert_true(find("exposed-communication")->estimated);
    /* Also of what is hidden is told how much it is. */
    device->span_ns = 1000 * MS;
    device->overlap_ns = 300 * MS;
    assert_true(fabs(evidence_of(find("exposed-communication"), "overlap_ms") - 30) <
                1e-6);
    assert_true(fabs(find("exposed-copies")->ns_per_step - 6 * MS) < 1);
}

/* Beside a device that works, one that the rank only touched. */
static struct gpu_device *device_beside(double idle_python_ns)
{
    static struct gpu_device pair[2];

    pair[0] = (struct gpu_device){.device = "cuda:0"};
    pair[0].use_ns[GPU_COPY] = 1000;
    pair[0].idle_ns[GPU_IDLE_PYTHON] = idle_python_ns;
    pair[1] = *busy_device("NVIDIA H100");
    pair[1].device = "cuda:1";
    summary.gpu.devices = pair;
    summary.gpu.device_count = 2;
    return &pair[1];
}

static void a_device_that_is_not_used_is_blamed_for_nothing(void **state)
{
    (void)state;
    struct gpu_device *works = device_beside(99 * MS);

    works->idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    assert_string_equal(find("python-between-ops")->id, "none");
    assert_true(fabs(find("launch-bound")->ns_per_step - 20 * MS) < 1);
    /* Of the device that works, 20 ms can be given back, not 99. */
    assert_true(fabs(findings.avoidable_ns - 20 * MS) < 1);
    number(FACT_COMPILE_GRAPH_BREAKS, 3);
    assert_true(fabs(find("graph-breaks")->ns_per_step - 10 * MS) < 1);
}

static void loading_faster_wins_what_the_device_that_works_idles_for_it(void **state)
{
    (void)state;
    struct gpu_device *works = device_beside(0);

    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 40 * MS;
    summary.gpu.devices[0].idle_ns[GPU_IDLE_DATA] = 99 * MS;
    works->idle_ns[GPU_IDLE_DATA] = 15 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    assert_true(fabs(find("data-loading")->ns_per_step - 15 * MS) < 1);
}

static void waiting_for_data_costs_what_the_device_idles(void **state)
{
    (void)state;
    struct gpu_device *device = busy_device("NVIDIA H100");

    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 40 * MS;
    device->idle_ns[GPU_IDLE_DATA] = 15 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    assert_true(fabs(find("data-loading")->ns_per_step - 15 * MS) < 1);
}

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
    /* 90 ms and 0.75 for handing over, on four, beside 11.5 that are not loading: of the 88.5
     * that loading faster would end, 11.1875 are left. */
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
        TEST(steady_steps_on_a_free_machine_have_no_findings),
        TEST(collections_cost_what_they_took),
        TEST(slow_first_steps_are_told_from_the_mean),
        TEST(one_slow_step_begins_each_run_and_stays_in_the_mean_of_a_file),
        TEST(workers_that_start_anew_are_told_to_live_on),
        TEST(late_first_batches_must_surely_cost_what_a_finding_must),
        TEST(a_period_is_named_with_its_length_and_the_phase_that_grows),
        TEST(a_period_in_steps_without_phases_claims_none),
        TEST(late_batches_at_the_loaders_length_are_its_epochs),
        TEST(a_trend_is_found_but_not_beside_others_that_take_the_cores),
        TEST(waits_for_a_core_name_the_threads_that_are_too_many),
        TEST(a_quota_that_is_no_whole_number_is_told_so_and_advised_as_whole_threads),
        TEST(loader_workers_are_blamed_for_cores_that_the_job_itself_takes),
        TEST(fresh_pages_cost_their_time_in_the_kernel),
        TEST(pages_that_threads_make_beside_each_other_cost_the_time_of_one),
        TEST(pages_of_more_threads_than_cores_cost_what_each_core_makes),
        TEST(fresh_pages_never_cost_more_than_the_step),
        TEST(time_in_no_phase_is_code_around_the_training),
        TEST(code_between_steps_costs_its_mean_without_what_has_a_cause_of_its_own),
        TEST(code_in_no_phase_is_said_to_lie_where_most_of_it_does),
        TEST(collections_and_checkpoints_of_each_step_are_no_code_between_steps),
        TEST(code_between_steps_under_lightning_is_called_its_own),
        TEST(named_causes_are_no_unsteadiness),
        TEST(float32_products_are_found_where_tensor_cores_are),
        TEST(products_in_tf32_could_be_half_where_no_autocast_is),
        TEST(less_work_is_no_gain_where_the_device_idles),
        TEST(less_work_gains_where_steps_wait_for_it_though_the_device_idles),
        TEST(less_work_is_a_risk_where_steps_wait_for_the_host),
        TEST(fewer_kernels_count_at_least_as_the_device_is_busy),
        TEST(a_device_that_hardly_rests_is_what_steps_wait_for),
        TEST(the_interval_of_work_is_that_of_the_steps_that_tell_it),
        TEST(what_a_slow_first_step_adds_is_of_no_price_of_the_device),
        TEST(collections_cost_no_more_than_a_device_waits_for),
        TEST(of_collections_that_were_not_recorded_the_length_of_steps_tells),
        TEST(a_few_replayed_steps_of_a_running_job_are_not_believed),
        TEST(the_first_of_less_work_gains_more_than_what_follows),
        TEST(copies_beside_which_nothing_computes_count_where_steps_wait_for_them),
        TEST(elementwise_kernels_are_fused_by_compilation),
        TEST(attention_that_writes_its_scores_is_found_by_its_softmax),
        TEST(changes_of_layout_cost_their_time),
        TEST(communication_and_copies_count_where_nothing_computes),
        TEST(a_device_that_is_not_used_is_blamed_for_nothing),
        TEST(loading_faster_wins_what_the_device_that_works_idles_for_it),
        TEST(waiting_for_data_costs_what_the_device_idles),
        TEST(a_watched_function_costs_what_its_workers_make_the_training_wait),
        TEST(a_watched_function_of_the_trainer_costs_its_time),
        TEST(a_watched_function_of_the_trainer_takes_nothing_from_data_loading),
        TEST(a_watched_function_of_a_trainer_that_loads_is_a_part_of_loading),
        TEST(what_the_host_takes_while_the_device_works_costs_nothing),
        TEST(what_the_host_takes_costs_no_more_than_the_device_waits_for_it),
        TEST(a_watched_function_of_workers_costs_what_the_device_idles_for_data),
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
