/* Rules over what GPUs and workers say of themselves, each on numbers made by hand. */
#include "unit/rule_summary.h"

#define GIB (1024.0 * 1024 * 1024)

static struct gpu_device device;
static struct hardware_row row;

/* A device that computes for 80 of 100 ms, at its full clock and all for this job. */
static void put_device(void)
{
    give_device(&device, 80 * MS);
    summary.steps.train.kernels = 500;
    summary.steps.train.error_pct = 1;
    row = (struct hardware_row){.device = "cuda:0",
                                .sm_max_mhz = 2000,
                                .free_mhz = (double)NAN,
                                .total_bytes = 80 * GIB,
                                .job_bytes = 40 * GIB};
    for (uint32_t i = 0; i < HARDWARE_HOLDERS; i++)
        row.held_share[i] = row.held_mhz[i] = (double)NAN;
    summary.hardware.rows = &row;
    summary.hardware.row_count = 1;
}

static void a_device_at_its_full_clock_is_no_finding(void **state)
{
    (void)state;
    put_device();
    assert_string_equal(find("")->id, "none");
}

static void clocks_that_heat_holds_back_cost_their_share_of_the_compute(void **state)
{
    (void)state;
    put_device();
    row.held_share[HARDWARE_HELD_BY_HEAT] = 0.5;
    row.held_mhz[HARDWARE_HELD_BY_HEAT] = 1200;
    const struct finding *finding = find("thermal-limit-");

    /* 80 ms, half of the time at 0.6 of the clock; half of it is the device's to give. */
    assert_true(fabs(finding->ns_per_step - 8 * MS) < 1);
    assert_true(finding->estimated && finding->low_ns > 0);
    assert_non_null(strstr(finding->title, "cuda:0 is slowed down by heat"));
    /* Where it also ran free, that is its full clock. */
    row.free_mhz = 1600;
    assert_true(fabs(find("thermal-limit-")->ns_per_step - 5 * MS) < 1);
    row.held_mhz[HARDWARE_HELD_BY_HEAT] = 1590;
    assert_string_equal(find("thermal-limit-")->id, "none");
}

static void boards_at_their_power_limit_are_as_they_are_built(void **state)
{
    (void)state;
    put_device();
    row.held_share[HARDWARE_HELD_BY_POWER] = 1;
    row.held_mhz[HARDWARE_HELD_BY_POWER] = 1700; /* 15 % below: usual under full load */
    assert_string_equal(find("")->id, "none");
    row.held_mhz[HARDWARE_HELD_BY_POWER] = 1000;
    assert_true(fabs(find("power-limit-")->ns_per_step - 20 * MS) < 1);
    assert_non_null(strstr(find("power-limit-")->advice[0], "nvidia-smi -pl"));
}

static void a_board_that_slows_down_by_itself_is_found(void **state)
{
    (void)state;
    put_device();
    row.held_share[HARDWARE_HELD_BY_BOARD] = 0.5;
    row.held_mhz[HARDWARE_HELD_BY_BOARD] = 1000;
    assert_true(fabs(find("board-limit-")->ns_per_step - 10 * MS) < 1);
    assert_non_null(strstr(find("board-limit-")->title, "by its board"));
    assert_non_null(strstr(find("board-limit-")->advice[0], "power supply"));
}

static void clocks_that_somebody_chose_cost_their_share_of_the_compute(void **state)
{
    (void)state;
    put_device();
    row.held_share[HARDWARE_HELD_BY_SETTING] = 1;
    row.held_mhz[HARDWARE_HELD_BY_SETTING] = 1800; /* a tenth less: a good trade */
    assert_string_equal(find("")->id, "none");
    row.held_mhz[HARDWARE_HELD_BY_SETTING] = 1200;
    assert_true(fabs(find("chosen-clocks-")->ns_per_step - 16 * MS) < 1);
    assert_non_null(strstr(find("chosen-clocks-")->title, "somebody chose"));
    assert_int_equal(find("chosen-clocks-")->advice_count, 1);
    row.mean[HARDWARE_MEMORY_BUSY] = 0.9; /* what waits for memory loses little */
    assert_false(is_found("chosen-clocks"));
    row.mean[HARDWARE_MEMORY_BUSY] = 0.3;
    /* Heat takes what it takes from these, not from the highest. */
    row.held_share[HARDWARE_HELD_BY_SETTING] = row.held_share[HARDWARE_HELD_BY_HEAT] =
        0.5;
    row.held_mhz[HARDWARE_HELD_BY_HEAT] = 900;
    assert_true(fabs(find("thermal-limit-")->ns_per_step - 5 * MS) < 1);
}

static void a_clock_that_nobody_tells_is_no_finding(void **state)
{
    (void)state;
    put_device();
    row.held_share[HARDWARE_HELD_BY_HEAT] = 1;
    assert_string_equal(find("")->id, "none");
    row.held_mhz[HARDWARE_HELD_BY_HEAT] = 1000;
    row.device = NULL; /* not a device of this process */
    assert_string_equal(find("")->id, "none");
}

static void memory_of_other_processes_is_a_risk_of_that_device(void **state)
{
    (void)state;
    put_device();
    row.other_bytes = 1 * GIB; /* a desktop */
    assert_string_equal(find("")->id, "none");
    row.other_bytes = 10 * GIB;
    const struct finding *finding = find("device-shared-");

    assert_non_null(strstr(finding->title, "cuda:0 is shared with another process"));
    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    row.other_bytes = (double)NAN;
    assert_string_equal(find("")->id, "none");
}

static void memory_on_devices_that_the_job_leaves_alone_is_no_risk_of_it(void **state)
{
    (void)state;
    put_device();
    row.other_bytes = 40 * GIB;
    row.job_bytes = 0;
    assert_string_equal(find("")->id, "none");
    row.job_bytes = 0.3 * GIB; /* a context */
    row.works_known = true;
    assert_string_equal(find("")->id, "none");
    row.works = true;
    assert_non_null(strstr(find("device-shared-")->title, "shared with another"));
}

static void a_device_that_waits_pays_for_it_at_least_what_it_takes_idle(void **state)
{
    (void)state;
    put_device();
    device.idle_ns[GPU_IDLE_DATA] = 60 * MS;
    row.joules_per_step = 20;
    row.idle_w = 70;
    const struct finding *finding = find("idle-energy-");

    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    assert_non_null(strstr(finding->formula, "60 ms of waiting * 70 W = 4.2 J of the 20 J"));
    assert_non_null(strstr(finding->advice[1], "-lgc 0,1500"));
    row.idle_w = 15; /* 0.9 of 20 J */
    assert_string_equal(find("idle-energy-")->id, "none");
    row.idle_w = (double)NAN; /* it never was idle for a whole sample */
    assert_string_equal(find("idle-energy-")->id, "none");
    row.idle_w = 70;
    row.mig = true; /* the board's power is not the instance's */
    assert_string_equal(find("idle-energy-")->id, "none");
}

static void memory_bound_work_at_full_clock_is_told_what_it_takes(void **state)
{
    (void)state;
    put_device();
    row.joules_per_step = 40;
    row.samples_per_joule = 0.8;
    row.mean[HARDWARE_SM_MHZ] = 1950;
    row.mean[HARDWARE_MEMORY_BUSY] = 0.5; /* products */
    assert_string_equal(find("")->id, "none");
    row.mean[HARDWARE_MEMORY_BUSY] = 0.9;
    const struct finding *finding = find("clock-energy-");

    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    assert_non_null(strstr(finding->sentence, "40 J for a step, 1.25 J for a sample"));
    assert_non_null(strstr(finding->advice[0], "A lower clock"));
    assert_non_null(strstr(finding->advice[0], "-lgc 0,1500"));
    row.samples_per_joule = (double)NAN;
    assert_non_null(strstr(find("clock-energy-")->sentence, "40 J for a step:"));
    row.mean[HARDWARE_SM_MHZ] = 1400; /* it is low already */
    assert_string_equal(find("")->id, "none");
    row.mean[HARDWARE_SM_MHZ] = 1950;
    row.joules_per_step = (double)NAN; /* others have a part of the device */
    assert_string_equal(find("")->id, "none");
    row.joules_per_step = 40;
    row.mean[HARDWARE_MEMORY_BUSY] = (double)NAN;
    assert_string_equal(find("")->id, "none");
}

/* Four workers; one of them loads for as long as a step takes. */
static void put_workers(double busiest, double mean)
{
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 60 * MS;
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 2 * MS;
    summary.load.workers = 4;
    summary.load.worker_cpu_most = busiest;
    summary.load.worker_cpu_share = mean;
    summary.load.worker_cpu_others = (4 * mean - busiest) / 3;
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_CPU_COUNT, 16);
}

static void one_slow_worker_is_told_apart_from_slow_loading(void **state)
{
    (void)state;
    put_workers(1, 0.4); /* the others 0.2 */
    const struct finding *finding = find("slow-worker");

    /* Dealt evenly, the workers need 40 ms for what takes 100. */
    assert_true(fabs(finding->ns_per_step - 60 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "get_worker_info().id"));
    /* The same wait has one owner. */
    assert_string_equal(find("data-loading")->id, "none");
    assert_true(fabs(findings.avoidable_ns - 60 * MS) < 1);
}

static void workers_that_are_all_busy_are_too_few_and_none_is_slow(void **state)
{
    (void)state;
    put_workers(1, 0.9);
    assert_string_equal(find("slow-worker")->id, "none");
    /* 8 workers bring a batch every 50 ms. */
    assert_true(fabs(find("data-loading")->ns_per_step - 50 * MS) < 1);
    for (uint32_t i = 0; i < find("data-loading")->evidence_count; i++)
        if (strcmp(find("data-loading")->evidence[i].key, "bound_by") == 0)
            assert_string_equal(find("data-loading")->evidence[i].text, "cores");
}

static void a_device_that_only_computes_has_a_verdict_and_no_finding(void **state)
{
    (void)state;
    put_device();
    assert_string_equal(find("")->id, "none");
    assert_string_equal(findings.verdict, "");
    device.use_ns[GPU_COMPUTE] = 96 * MS;
    assert_string_equal(find("")->id, "none");
    assert_non_null(strstr(findings.verdict, "cuda:0 computes for 96 %"));
    /* Where something is to be won it is no verdict. */
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 30 * MS;
    assert_string_equal(find("")->id, "elementwise-kernels");
    assert_string_equal(findings.verdict, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_at_its_full_clock_is_no_finding),
        TEST(clocks_that_heat_holds_back_cost_their_share_of_the_compute),
        TEST(boards_at_their_power_limit_are_as_they_are_built),
        TEST(a_board_that_slows_down_by_itself_is_found),
        TEST(clocks_that_somebody_chose_cost_their_share_of_the_compute),
        TEST(a_clock_that_nobody_tells_is_no_finding),
        TEST(memory_of_other_processes_is_a_risk_of_that_device),
        TEST(memory_on_devices_that_the_job_leaves_alone_is_no_risk_of_it),
        TEST(a_device_that_waits_pays_for_it_at_least_what_it_takes_idle),
        TEST(memory_bound_work_at_full_clock_is_told_what_it_takes),
        TEST(one_slow_worker_is_told_apart_from_slow_loading),
        TEST(workers_that_are_all_busy_are_too_few_and_none_is_slow),
        TEST(a_device_that_only_computes_has_a_verdict_and_no_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
