/* Advice names what there is for the device at hand, and what is done once is no step's. */
#include "unit/rule_summary.h"

static struct gpu_device device;

static void put_device(const char *name)
{
    give_device(&device, 60 * MS);
    device.device = name;
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
}

static bool advises(const struct finding *finding, const char *part)
{
    for (uint32_t i = 0; i < finding->advice_count; i++)
        if (strstr(finding->advice[i], part) != NULL)
            return true;
    return false;
}

static void graphs_of_cuda_are_advised_for_cuda_and_rocm_alone(void **state)
{
    static const char *const others[] = {"xpu:0", "mtia:0", "hpu:1", "privateuseone:0"};

    (void)state;
    put_device("cuda:0");
    assert_true(advises(find("launch-bound"), "CUDA graphs"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        put_device(others[i]);
        const struct finding *finding = find("launch-bound");

        assert_false(advises(finding, "CUDA"));
        assert_false(advises(finding, "reduce-overhead"));
        assert_true(advises(finding, "`model = torch.compile(model)`"));
        assert_true(advises(finding, "Larger batches"));
    }
}

static void a_device_that_is_not_cudas_has_its_own_module_of_torch(void **state)
{
    (void)state;
    put_device("xpu:0");
    device.idle_ns[GPU_IDLE_SYNC] = 20 * MS;
    assert_true(advises(find("device-sync"), "`torch.xpu.synchronize()`"));
    device.idle_ns[GPU_IDLE_ALLOC] = 20 * MS;
    assert_false(advises(find("device-alloc"), "CUDA"));
    put_device("cuda:0");
    device.idle_ns[GPU_IDLE_SYNC] = 20 * MS;
    assert_true(advises(find("device-sync"), "`torch.cuda.synchronize()`"));
}

static void of_a_device_whose_module_has_no_known_name_none_is_advised(void **state)
{
    (void)state;
    put_device("privateuseone:0");
    device.idle_ns[GPU_IDLE_SYNC] = 20 * MS;
    const struct finding *finding = find("device-sync");

    assert_true(finding->advice_count > 0);
    assert_false(advises(finding, "privateuseone"));
    assert_false(advises(finding, "cuda"));
}

static void scalers_of_older_torch_are_told_to_users_of_cuda_alone(void **state)
{
    (void)state;
    put_device("cuda:0");
    device.name = "Tesla V100-SXM2-16GB";
    device.use_ns[GPU_COMPUTE] = 80 * MS;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    assert_true(advises(find("float32-products"), "torch.cuda.amp.GradScaler"));
    device.device = "xpu:0";
    assert_true(advises(find("float32-products"), "torch.amp.GradScaler(\"xpu\")"));
    assert_false(advises(find("float32-products"), "xpu.amp"));
}

static void
what_a_framework_calls_mixed_precision_or_graphs_is_what_it_does(void **state)
{
    (void)state;
    put_device("cuda:0");
    text(FACT_FRAMEWORK, "keras");
    assert_true(advises(find("launch-bound"), "triton.cudagraphs = True"));
    facts[0].text = "ultralytics";
    device.name = "NVIDIA A100-SXM4-80GB";
    device.use_ns[GPU_COMPUTE] = 80 * MS;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    assert_true(advises(find("float32-products"), "float16 with a gradient scaler"));
}

static void a_first_launch_that_loads_its_kernel_is_no_cost_of_each_step(void **state)
{
    struct op_row launch = {.name = "hipLaunchKernel",
                            .kind = "runtime",
                            .count = 40,
                            .per_step_count = 10,
                            .per_step_ns = 20.1 * MS,
                            .min_ns = 9e3,
                            .p50_ns = 10e3,
                            .p95_ns = 12e3,
                            .max_ns = 80 * MS};

    (void)state;
    put_device("cuda:0");
    summary.cpu.rows = &launch;
    summary.cpu.judged_count = 1;
    assert_false(is_found("launch-bound"));
    launch.count = 1; /* a single one is the first */
    launch.per_step_count = 0.25;
    launch.per_step_ns = 20 * MS;
    launch.min_ns = launch.p50_ns = launch.p95_ns = launch.max_ns;
    assert_false(is_found("launch-bound"));
    launch = (struct op_row){.name = "hipLaunchKernel",
                             .kind = "runtime",
                             .count = 2000,
                             .per_step_count = 500,
                             .per_step_ns = 20 * MS,
                             .min_ns = 30e3,
                             .p50_ns = 40e3,
                             .p95_ns = 45e3,
                             .max_ns = 2 * MS};
    assert_true(is_found("launch-bound"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(graphs_of_cuda_are_advised_for_cuda_and_rocm_alone),
        TEST(a_device_that_is_not_cudas_has_its_own_module_of_torch),
        TEST(of_a_device_whose_module_has_no_known_name_none_is_advised),
        TEST(scalers_of_older_torch_are_told_to_users_of_cuda_alone),
        TEST(what_a_framework_calls_mixed_precision_or_graphs_is_what_it_does),
        TEST(a_first_launch_that_loads_its_kernel_is_no_cost_of_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
