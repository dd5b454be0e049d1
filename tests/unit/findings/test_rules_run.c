/* What a run does beside its steps, and the room that it has in memory: each rule on
 * numbers made by hand, and the healthy job beside it. */
#include "unit/rule_summary.h"

#define GIB (1024 * MIB)

static struct gpu_device device;
static struct memory_device memory;

/* 80 GiB, of which 20 stay between steps and 10 come with each. */
static void put_memory(void)
{
    memory = (struct memory_device){.device = "cuda:0",
                                    .allocated_bytes = 20 * GIB,
                                    .reserved_bytes = 32 * GIB,
                                    .peak_bytes = 30 * GIB,
                                    .peak_op = "",
                                    .usual_peak_bytes = 30 * GIB,
                                    .least_peak_bytes = 29 * GIB,
                                    .floor_bytes = 20 * GIB,
                                    .peaks = 500,
                                    .total_bytes = 80 * GIB,
                                    .usable_bytes = 80 * GIB};
    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
}

static void checkpoints_in_steps_cost_the_time_of_their_ranges(void **state)
{
    (void)state;
    summary.cpu.saving_ns = 8 * MS; /* 800 ms, one in 100 steps */
    summary.cpu.saving_count = 0.01;
    const struct finding *finding = find("checkpoints");

    assert_true(fabs(finding->ns_per_step - 8 * MS) < 1 && finding->estimated);
    assert_non_null(strstr(finding->evidence[0].key, "checkpoint_ms"));
    assert_true(fabs(finding->evidence[0].number - 800) < 1e-6);
    summary.cpu.saving_ns = 2 * MS;
    assert_false(is_found("checkpoints"));
}

static void time_between_steps_is_told_where_none_of_them_is_missing(void **state)
{
    (void)state;
    summary.head.window.first_step = 100;
    summary.head.window.last_step = 599;
    summary.steps.outside_ns = 5000 * MS; /* of 50,000 */
    assert_false(is_found("outside-steps"));
    summary.steps.outside_ns = 20000 * MS;
    assert_true(fabs(find("outside-steps")->ns_per_step - 20 * MS) < 1);
    assert_true(findings.avoidable_ns == 0); /* no part of any step */
    summary.steps.outside_ns = 200000 * MS;  /* more than the steps take */
    assert_true(fabs(find("outside-steps")->ns_per_step - 200 * MS) < 1);
    assert_null(strstr(find("outside-steps")->formula, "at most"));
    summary.steps.outside_ns = 20000 * MS;
    summary.steps.run_train_ns = 500000 * MS;
    summary.steps.run_outside_ns = 20000 * MS; /* one gap, a moment ago */
    assert_false(is_found("outside-steps"));
    summary.steps.run_outside_ns = 250000 * MS;
    assert_true(is_found("outside-steps"));
    summary.head.window.last_step = 700; /* what lay between them was not seen */
    assert_false(is_found("outside-steps"));
    summary.head.window.first_step = NOT_KNOWN;
    assert_false(is_found("outside-steps"));
}

static void ops_that_only_move_cost_half_where_the_cpu_computes(void **state)
{
    (void)state;
    summary.cpu.moved_ns = 30 * MS;
    summary.cpu.moved_count = 200;
    assert_true(fabs(find("moved-data")->ns_per_step - 15 * MS) < 1);
    /* A trainer that loads by itself joins its samples: that is its loading. */
    number(FACT_DATALOADER_WORKERS, 0);
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 25 * MS;
    assert_false(is_found("moved-data"));
    facts[0].number = 4;
    assert_true(is_found("moved-data"));
    device = (struct gpu_device){.device = "cuda:0"};
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    assert_false(is_found("moved-data"));
}

static void what_autocast_casts_is_no_needless_move(void **state)
{
    (void)state;
    summary.cpu.moved_ns = 30 * MS;
    summary.cpu.moved_count = 200;
    assert_true(is_found("moved-data"));
    text(FACT_AMP_DTYPE, "bfloat16");
    assert_false(is_found("moved-data"));
}

static void late_batches_are_told_how_many_ahead_hide_them(void **state)
{
    (void)state;
    struct slow_step slow = {.number = 1, .duration_ns = 900 * MS, .cause = "data"};

    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 80 * MS;
    summary.rhythm.rest = extra(20 * MS, 500, EVENT_PHASE_DATA);
    summary.rhythm.rest.worst_ns = 820 * MS;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_DATALOADER_PREFETCH, 2);
    /* Eleven steps late beside what two have ahead: six more each. */
    assert_non_null(
        strstr(find("unsteady-steps")->advice[0], "`prefetch_factor=8` instead of 2"));
    facts[1].number = 6; /* so many are ahead already: the workers are too slow */
    assert_null(strstr(find("unsteady-steps")->advice[0], "prefetch"));
    facts[1].number = 2;
    summary.rhythm.rest.worst_ns = 1e12; /* no memory holds as many */
    assert_null(strstr(find("unsteady-steps")->advice[0], "prefetch"));
    facts[0].number = 0; /* the trainer loads by itself */
    assert_null(strstr(find("unsteady-steps")->advice[0], "prefetch"));
}

static void single_steps_that_need_far_more_memory_decide_what_fits(void **state)
{
    (void)state;
    put_memory();
    assert_false(is_found("memory-spike"));
    memory.peak_bytes = 60 * GIB;
    memory.peak_op = "aten::<script>alert(1)</script>\x01";
    memory.high_peaks = 3;
    const struct finding *finding = find("memory-spike-");

    assert_non_null(strstr(finding->sentence, "3 of 500 steps"));
    assert_true(finding->ns_per_step == 0 && finding->advice_count == 2);
    memory.peak_step = 700;
    summary.shown.first = 300;
    assert_int_equal(find("memory-spike-")->worst_step, 700);
    memory.high_peaks = 200; /* steps simply differ */
    assert_false(is_found("memory-spike"));
    memory.high_peaks = 3;
    memory.total_bytes = 640 * GIB; /* it matters to nothing */
    assert_false(is_found("memory-spike"));
    memory.total_bytes = (double)NAN;
    assert_false(is_found("memory-spike"));
    memory.total_bytes = 80 * GIB;
    memory.usual_peak_bytes = (double)NAN; /* too few steps */
    assert_false(is_found("memory-spike"));
}

static void a_device_that_waits_and_has_room_takes_a_larger_batch(void **state)
{
    (void)state;
    device = (struct gpu_device){.device = "cuda:0"};
    device.idle_ns[GPU_IDLE_LAUNCH] = 30 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 10 * MS;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    assert_false(is_found("larger-batch")); /* nobody knows the memory */
    put_memory();
    number(FACT_DATALOADER_BATCH_SIZE, 32);
    const struct finding *finding = find("larger-batch");

    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1 && finding->estimated);
    assert_non_null(strstr(finding->advice[0], "batch_size=64"));
    assert_non_null(strstr(finding->sentence, "4.2 such batches"));
    /* The wait itself is told first, and its time is not avoidable twice. */
    assert_string_equal(findings.list[0].id, "launch-bound");
    assert_true(fabs(findings.avoidable_ns - 40 * MS) < 1);
    memory.floor_bytes = 5 * GIB;
    memory.peak_bytes = 45 * GIB; /* two such batches do not fit */
    assert_false(is_found("larger-batch"));
    put_memory();
    memory.usable_bytes = 50 * GIB;
    assert_non_null(
        strstr(find("larger-batch")->sentence,
               "of 80 GiB less 30 GiB held outside of its allocator: about 1.5 such"));
    memory.usable_bytes = 40 * GIB;
    assert_false(is_found("larger-batch"));
    put_memory();
    memory.floor_bytes = memory.peak_bytes; /* no batch is seen */
    assert_false(is_found("larger-batch"));
    put_memory();
    device.idle_ns[GPU_IDLE_LAUNCH] = 10 * MS; /* too little to change the training */
    assert_false(is_found("larger-batch"));
}

static void a_small_batch_is_told_in_mib(void **state)
{
    (void)state;
    device = (struct gpu_device){.device = "cuda:0"};
    device.idle_ns[GPU_IDLE_LAUNCH] = 30 * MS;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    put_memory();
    memory.floor_bytes = 87.1 * MIB;
    memory.peak_bytes = memory.floor_bytes + 9.5 * MIB;
    assert_non_null(strstr(find("larger-batch")->sentence,
                           "takes 9.5 MiB beside the 87.1 MiB that stay, of 80 GiB"));
}

static void shared_memory_that_fills_is_told_before_a_worker_dies_of_it(void **state)
{
    (void)state;
    struct memory_host *host = &summary.memory.host;

    host->shared_bytes = 64 * MIB;
    host->shared_used_bytes = 60 * MIB;
    assert_false(is_found("shared-memory")); /* no worker needs it */
    number(FACT_DATALOADER_WORKERS, 4);
    assert_non_null(strstr(find("shared-memory")->advice[0], "--shm-size"));
    assert_int_equal(find("shared-memory")->severity, FINDING_HIGH);
    host->shared_used_bytes = 40 * MIB;
    assert_false(is_found("shared-memory"));
    host->shared_used_bytes = 60 * MIB;
    host->shared_bytes = (double)NAN;
    assert_false(is_found("shared-memory"));
    host->shared_bytes = 0;
    host->shared_used_bytes = 0;
    assert_false(is_found("shared-memory"));
}

static void
a_finding_shows_the_longest_step_of_its_kind_that_is_remembered(void **state)
{
    (void)state;
    summary.shown = (struct shown_steps){
        .first = 100, .longest = 101, .recorded = 102, .waited = 103};
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 30 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    summary.load.delay_share = summary.load.delay_least = 0.2;
    assert_int_equal(find("data-loading")->worst_step, 103);
    assert_int_equal(find("cpu-wait")->worst_step, 102);
    summary.shown.recorded = NOT_KNOWN;
    assert_int_equal(find("cpu-wait")->worst_step, 101);
    summary.shown.first = NOT_KNOWN;
    assert_int_equal(find("data-loading")->worst_step, NOT_KNOWN);
}

static void a_step_that_a_rule_named_is_shown_while_it_is_remembered(void **state)
{
    (void)state;
    summary.rhythm.gc = extra(8 * MS, 100, EVENT_PHASE_FORWARD);
    summary.shown.first = 77;
    assert_int_equal(find("gc-pauses")->worst_step, 77);
    summary.shown.first = 78;
    assert_int_equal(find("gc-pauses")->worst_step, NOT_KNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(checkpoints_in_steps_cost_the_time_of_their_ranges),
        TEST(time_between_steps_is_told_where_none_of_them_is_missing),
        TEST(ops_that_only_move_cost_half_where_the_cpu_computes),
        TEST(what_autocast_casts_is_no_needless_move),
        TEST(late_batches_are_told_how_many_ahead_hide_them),
        TEST(single_steps_that_need_far_more_memory_decide_what_fits),
        TEST(a_device_that_waits_and_has_room_takes_a_larger_batch),
        TEST(a_small_batch_is_told_in_mib),
        TEST(shared_memory_that_fills_is_told_before_a_worker_dies_of_it),
        TEST(a_finding_shows_the_longest_step_of_its_kind_that_is_remembered),
        TEST(a_step_that_a_rule_named_is_shown_while_it_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
