/* How torch is used: compiled, copied, spread over devices; and what a job without it is
 * told instead. */
#include "query/ops_inside.h"
#include "unit/rule_summary.h"

static struct gpu_device device;

/* It computes for 70 of 100 ms and waits for the host in the rest. */
static void put_device(void)
{
    give_device(&device, 70 * MS);
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 10 * MS;
}

/* For 9 ms of a step, in these calls. */
static void wait_in(struct op_row *rows, uint32_t count)
{
    put_device();
    device.idle_ns[GPU_IDLE_SYNC] = 9 * MS;
    summary.cpu.rows = rows;
    summary.cpu.judged_count = count;
}

static void what_is_compiled_eight_times_again_is_told_with_its_price(void **state)
{
    (void)state;
    summary.head.window.last_step = 999;
    number(FACT_COMPILE_RECOMPILATIONS, 7);
    number(FACT_COMPILE_COUNT, 10);
    number(FACT_COMPILE_SECONDS, 50);
    assert_false(is_found("recompilations"));
    facts[0].number = 8;
    /* 50 s * 8 of 10 in 1,000 steps. */
    assert_true(fabs(find("recompilations")->ns_per_step - 40 * MS) < 1);
    assert_non_null(strstr(find("recompilations")->advice[0], "TORCH_LOGS"));
    /* It is spent: no step to come gets shorter. */
    assert_true(findings.avoidable_ns == 0);
    summary.fact_count = 2;
    assert_true(find("recompilations")->ns_per_step == 0);
    assert_true(is_found("recompilations"));
    /* The first of them loaded the compiler. */
    number(FACT_COMPILE_SECONDS, 50);
    number(FACT_COMPILE_SECONDS_USUAL, 2);
    assert_true(fabs(find("recompilations")->ns_per_step - 16 * MS) < 1);
}

static void slow_steps_that_compile_are_not_told_twice(void **state)
{
    (void)state;
    summary.head.window.last_step = 999;
    summary.rhythm.period = extra(12 * MS, 25, EVENT_PHASE_FORWARD);
    summary.rhythm.period_steps = 20; /* of 500: each takes 240 ms longer */
    number(FACT_COMPILE_RECOMPILATIONS, 30);
    number(FACT_COMPILE_COUNT, 32);
    number(FACT_COMPILE_SECONDS, 5);
    number(FACT_COMPILE_SECONDS_USUAL, 0.25);
    assert_true(is_found("recompilations"));
    assert_false(is_found("periodic-steps"));
    facts[3].number = 0.05;
    assert_true(is_found("periodic-steps"));
    facts[3].number = 0.25;
    facts[0].number =
        20; /* fewer than there are slow steps: these have another cause */
    assert_true(is_found("periodic-steps"));
    facts[0].number = 30;
    number(FACT_COMPILE_RECOMPILATIONS_MOST, 2); /* which is no finding */
    assert_false(is_found("recompilations"));
    assert_true(is_found("periodic-steps"));
}

static void what_was_compiled_is_no_price_of_steps_long_ago(void **state)
{
    (void)state;
    summary.head.window.last_step = 20;
    summary.head.window.to_ns = 2000 * (int64_t)MS;
    summary.head.now_ns = 8000 * (int64_t)MS;
    number(FACT_COMPILE_RECOMPILATIONS, 8);
    number(FACT_COMPILE_COUNT, 10);
    number(FACT_COMPILE_SECONDS, 50);
    assert_true(is_found("recompilations"));
    assert_true(find("recompilations")->ns_per_step == 0);
}

static void what_was_compiled_before_the_window_is_no_price_of_its_steps(void **state)
{
    (void)state;
    struct slow_step slow[3] = {{.over_ns = 8200 * MS, .cause = "forward"},
                                {.over_ns = 7500 * MS, .cause = "forward"},
                                {.over_ns = 900 * MS, .cause = "unknown"}};
    const struct finding *finding;

    summary.steps.train.mean_ns = summary.steps.train.p50_ns = 50 * MS;
    summary.rhythm.median_other_ns = 1 * MS;
    summary.steps.train.error_pct = 1;
    summary.head.window.first_step = 500;
    summary.head.window.last_step = 999;
    number(FACT_COMPILE_RECOMPILATIONS, 12);
    number(FACT_COMPILE_COUNT, 14);
    number(FACT_COMPILE_SECONDS, 112);
    number(FACT_COMPILE_RECOMPILATIONS_MOST, 7);
    finding = find("recompilations");
    assert_true(finding->open && finding->ns_per_step == 0);
    assert_int_equal(finding->severity, FINDING_LOW);
    assert_non_null(strstr(finding->sentence, "recompile_limit"));
    assert_non_null(strstr(finding->sentence, "uncompiled"));
    /* Of its own slow steps two took as much longer as a compilation does. */
    summary.steps.slow = slow;
    summary.steps.slow_count = 3;
    finding = find("recompilations");
    assert_false(finding->open);
    assert_true(fabs(finding->ns_per_step - 15700 * MS / 500) < 1);
    assert_non_null(strstr(finding->formula, "2 steps"));
    assert_true(findings.avoidable_ns == 0);
}

static void compiling_at_a_period_costs_what_its_steps_take_longer(void **state)
{
    (void)state;
    summary.head.window.first_step = 500;
    summary.head.window.last_step = 999;
    summary.rhythm.period = extra(12 * MS, 25, EVENT_PHASE_FORWARD);
    summary.rhythm.period_steps = 20; /* of 500: each takes 240 ms longer */
    number(FACT_COMPILE_RECOMPILATIONS, 30);
    number(FACT_COMPILE_COUNT, 32);
    number(FACT_COMPILE_SECONDS, 5);
    number(FACT_COMPILE_SECONDS_USUAL, 0.25);
    assert_true(fabs(find("recompilations")->ns_per_step - 12 * MS) < 1);
    assert_true(fabs(find("recompilations")->high_ns - 13.2 * MS) < 1);
}

static void compiling_never_costs_more_than_the_step(void **state)
{
    (void)state;
    summary.head.window.last_step = 199;
    number(FACT_COMPILE_RECOMPILATIONS, 12);
    number(FACT_COMPILE_COUNT, 14);
    number(FACT_COMPILE_SECONDS, 112);
    assert_true(find("recompilations")->ns_per_step == 100 * MS);
    assert_true(find("recompilations")->high_ns == 100 * MS);
    assert_non_null(strstr(find("recompilations")->formula, "at most the step"));
}

static void many_functions_compiled_a_second_time_are_no_finding(void **state)
{
    (void)state;
    summary.head.window.last_step = 999;
    number(FACT_COMPILE_RECOMPILATIONS, 30);
    number(FACT_COMPILE_COUNT, 60);
    number(FACT_COMPILE_SECONDS, 50);
    number(FACT_COMPILE_RECOMPILATIONS_MOST, 1);
    assert_false(is_found("recompilations"));
    /* The eighth compilation of one is the last that torch makes. */
    facts[3].number = 7;
    assert_true(fabs(find("recompilations")->ns_per_step - 25 * MS) < 1);
}

static void graph_breaks_cost_where_a_device_waits_for_the_host(void **state)
{
    (void)state;
    number(FACT_COMPILE_GRAPH_BREAKS, 3);
    put_device();
    assert_true(fabs(find("graph-breaks")->ns_per_step - 15 * MS) < 1);
    assert_true(find("graph-breaks")->estimated);
    facts[0].number = 0;
    assert_false(is_found("graph-breaks"));
}

static void graph_breaks_on_the_cpu_are_a_risk_without_a_price(void **state)
{
    (void)state;
    assert_false(is_found("host-graph-breaks"));
    number(FACT_COMPILE_GRAPH_BREAKS, 1);
    const struct finding *finding = find("host-graph-breaks");

    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    assert_int_equal(finding->severity, FINDING_LOW);
    assert_non_null(strstr(finding->sentence, "at 1 place, and Python calls"));
    assert_non_null(strstr(finding->advice[0], "TORCH_LOGS"));
    /* A device may hide them, and of it nothing is known. */
    number(FACT_DEVICE_COUNT, 1);
    assert_false(is_found("host-graph-breaks"));
    facts[1].number = 0;
    facts[0].number = 0;
    assert_false(is_found("host-graph-breaks"));
}

static void data_parallel_is_told_of_the_distributed_one(void **state)
{
    (void)state;
    put_device();
    text(FACT_DISTRIBUTED_WRAPPER, "DataParallel");
    assert_non_null(strstr(find("data-parallel")->advice[0], "torchrun"));
    facts[0].text = "DDP";
    assert_false(is_found("data-parallel"));
}

static void gloo_is_wrong_for_gpus_and_right_for_cpus(void **state)
{
    (void)state;
    text(FACT_DISTRIBUTED_BACKEND, "gloo");
    assert_false(is_found("gloo-on-gpus"));
    put_device();
    number(FACT_DEVICE_COUNT, 2);
    assert_non_null(strstr(find("gloo-on-gpus")->advice[0], "nccl"));
    facts[0].text = "nccl";
    assert_false(is_found("gloo-on-gpus"));
}

static void zeros_in_gradients_cost_what_the_device_waits_for_them(void **state)
{
    (void)state;
    summary.cpu.zero_grad_ns = 6 * MS;
    summary.cpu.zeroed = 60;
    assert_false(is_found("zero-grad")); /* on the CPU it is no loss */
    put_device();
    assert_true(fabs(find("zero-grad")->ns_per_step - 6 * MS) < 1);
    device.idle_ns[GPU_IDLE_LAUNCH] = 3.5 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 0;
    assert_true(fabs(find("zero-grad")->ns_per_step - 3.5 * MS) < 1);
    number(FACT_OPTIMIZER_PARAMETERS, 60);
    assert_true(is_found("zero-grad"));
    facts[0].number = 150; /* set_to_none: the 60 are others */
    assert_false(is_found("zero-grad"));
}

static void
copies_of_pageable_memory_are_priced_by_the_jobs_own_pinned_ones(void **state)
{
    (void)state;
    struct gpu_run_copies copies[2] = {
        {.way = EVENT_COPY_H2D,
         .pageable = true,
         .count = 100,
         .bytes = 30000000000,
         .ns = 9000 * MS, /* weights too, before the first step */
         .step_bytes = 3e9,
         .step_count = 60,
         .step_ns = 1000 * MS},
        {.way = EVENT_COPY_H2D, .count = 100, .step_bytes = 3e9, .step_ns = 250 * MS}};
    struct op_row row = {.name = "cudaMemcpyAsync",
                         .kind = "runtime",
                         .per_step_count = 2,
                         .per_step_ns = 15 * MS,
                         .caller = "to_device (train.py:9)"};

    put_device();
    device.run.copies = copies;
    device.run.copy_count = 1;
    device.use_ns[GPU_COPY] = 12 * MS;
    device.idle_ns[GPU_IDLE_COPY] = 8 * MS;
    /* Half of it, for nothing tells what pinned ones take. */
    assert_true(fabs(find("pageable-copies")->ns_per_step - 10 * MS) < 1);
    assert_non_null(strstr(find("pageable-copies")->advice[0], "pin_memory"));
    /* 3 GB/s on a link of 31.5. */
    summary.hardware.rows =
        &(struct hardware_row){.device = "cuda:0", .pcie_most = 4, .pcie_width = 16};
    summary.hardware.row_count = 1;
    assert_true(fabs(find("pageable-copies")->ns_per_step -
                     20 * MS * (1 - 3 / (0.85 * 31.52))) < 1);
    /* A link that is full as it is carries no more of pinned memory. */
    summary.hardware.rows[0].pcie_most = 3;
    summary.hardware.rows[0].pcie_width = 4;
    assert_false(is_found("pageable-copies"));
    summary.hardware.rows[0].pcie_most = 4;
    summary.hardware.rows[0].pcie_width = 16;
    copies[0].step_count = 1000000; /* which take their start, not the link */
    assert_true(fabs(find("pageable-copies")->ns_per_step - 10 * MS) < 1);
    /* Four fifths of the time are pageable, and pinned ones take a quarter. */
    device.run.copy_count = 2;
    assert_true(fabs(find("pageable-copies")->ns_per_step - 20 * MS * 0.8 * 0.75) < 1);
    /* What fills memory is no copy. */
    device.run.memset_step_ns = 750 * MS;
    assert_true(fabs(find("pageable-copies")->ns_per_step - 20 * MS * 0.5 * 0.75) < 1);
    device.run.memset_step_ns = 0;
    summary.cpu.rows = &row;
    summary.cpu.judged_count = 1;
    assert_non_null(strstr(find("pageable-copies")->sentence,
                           "cudaMemcpyAsync takes 15 ms in 2 calls, mostly from "
                           "`to_device (train.py:9)`"));
    /* What the loader gives is pinned: these are others. */
    number(FACT_DATALOADER_PIN_MEMORY, 1);
    assert_non_null(strstr(find("pageable-copies")->advice[0], "Tensors of your own"));
    assert_non_null(strstr(find("pageable-copies")->title, "Tensors"));
    copies[0].pageable = false;
    assert_false(is_found("pageable-copies"));
}

static void ops_that_wait_for_the_device_are_named(void **state)
{
    (void)state;
    struct op_row rows[2] = {{.name = "aten::mm", .kind = "op", .per_step_count = 80},
                             {.name = "aten::_local_scalar_dense",
                              .kind = "op",
                              .per_step_count = 12,
                              .mean_ns = 0.75 * MS}};

    put_device();
    device.idle_ns[GPU_IDLE_SYNC] = 9 * MS;
    assert_int_equal(find("device-sync")->op_count, 0);
    summary.cpu.rows = rows;
    summary.cpu.judged_count = 2;
    assert_int_equal(find("device-sync")->op_count, 1);
    assert_string_equal(find("device-sync")->ops[0], "aten::_local_scalar_dense");
    assert_non_null(strstr(find("device-sync")->sentence, "waits 12 times a step"));
    rows[1].per_step_count = 1;
    rows[1].mean_ns = 9 * MS;
    assert_non_null(strstr(find("device-sync")->sentence, "waits once a step"));
}

static void an_op_that_takes_little_of_the_wait_is_not_named_for_it(void **state)
{
    (void)state;
    struct op_row rows[2] = {
        {.name = "aten::item", /* of an optimizer's counts, on the host */
         .kind = "op",
         .per_step_count = 400,
         .mean_ns = 0.001 * MS},
        {.name = "cudaStreamSynchronize",
         .kind = "sync",
         .per_step_count = 1,
         .mean_ns = 9 * MS}};

    wait_in(rows, 2);
    assert_int_equal(find("device-sync")->op_count, 1);
    assert_non_null(strstr(find("device-sync")->sentence,
                           "; cudaStreamSynchronize (`.cpu()`, `.item()`, "
                           "`stream.synchronize()`) waits once a step"));
}

static void a_wait_is_told_as_people_write_it_and_with_its_caller(void **state)
{
    (void)state;
    struct op_row rows[2] = {{.name = "aten::nonzero",
                              .kind = "op",
                              .per_step_count = 2,
                              .mean_ns = 4.5 * MS, /* with the call in it that waits */
                              .per_step_ns = 0.1 * MS,
                              .caller = "main (train.py:31)"},
                             {.name = "cudaDeviceSynchronize",
                              .kind = "sync",
                              .per_step_count = 2,
                              .mean_ns = 3 * MS}};

    wait_in(rows, 2);
    const struct finding *finding = find("device-sync");

    assert_non_null(
        strstr(finding->sentence,
               "; aten::nonzero (`nonzero`, `tensor[mask]`) waits 2 times a "
               "step, mostly from `main (train.py:31)`"));
    assert_non_null(strstr(finding->advice[2], "torch.where"));
    assert_int_equal(finding->op_count, 2);
    summary.cpu.rows = rows + 1;
    summary.cpu.judged_count = 1;
    finding = find("device-sync");
    assert_non_null(strstr(finding->sentence, "(`torch.cuda.synchronize()`) waits 2"));
    assert_null(strstr(finding->sentence, "from"));
}

static void of_several_waits_the_dearest_is_named_first_and_the_others_too(void **state)
{
    (void)state;
    struct op_row rows[4] = {
        {.name = "aten::item", .kind = "op", .per_step_count = 1, .mean_ns = 3 * MS},
        {.name = "aten::nonzero",
         .kind = "op",
         .per_step_count = 20,
         .mean_ns = 0.3 * MS},
        {.name = "cudaStreamSynchronize",
         .kind = "sync",
         .per_step_count = 21,
         .mean_ns = 9 * MS / 21},
        {.name = "aten::is_nonzero",
         .kind = "op",
         .per_step_count = 1,
         .mean_ns = 3.01 * MS}};

    wait_in(rows, 3);
    const struct finding *finding = find("device-sync");

    assert_non_null(strstr(finding->sentence,
                           "; aten::nonzero (`nonzero`, `tensor[mask]`) waits 20 "
                           "times a step; aten::item (`.item()`, `float(tensor)`, "
                           "`if tensor:`) waits once a step"));
    assert_null(strstr(finding->sentence, "cudaStreamSynchronize"));
    assert_non_null(strstr(finding->advice[2], "torch.where"));
    /* A branch on a tensor calls `.item()`: that is one wait. */
    summary.cpu.judged_count = 4;
    finding = find("device-sync");
    assert_non_null(strstr(finding->sentence, "; aten::nonzero ("));
    assert_non_null(strstr(finding->sentence, "aten::is_nonzero (`if tensor:`) waits"));
    assert_null(strstr(finding->sentence, "aten::item"));
    /* The host waits elsewhere for the most part. */
    rows[0].mean_ns = rows[1].mean_ns = 0;
    rows[3].mean_ns = 2.5 * MS;
    finding = find("device-sync");
    assert_non_null(strstr(finding->sentence, "; cudaStreamSynchronize ("));
    assert_null(strstr(finding->sentence, "is_nonzero"));
}

static void casts_under_autocast_are_no_waits(void **state)
{
    (void)state;
    struct op_row rows[3] = {
        {.name = "aten::_to_copy",
         .kind = "op",
         .per_step_count = 300,
         .mean_ns = 0.03 * MS},
        {.name = "aten::item", .kind = "op", .per_step_count = 1, .mean_ns = 8 * MS},
        {.name = "cudaStreamSynchronize",
         .kind = "sync",
         .per_step_count = 1,
         .mean_ns = 8 * MS}};

    wait_in(rows, 3);
    assert_non_null(strstr(find("device-sync")->sentence, "; aten::item ("));
    assert_null(strstr(find("device-sync")->sentence, "_to_copy"));
    /* Where no call of the runtime is seen. */
    summary.cpu.judged_count = 2;
    text(FACT_AMP_DTYPE, "bfloat16");
    assert_null(strstr(find("device-sync")->sentence, "_to_copy"));
    /* `unique` asks how many there are: that is one wait. */
    rows[0] = (struct op_row){.name = "aten::_unique2",
                              .kind = "op",
                              .per_step_count = 1,
                              .mean_ns = 8.5 * MS};
    assert_non_null(strstr(find("device-sync")->sentence, "; aten::_unique2 ("));
    assert_null(strstr(find("device-sync")->sentence, "item"));
}

static void copies_that_the_host_prepares_are_told_with_their_caller(void **state)
{
    (void)state;
    struct op_row row = {.name = "cudaMemcpyAsync",
                         .kind = "runtime",
                         .per_step_count = 4,
                         .per_step_ns = 8 * MS,
                         .caller = "main (train.py:9)"};

    put_device();
    device.idle_ns[GPU_IDLE_COPY] = 9 * MS;
    assert_null(strstr(find("host-copies")->sentence, "Memcpy"));
    summary.cpu.rows = &row;
    summary.cpu.judged_count = 1;
    assert_non_null(strstr(find("host-copies")->sentence,
                           "; cudaMemcpyAsync takes 8 ms in 4 calls, mostly from "
                           "`main (train.py:9)`"));
    row.per_step_ns = 1 * MS; /* not what is waited for */
    assert_null(strstr(find("host-copies")->sentence, "Memcpy"));
}

static void odd_dimensions_show_in_the_names_of_kernels(void **state)
{
    (void)state;
    assert_int_equal(
        kernel_family("cutlass_80_tensorop_f16_s16816gemm_f16_128x64_64x3_nn_align2"),
        KERNEL_UNALIGNED);
    assert_int_equal(
        kernel_family("cutlass_80_tensorop_f16_s16816gemm_f16_128x64_64x3_nn_align8"),
        KERNEL_OTHER);
    assert_int_equal(
        kernel_family("cutlass_80_tensorop_i8_gemm_128x64_64x3_nn_align16"),
        KERNEL_OTHER);
    put_device();
    summary.cuda.family_ns[KERNEL_UNALIGNED] = 40 * MS;
    assert_true(fabs(find("unaligned-products")->ns_per_step - 14 * MS) < 1);
}

static void
a_grid_that_leaves_multiprocessors_without_work_costs_their_share(void **state)
{
    (void)state;
    struct op_row rows[3] = {
        {.name = "small",
         .kind = "kernel",
         .per_step_ns = 40 * MS,
         .launch = {.known = true, .grid = {33, 1, 1}}},
        {.name = "large",
         .kind = "kernel",
         .per_step_ns = 20 * MS,
         .launch = {.known = true, .grid = {64, 64, 1}}},
        {.name = "not known", .kind = "kernel", .per_step_ns = MS}};

    put_device();
    for (uint32_t i = 0; i < 3; i++)
        ops_sums_add(&rows[i], &summary.cuda);
    assert_false(is_found("small-grids")); /* nobody knows how many there are */
    summary.cuda.multiprocessors = 132;
    for (uint32_t i = 0; i < 3; i++)
        ops_sums_add(&rows[i], &summary.cuda);
    assert_true(fabs(find("small-grids")->ns_per_step - 40 * MS * 0.75 * 0.7 / 2) < 1);
    assert_int_equal(find("small-grids")->op_count, 0); /* no row is listed */
    summary.cuda.rows = rows;
    summary.cuda.judged_count = 3;
    assert_int_equal(find("small-grids")->op_count, 1);
    assert_string_equal(find("small-grids")->ops[0], "small");
}

static void collectives_are_of_few_blocks_on_purpose(void **state)
{
    (void)state;
    struct op_row row = {.name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)",
                         .kind = "kernel",
                         .family = KERNEL_COLLECTIVE,
                         .per_step_ns = 40 * MS,
                         .per_step_count = 2,
                         .launch = {.known = true, .grid = {24, 1, 1}}};

    put_device();
    summary.cuda.multiprocessors = 132;
    ops_sums_add(&row, &summary.cuda);
    assert_false(is_found("small-grids"));
}

static void what_is_reserved_and_never_used_is_told_when_little_is_left(void **state)
{
    (void)state;
    struct memory_device memory = {.device = "cuda:0",
                                   .reserved_bytes = 70 * 1024 * MIB,
                                   .peak_bytes = 50 * 1024 * MIB,
                                   .total_bytes = 80 * 1024 * MIB};

    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    assert_non_null(strstr(find("fragmentation")->advice[0], "expandable_segments"));
    memory.total_bytes = 160 * 1024 * MIB; /* room enough */
    assert_false(is_found("fragmentation"));
    memory.total_bytes = 80 * 1024 * MIB;
    memory.peak_bytes = 60 * 1024 * MIB;
    assert_false(is_found("fragmentation"));
    memory.total_bytes = (double)NAN;
    assert_false(is_found("fragmentation"));
}

static bool speaks_torch(const struct finding *finding)
{
    static const char *const words[] = {"num_workers", "DataLoader", "torch", "loss.",
                                        ".item()"};

    for (uint32_t i = 0; i < finding->advice_count; i++)
        for (size_t j = 0; j < sizeof(words) / sizeof(words[0]); j++)
            if (strstr(finding->advice[i], words[j]) != NULL)
                return true;
    return false;
}

static void a_job_without_python_is_advised_in_the_words_of_its_own_loop(void **state)
{
    (void)state;
    struct memory_device memory = {.device = "cpu",
                                   .growth = {.slope_bytes_per_s = MIB, .sure = true}};

    summary.native = true;
    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 20 * MS;
    summary.rhythm.median_other_ns = 10 * MS;
    summary.rhythm.period = extra(8 * MS, 10, EVENT_PHASE_OPTIMIZER);
    summary.rhythm.period_steps = 50;
    summary.rhythm.drift = extra(20 * MS, 500, EVENT_PHASE_FORWARD);
    assert_non_null(strstr(find("data-loading")->advice[0], "thread"));
    assert_non_null(strstr(find("data-loading")->formula, "a thread that loads ahead"));
    assert_true(is_found("between-steps") && is_found("periodic-steps") &&
                is_found("step-drift") && is_found("memory-growth"));
    for (uint32_t i = 0; i < findings.count; i++) {
        assert_true(findings.list[i].advice_count > 0);
        assert_false(speaks_torch(&findings.list[i]));
    }
    summary.native = false;
    assert_true(speaks_torch(find("data-loading")));
}

/* A kernel that takes 40 of 100 ms. */
static void put_dominant(struct op_row *row)
{
    *row = (struct op_row){.name = "void scatter_kernel<float>()",
                           .kind = "kernel",
                           .per_step_ns = 40 * MS,
                           .per_step_count = 2,
                           .mean_ns = 20 * MS,
                           .launch = {.occupancy_pct = (double)NAN}};
    summary.cuda.rows = row;
    summary.cuda.judged_count = 1;
}

static void a_cuda_program_without_python_is_advised_in_cudas_words(void **state)
{
    static const char *const ids[] = {"launch-bound", "device-sync", "collective-wait",
                                      "python-between-ops", "dominant-kernel"};
    struct op_row row;

    (void)state;
    put_device();
    device.idle_ns[GPU_IDLE_SYNC] = 20 * MS;
    device.idle_ns[GPU_IDLE_COLLECTIVE] = 20 * MS;
    summary.native = true;
    put_dominant(&row);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_true(is_found(ids[i]));
    for (uint32_t i = 0; i < findings.count; i++) {
        assert_true(findings.list[i].advice_count > 0);
        assert_false(speaks_torch(&findings.list[i]));
        assert_null(strstr(findings.list[i].title, "Python"));
    }
}

/* A device, and looks at a thread that was seen asleep there. */
static struct between_ops *put_looks(const char *place)
{
    struct between_ops *between = &summary.between_ops;

    put_device();
    between->looks = 600;
    for (uint32_t part = 0; part <= EVENT_PHASES; part++)
        between->place[part] = place;
    return between;
}

static void a_sleep_for_which_the_device_waits_is_named(void **state)
{
    struct between_ops *between = put_looks("");

    (void)state;
    between->asleep[EVENT_PHASE_FORWARD].share = 0.08;
    assert_null(strstr(find("python-between-ops")->sentence, "off the CPU"));
    between->place[EVENT_PHASE_FORWARD] = "hrtimer_nanosleep";
    assert_non_null(
        strstr(find("python-between-ops")->sentence,
               "for 8 ms of each step the training thread is off the CPU with "
               "no op open, mostly in a sleep"));
    assert_non_null(strstr(find("python-between-ops")->advice[1], "time.sleep"));
    /* It waits for a lock, and another thread runs. */
    between->place[EVENT_PHASE_FORWARD] = "futex_wait_queue";
    between->behind[EVENT_PHASE_FORWARD].share = 0.07;
    between->runner = 4711;
    between->runner_name = "metrics";
    assert_non_null(strstr(find("python-between-ops")->sentence,
                           "mostly waiting for another thread; thread 4711 (`metrics`) "
                           "runs meanwhile"));
    assert_non_null(strstr(find("python-between-ops")->advice[1], "in a process"));
}

static void a_sleep_that_does_not_explain_the_wait_is_not_named(void **state)
{
    struct between_ops *between = put_looks("futex_wait_queue");

    (void)state;
    between->runner_name = "pt_autograd_0";
    /* For autograd's own thread. */
    between->asleep[EVENT_PHASE_BACKWARD].share = 0.4;
    between->behind[EVENT_PHASE_BACKWARD].share = 0.4;
    assert_null(strstr(find("python-between-ops")->sentence, "off the CPU"));
    /* Of what costs 10 ms. */
    between->asleep[EVENT_PHASE_FORWARD].share = 0.02;
    assert_null(strstr(find("python-between-ops")->sentence, "off the CPU"));
    between->asleep[EVENT_PHASE_FORWARD].share = 0.08;
    assert_non_null(strstr(find("python-between-ops")->sentence, "off the CPU"));
    summary.native = true;
    assert_null(strstr(find("python-between-ops")->sentence, "off the CPU"));
}

static void zeros_and_launches_do_not_give_back_the_same_wait_twice(void **state)
{
    (void)state;
    put_device();
    device.use_ns[GPU_COMPUTE] = 60 * MS;
    device.idle_ns[GPU_IDLE_UNKNOWN] = 10 * MS; /* room for what is counted twice */
    summary.steps.train.other_ns = 20 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_BACKWARD] = 33 * MS;
    summary.cpu.zero_grad_ns = 6 * MS;
    summary.cpu.zeroed = 10;
    assert_true(fabs(find("zero-grad")->owned_ns - 6 * MS) < 1);
    assert_true(is_found("launch-bound") && is_found("python-between-ops"));
    assert_true(fabs(findings.avoidable_ns - 30 * MS) < 1);
}

static void what_is_compiled_is_told_the_mode_and_not_to_compile(void **state)
{
    (void)state;
    struct op_row row;

    put_device();
    put_dominant(&row);
    assert_non_null(
        strstr(find("launch-bound")->advice[0], "torch.compile(model, mode"));
    assert_non_null(
        strstr(find("python-between-ops")->advice[1], "torch.compile(model)"));
    assert_non_null(
        strstr(find("dominant-kernel-")->advice[1], "torch.compile(model)"));
    number(FACT_COMPILE_USED, 1);
    assert_non_null(
        strstr(find("launch-bound")->advice[0], "mode=\"reduce-overhead\""));
    assert_non_null(strstr(find("dominant-kernel-")->advice[1], "max-autotune"));
    for (uint32_t i = 0; i < findings.count; i++)
        for (uint32_t j = 0; j < findings.list[i].advice_count; j++)
            assert_null(strstr(findings.list[i].advice[j], "torch.compile(model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_compiled_is_told_the_mode_and_not_to_compile),
        TEST(what_is_compiled_eight_times_again_is_told_with_its_price),
        TEST(slow_steps_that_compile_are_not_told_twice),
        TEST(what_was_compiled_is_no_price_of_steps_long_ago),
        TEST(what_was_compiled_before_the_window_is_no_price_of_its_steps),
        TEST(compiling_at_a_period_costs_what_its_steps_take_longer),
        TEST(compiling_never_costs_more_than_the_step),
        TEST(many_functions_compiled_a_second_time_are_no_finding),
        TEST(graph_breaks_cost_where_a_device_waits_for_the_host),
        TEST(graph_breaks_on_the_cpu_are_a_risk_without_a_price),
        TEST(data_parallel_is_told_of_the_distributed_one),
        TEST(gloo_is_wrong_for_gpus_and_right_for_cpus),
        TEST(zeros_in_gradients_cost_what_the_device_waits_for_them),
        TEST(copies_of_pageable_memory_are_priced_by_the_jobs_own_pinned_ones),
        TEST(ops_that_wait_for_the_device_are_named),
        TEST(an_op_that_takes_little_of_the_wait_is_not_named_for_it),
        TEST(of_several_waits_the_dearest_is_named_first_and_the_others_too),
        TEST(casts_under_autocast_are_no_waits),
        TEST(a_wait_is_told_as_people_write_it_and_with_its_caller),
        TEST(copies_that_the_host_prepares_are_told_with_their_caller),
        TEST(odd_dimensions_show_in_the_names_of_kernels),
        TEST(a_grid_that_leaves_multiprocessors_without_work_costs_their_share),
        TEST(collectives_are_of_few_blocks_on_purpose),
        TEST(what_is_reserved_and_never_used_is_told_when_little_is_left),
        TEST(a_cuda_program_without_python_is_advised_in_cudas_words),
        TEST(a_sleep_for_which_the_device_waits_is_named),
        TEST(a_sleep_that_does_not_explain_the_wait_is_not_named),
        TEST(zeros_and_launches_do_not_give_back_the_same_wait_twice),
        TEST(a_job_without_python_is_advised_in_the_words_of_its_own_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
