/* Calls of the runtime, kernels by what they are, and the link to a device: each rule on
 * numbers made by hand, and the healthy job beside it. */
#include "query/ops_inside.h"
#include "unit/rule_summary.h"

#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"

static struct gpu_device device;
static struct hardware_row row;

/* It computes for 60 of 100 ms, and idles for launches and syncs in the rest. */
static void put_device(void)
{
    give_device(&device, 60 * MS);
    device.idle_ns[GPU_IDLE_SYNC] = 4 * MS;
}

static void slow_launches_cost_what_the_device_waits_for_them(void **state)
{
    (void)state;
    struct op_row rows[2] = {{.name = "aten::mm", .kind = "op", .p50_ns = 9e9},
                             {.name = "cudaLaunchKernel",
                              .kind = "runtime",
                              .per_step_ns = 40 * MS,
                              .per_step_count = 400,
                              .p50_ns = 90e3,
                              .mean_ns = 100e3}};

    put_device();
    summary.cpu.rows = rows;
    summary.cpu.judged_count = 2;
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    /* 36 ms over 10 us a launch, and the device waits for 24. */
    assert_true(fabs(find("slow-launches")->ns_per_step - 24 * MS) < 1);
    assert_non_null(strstr(find("slow-launches")->advice[0], "CUDA_LAUNCH_BLOCKING"));
    /* A queue that is full makes launches long, and the device is never idle. */
    device.idle_ns[GPU_IDLE_LAUNCH] = device.idle_ns[GPU_IDLE_SYNC] = 0;
    assert_false(is_found("slow-launches"));
    /* A few kernels that are loaded when first used make the mean long, and no more. */
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    rows[1].p50_ns = 8e3;
    assert_false(is_found("slow-launches"));
    rows[1].p50_ns = (double)NAN;
    assert_false(is_found("slow-launches"));
}

static void launches_of_graphs_take_long_for_their_nodes(void **state)
{
    struct op_row rows[2] = {{.name = "cudaGraphLaunch",
                              .kind = "runtime",
                              .per_step_ns = 40 * MS,
                              .per_step_count = 20,
                              .p50_ns = 2 * MS,
                              .mean_ns = 2 * MS},
                             {.name = "cudaLaunchKernel",
                              .kind = "runtime",
                              .per_step_ns = 30 * MS,
                              .per_step_count = 300,
                              .p50_ns = 8e3,
                              .mean_ns = 100e3}};

    (void)state;
    put_device();
    summary.cpu.rows = rows;
    summary.cpu.judged_count = 2;
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    assert_false(is_found("slow-launches"));
    rows[0].name = "hipGraphLaunch";
    assert_false(is_found("slow-launches"));
    rows[1].p50_ns = 90e3; /* the kernels beside the graphs are slow */
    assert_string_equal(find("slow-launches")->evidence[1].text, "cudaLaunchKernel");
}

static void pinning_in_each_step_costs_what_the_device_waits_meanwhile(void **state)
{
    (void)state;
    summary.cpu.call_ns[OPS_CALL_PIN] = 9 * MS;
    summary.cpu.call_count[OPS_CALL_PIN] = 2;
    assert_false(is_found("pinned-allocations")); /* no device is known to wait */
    put_device();
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    assert_false(is_found("pinned-allocations")); /* it waits for something else */
    device.idle_ns[GPU_IDLE_ALLOC] = 6 * MS;
    assert_true(fabs(find("pinned-allocations")->ns_per_step - 6 * MS) < 1);
    assert_non_null(strstr(find("pinned-allocations")->advice[0], "pin_memory"));
    /* The general rule has nothing to add, unless there is more of that wait. */
    assert_false(is_found("device-alloc"));
    device.idle_ns[GPU_IDLE_ALLOC] = 15 * MS;
    assert_true(fabs(find("device-alloc")->ns_per_step - 6 * MS) < 1);
    assert_true(fabs(find("pinned-allocations")->ns_per_step - 9 * MS) < 1);
}

static void what_is_set_up_is_told_with_the_longest_call(void **state)
{
    (void)state;
    struct op_row rows[] = {
        {.name = "aten::empty", .kind = "op", .max_ns = 900 * MS},
        {.name = "cudaMemcpyAsync", .kind = "runtime", .max_ns = 500 * MS},
        {.name = "cudaHostAlloc", .kind = "runtime", .max_ns = 400 * MS},
        {.name = "cudaGraphLaunch", .kind = "runtime", .max_ns = 400 * MS},
        {.name = "cudaFree", .kind = "runtime", .max_ns = 90 * MS},
        {.name = "cudaEventRecord", .kind = "runtime", .max_ns = 1 * MS},
        {.name = "cudaLaunchKernel",
         .kind = "runtime",
         .max_ns = 80 * MS,
         .p50_ns = 8e3},
        {.name = "cuModuleLoadData", .kind = "runtime", .max_ns = 300 * MS}};

    put_device();
    summary.cpu.rows = rows;
    summary.cpu.judged_count = 8;
    device.idle_ns[GPU_IDLE_SETUP] = 2 * MS;
    assert_false(is_found("device-setup"));
    device.idle_ns[GPU_IDLE_SETUP] = 25 * MS;
    assert_true(fabs(find("device-setup")->ns_per_step - 25 * MS) < 1);
    assert_string_equal(find("device-setup")->ops[0], "cuModuleLoadData");
    assert_non_null(strstr(find("device-setup")->sentence, "took 300 ms"));
    assert_int_equal(find("device-setup")->claim_count, 0); /* nothing is to be won */
    assert_false(is_found("launch-bound"));
    /* A recording can begin later, a run cannot, nor can what it wrote. */
    assert_int_equal(find("device-setup")->advice_count, 1);
    summary.head.from_file = summary.own_file = true;
    assert_int_equal(find("device-setup")->advice_count, 1);
    summary.own_file = false;
    assert_non_null(strstr(find("device-setup")->advice[0], "schedule("));
    summary.cpu.judged_count = 6; /* a graph was captured, in calls that are short */
    assert_null(strstr(find("device-setup")->sentence, "; one"));
}

static void launches_that_are_always_long_load_nothing(void **state)
{
    (void)state;
    struct op_row call = {.name = "cudaLaunchKernel",
                          .kind = "runtime",
                          .per_step_ns = 60 * MS,
                          .per_step_count = 10,
                          .p50_ns = 25 * MS,
                          .mean_ns = 25 * MS,
                          .max_ns = 30 * MS};

    put_device();
    device.idle_ns[GPU_IDLE_SYNC] = 0;
    device.idle_ns[GPU_IDLE_SETUP] = 30 * MS;
    summary.cpu.rows = &call;
    summary.cpu.judged_count = 1;
    assert_true(fabs(find("slow-launches")->ns_per_step - 30 * MS) < 1);
    assert_false(is_found("device-setup"));
}

static void an_allocator_that_asks_the_driver_in_each_step_is_found(void **state)
{
    (void)state;
    struct memory_device memory = {.device = "cuda:0",
                                   .total_bytes = (double)NAN,
                                   .segments_got = 40,
                                   .segments_given_back = 39,
                                   .driver_ns = 30 * MS,
                                   .driver_lasting_ns = 12 * MS};

    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    /* Nothing is known of what the device does meanwhile. */
    assert_true(fabs(find("allocator-calls")->ns_per_step - 6 * MS) < 1);
    assert_non_null(
        strstr(find("allocator-calls")->title, "taken from the driver anew"));
    put_device();
    assert_false(is_found("allocator-calls")); /* it never waits for that */
    device.idle_ns[GPU_IDLE_ALLOC] = 9 * MS;
    assert_true(fabs(find("allocator-calls")->ns_per_step - 9 * MS) < 1);
    /* The general rule has nothing to add, unless there is more of that wait. */
    assert_false(is_found("device-alloc"));
    device.idle_ns[GPU_IDLE_ALLOC] = 20 * MS;
    assert_true(fabs(find("allocator-calls")->ns_per_step - 12 * MS) < 1);
    assert_true(fabs(find("device-alloc")->ns_per_step - 8 * MS) < 1);
    memory.retries = 7;
    assert_non_null(strstr(find("allocator-calls")->title, "runs out"));
    assert_non_null(strstr(find("allocator-calls")->sentence, "refused 7 times"));
    memory.retries = memory.segments_got = 1;
    assert_non_null(strstr(find("allocator-calls")->sentence, ", refused once"));
    assert_non_null(strstr(find("allocator-calls")->sentence,
                           ": 1 segment taken and 39 given back"));
    /* The first steps take what the model needs. */
    memory.driver_lasting_ns = 0;
    assert_false(is_found("allocator-calls"));
    memory.driver_lasting_ns = (double)NAN;
    assert_false(is_found("allocator-calls"));
}

static void memory_that_is_set_and_waited_for_is_found(void **state)
{
    (void)state;
    put_device();
    summary.cpu.call_ns[OPS_CALL_FILL] = 5 * MS;
    summary.cpu.call_count[OPS_CALL_FILL] = 100;
    assert_true(fabs(find("sync-memset")->ns_per_step - 4 * MS) < 1);
    assert_non_null(strstr(find("sync-memset")->sentence, "are 100 calls to set"));
    summary.cpu.call_count[OPS_CALL_FILL] = 1;
    assert_non_null(strstr(find("sync-memset")->sentence, "are 1 call to set memory"));
    assert_non_null(strstr(find("sync-memset")->formula, "min(5 ms in 1 call, "));
    summary.cpu.call_ns[OPS_CALL_FILL] = 1 * MS;
    assert_false(is_found("sync-memset"));
}

static void what_a_call_is_named_for_is_told_by_no_general_rule(void **state)
{
    (void)state;
    put_device();
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    device.idle_ns[GPU_IDLE_SYNC] = 16 * MS;
    summary.cpu.call_ns[OPS_CALL_FILL] = 40 * MS;
    summary.cpu.call_count[OPS_CALL_FILL] = 100;
    assert_true(fabs(find("sync-memset")->ns_per_step - 36 * MS) < 1);
    assert_false(is_found("launch-bound"));
    assert_false(is_found("device-sync"));
    /* Half of either wait: the general rules have the rest of theirs. */
    summary.cpu.call_ns[OPS_CALL_FILL] = 18 * MS;
    assert_true(fabs(find("launch-bound")->ns_per_step - 10 * MS) < 1);
    assert_true(fabs(find("device-sync")->ns_per_step - 8 * MS) < 1);
}

static void add(const char *name, const char *kind)
{
    struct op_row of = {.name = name,
                        .kind = kind,
                        .count = 500,
                        .self_ns = 500 * MS,
                        .per_step_ns = MS,
                        .per_step_count = 1};

    ops_sums_add(&of, &summary.cpu);
}

static void names_decide_which_sum_an_op_is_in(void **state)
{
    (void)state;
    add("cudaMemsetAsync", "runtime");
    add("cudaMemset", "runtime");
    add("cudaMemset", "op"); /* a name of the user's */
    add("cudaHostAlloc", "runtime");
    add("cudaFreeHost", "runtime");
    add("cudaMalloc", "runtime");
    add("aten::cat", "op");
    add("aten::cat_and_dog", "op");
    add("save_checkpoint", "range");
    add("save_checkpoint", "op");
    add("torch.save", "range"); /* inside of the other */
    assert_true(summary.cpu.call_ns[OPS_CALL_FILL] == 1 * MS);
    assert_true(summary.cpu.call_ns[OPS_CALL_PIN] == 2 * MS);
    assert_true(summary.cpu.moved_ns == 1 * MS && summary.cpu.moved_count == 1);
    assert_true(summary.cpu.saving_ns == 1 * MS && summary.cpu.saving_count == 1);
    struct op_row of = {.name = "aten::cat", .kind = "op", .per_step_ns = (double)NAN};

    ops_sums_add(&of, &summary.cpu);
    assert_true(summary.cpu.moved_ns == 1 * MS);
}

static void float64_shows_in_what_kernels_read_and_not_in_their_constants(void **state)
{
    (void)state;
    assert_int_equal(kernel_family("void gemmSN_NN_kernel<double, 128, 2>"),
                     KERNEL_FLOAT64);
    assert_int_equal(kernel_family("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1"),
                     KERNEL_FLOAT64);
    assert_int_equal(
        kernel_family("void at::native::vectorized_elementwise_kernel<4, "
                      "at::native::CUDAFunctor_add<double>, std::array<char*, 3ul> >"),
        KERNEL_FLOAT64);
    assert_int_equal(
        kernel_family("void at::native::vectorized_elementwise_kernel<4, "
                      "at::native::AddFunctor<float>, std::array<char*, 3ul> >"),
        KERNEL_ELEMENTWISE);
    assert_int_equal(
        kernel_family("void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata"
                      "<4>, FusedAdamMathFunctor<float, 4, (ADAM_MODE)0, false>, "
                      "float const*, double, double, double, double, bool>"),
        KERNEL_OTHER);
    struct op_row rows[2] = {{.name = "a product", .kind = "kernel"},
                             {.name = "in float64", .family = KERNEL_FLOAT64}};

    put_device();
    summary.cuda.rows = rows;
    summary.cuda.judged_count = 2;
    summary.cuda.family_ns[KERNEL_FLOAT64] = 30 * MS;
    assert_true(fabs(find("float64-kernels")->ns_per_step - 30 * MS * 0.6 / 2) < 1);
    assert_true(find("float64-kernels")->estimated);
    assert_int_equal(find("float64-kernels")->op_count, 1);
    assert_string_equal(find("float64-kernels")->ops[0], "in float64");
    device.use_ns[GPU_COMPUTE] = 40 * MS; /* it is not what steps wait for */
    assert_false(is_found("float64-kernels"));
}

static void collectives_that_are_all_start_are_joined(void **state)
{
    (void)state;
    put_device();
    assert_int_equal(kernel_family(NCCL), KERNEL_COLLECTIVE);
    summary.cuda.family_ns[KERNEL_COLLECTIVE] = 12 * MS;
    summary.cuda.family_count[KERNEL_COLLECTIVE] = 400;
    assert_false(is_found("small-collectives")); /* all of them beside compute */
    device.use_ns[GPU_COMMUNICATION] = 10 * MS;
    assert_true(fabs(find("small-collectives")->ns_per_step - 6 * MS) < 1);
    /* Buckets of 25 MiB take far longer than their start. */
    summary.cuda.family_count[KERNEL_COLLECTIVE] = 40;
    assert_false(is_found("small-collectives"));
    summary.cuda.family_count[KERNEL_COLLECTIVE] = 0;
    assert_false(is_found("small-collectives"));
}

static void compute_that_grows_is_priced_by_half_of_its_rise(void **state)
{
    (void)state;
    put_device();
    assert_false(is_found("kernel-drift"));
    device.compute_first_ns = 50 * MS;
    device.compute_last_ns = 70 * MS;
    assert_true(fabs(find("kernel-drift-")->ns_per_step - 6 * MS) < 1);
    device.compute_first_ns = 58 * MS;
    device.compute_last_ns = 62 * MS;
    assert_false(is_found("kernel-drift"));
}

static void convolutions_of_fixed_shapes_are_worth_a_search(void **state)
{
    (void)state;
    static const double gib = 1024 * MIB;
    struct memory_device memory = {.device = "cuda:0",
                                   .peak_bytes = 10 * gib,
                                   .least_peak_bytes = 9.99 * gib,
                                   .peak_op = ""};

    put_device();
    assert_true(kernel_is_convolution("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32"));
    assert_false(kernel_is_convolution("void cudnn::bn_bw_1C11_kernel_new<float>"));
    summary.cuda.convolution_ns = 40 * MS;
    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    assert_false(is_found("cudnn-benchmark")); /* nobody says that it is off */
    number(FACT_CUDNN_BENCHMARK, 0);
    assert_true(is_found("cudnn-benchmark"));
    assert_true(find("cudnn-benchmark")->ns_per_step == 0 &&
                find("cudnn-benchmark")->open);
    memory.least_peak_bytes = 8 * gib; /* shapes differ */
    assert_false(is_found("cudnn-benchmark"));
    memory.least_peak_bytes = (double)NAN;
    assert_false(is_found("cudnn-benchmark"));
    memory.least_peak_bytes = 10 * gib;
    facts[0].number = 1;
    assert_false(is_found("cudnn-benchmark"));
}

static void a_search_for_each_of_many_shapes_is_a_risk(void **state)
{
    (void)state;
    struct memory_device memory = {
        .device = "cuda:0", .peaks = 500, .other_peaks = 400, .peak_op = ""};

    put_device();
    summary.cuda.convolution_ns = 40 * MS;
    summary.memory.devices = &memory;
    summary.memory.device_count = 1;
    summary.steps.train.p99_ns = 300 * MS;
    assert_false(is_found("cudnn-search")); /* nobody says that it is on */
    number(FACT_CUDNN_BENCHMARK, 1);
    assert_true(find("cudnn-search")->ns_per_step == 0);
    assert_int_equal(find("cudnn-search")->severity, FINDING_LOW);
    assert_non_null(strstr(find("cudnn-search")->sentence, "80 % of the steps"));
    memory.other_peaks = 20; /* last batches of epochs */
    assert_false(is_found("cudnn-search"));
    memory.other_peaks = 400;
    memory.growth.sure = true; /* each is larger than the one before */
    assert_false(is_found("cudnn-search"));
    memory.growth.sure = false;
    summary.steps.train.p99_ns = 130 * MS; /* all shapes were seen */
    assert_false(is_found("cudnn-search"));
    summary.steps.train.p99_ns = 300 * MS;
    summary.cuda.convolution_ns = 4 * MS;
    assert_false(is_found("cudnn-search"));
    summary.cuda.convolution_ns = 40 * MS;
    facts[0].number = 0;
    assert_false(is_found("cudnn-search"));
}

static void one_kernel_that_is_no_product_is_pointed_at_and_not_priced(void **state)
{
    (void)state;
    struct op_row rows[1] = {
        {.name = "void indexing_backward_kernel<float, 4>(<b>&\x01)",
         .kind = "kernel",
         .per_step_ns = 40 * MS,
         .per_step_count = 2,
         .mean_ns = 20 * MS,
         .launch = {.occupancy_pct = (double)NAN}}};

    put_device();
    assert_false(is_found("dominant-kernel"));
    summary.cuda.rows = rows;
    summary.cuda.judged_count = 1;
    const struct finding *finding = find("dominant-kernel-");

    assert_true(finding->ns_per_step == 0 && finding->open && finding->op_count == 1);
    assert_int_equal(finding->severity, FINDING_LOW);
    rows[0].per_step_ns = 20 * MS;
    assert_false(is_found("dominant-kernel"));
    rows[0].per_step_ns = 55 * MS;
    rows[0].tensor_cores = true;
    assert_false(is_found("dominant-kernel"));
    rows[0].tensor_cores = false;
    rows[0].name = "a kernel of a family";
    rows[0].family = KERNEL_COLLECTIVE;
    assert_false(is_found("dominant-kernel"));
    rows[0].family = KERNEL_OTHER;
    rows[0].name = "cutlass_80_simt_gemm";
    assert_false(is_found("dominant-kernel"));
    rows[0].name = "Memcpy HtoD (Pageable -> Device)";
    rows[0].kind = "memcpy";
    assert_false(is_found("dominant-kernel"));
}

static void
a_link_that_is_full_costs_half_of_the_copies_that_are_waited_for(void **state)
{
    (void)state;
    put_device();
    row = (struct hardware_row){.device = "cuda:0", .pcie_most = 4, .pcie_width = 16};
    row.mean[HARDWARE_PCIE_SENT] = 1e9;
    row.mean[HARDWARE_PCIE_RECEIVED] = 24e9;
    summary.hardware.rows = &row;
    summary.hardware.row_count = 1;
    assert_false(is_found("link-full")); /* all of it beside compute */
    device.use_ns[GPU_COPY] = 12 * MS;
    assert_true(fabs(find("link-full-")->ns_per_step - 6 * MS) < 1);
    row.mean[HARDWARE_PCIE_RECEIVED] = 12e9; /* of 31.5 */
    assert_false(is_found("link-full"));
    row.mean[HARDWARE_PCIE_RECEIVED] = 24e9;
    row.pcie_most = (double)NAN;
    assert_false(is_found("link-full"));
    row.pcie_most = 1e9; /* of a driver that lies */
    assert_false(is_found("link-full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slow_launches_cost_what_the_device_waits_for_them),
        TEST(launches_of_graphs_take_long_for_their_nodes),
        TEST(pinning_in_each_step_costs_what_the_device_waits_meanwhile),
        TEST(what_is_set_up_is_told_with_the_longest_call),
        TEST(launches_that_are_always_long_load_nothing),
        TEST(an_allocator_that_asks_the_driver_in_each_step_is_found),
        TEST(memory_that_is_set_and_waited_for_is_found),
        TEST(what_a_call_is_named_for_is_told_by_no_general_rule),
        TEST(names_decide_which_sum_an_op_is_in),
        TEST(float64_shows_in_what_kernels_read_and_not_in_their_constants),
        TEST(collectives_that_are_all_start_are_joined),
        TEST(compute_that_grows_is_priced_by_half_of_its_rise),
        TEST(convolutions_of_fixed_shapes_are_worth_a_search),
        TEST(a_search_for_each_of_many_shapes_is_a_risk),
        TEST(one_kernel_that_is_no_product_is_pointed_at_and_not_priced),
        TEST(a_link_that_is_full_costs_half_of_the_copies_that_are_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
