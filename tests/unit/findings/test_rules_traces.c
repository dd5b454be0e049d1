/* Rules over what trace files of the world tell in few words: how ranks share the model,
 * which device it is, whose memory is copied. */
#include "unit/rule_summary.h"

static struct gpu_device device;

/* It computes for 70 of 100 ms and waits for the host in the rest. */
static void put_device(void)
{
    give_device(&device, 70 * MS);
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 10 * MS;
}

/* In any finding. */
static bool is_advised(const char *words)
{
    for (uint32_t i = 0; i < findings.count; i++)
        for (uint32_t k = 0; k < findings.list[i].advice_count; k++)
            if (strstr(findings.list[i].advice[k], words) != NULL)
                return true;
    return false;
}

static void what_only_ddp_has_is_advised_to_nobody_else(void **state)
{
    static const char *const wrappers[] = {"FSDP", "DataParallel", ""};
    static const char *const words[] = {"find_unused_parameters", "bucket_cap_mb",
                                        "no_sync()", "register_comm_hook"};

    (void)state;
    put_device();
    device.use_ns[GPU_COMMUNICATION] = 20 * MS;
    device.idle_ns[GPU_IDLE_COLLECTIVE] = 20 * MS;
    summary.cuda.family_ns[KERNEL_COLLECTIVE] = 16 * MS;
    summary.cuda.family_count[KERNEL_COLLECTIVE] = 800;
    text(FACT_DISTRIBUTED_WRAPPER, "DDP");
    assert_true(is_found("exposed-communication") && is_found("small-collectives") &&
                is_found("collective-wait"));
    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
        assert_true(is_advised(words[k]));
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
        facts[0].text = wrappers[i];
        assert_true(is_found("exposed-communication") &&
                    is_found("small-collectives") && is_found("collective-wait"));
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
            assert_false(is_advised(words[k]));
        assert_int_equal(is_advised("reshard_after_forward"), i == 0);
    }
}

static void buckets_that_hold_all_gradients_are_to_be_smaller(void **state)
{
    (void)state;
    put_device();
    device.use_ns[GPU_COMMUNICATION] = 20 * MS;
    text(FACT_DISTRIBUTED_WRAPPER, "DDP");
    number(FACT_DISTRIBUTED_BUCKET, 25 * MIB);
    number(FACT_DISTRIBUTED_FIND_UNUSED, 0);
    number(FACT_OPTIMIZER_ELEMENTS, 8 * MIB); /* 32 MiB of float32 */
    assert_true(is_found("exposed-communication"));
    assert_true(
        is_advised("bucket_cap_mb=4)`: all gradients are 32 MiB, in buckets of 25"));
    assert_false(is_advised("find_unused_parameters"));
    facts[2].number = 1;
    assert_true(is_found("exposed-communication"));
    assert_true(is_advised("find_unused_parameters"));
    number(FACT_OPTIMIZER_COUNT, 2); /* of which the last one's are known */
    assert_true(is_found("exposed-communication"));
    assert_true(is_advised("bucket_cap_mb=...)"));
    facts[4].number = 1;
    facts[3].number = 80 * MIB; /* twelve of them leave one after another */
    assert_true(is_found("exposed-communication"));
    assert_true(is_advised("bucket_cap_mb=...)"));
    facts[3].number = 1000; /* which take their start alone */
    assert_true(is_found("exposed-communication"));
    assert_true(is_advised("bucket_cap_mb=...)"));
}

static void who_infers_is_not_told_how_to_train(void **state)
{
    static const char *const words[] = {"optimizer",    "the loss",   "learning rate",
                                        "accumulation", "backward()", "GradScaler"};
    struct memory_device devices[] = {{.device = "cuda:0", .peak_bytes = 10e9},
                                      {.device = "cuda:1", .peak_bytes = 79e9}};

    for (size_t i = 0; i < 2; i++) {
        devices[i].total_bytes = devices[i].usable_bytes = 80e9;
        devices[i].floor_bytes = 2e9;
        devices[i].peak_op = "";
    }
    (void)state;
    put_device();
    summary.head.from_file = true;
    summary.memory.devices = devices;
    summary.memory.device_count = 2;
    summary.cuda.family_ns[KERNEL_ELEMENTWISE] = 40 * MS;
    summary.cuda.family_count[KERNEL_ELEMENTWISE] = 400;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 40 * MS;
    summary.cuda.family_count[KERNEL_FLOAT32] = 40;
    device.name = "Tesla T4";
    summary.cuda.short_count = 8000;
    summary.cuda.short_self_ns = 40 * MS;
    for (int compiled = 0; compiled < 2; compiled++) {
        summary.fact_count = 0;
        number(FACT_COMPILE_USED, compiled);
        assert_true(is_found("launch-bound") && is_found("python-between-ops") &&
                    is_found("short-kernels") && is_found("larger-batch"));
        assert_true(is_advised("optimizer") && is_advised("learning rate"));
        assert_int_equal(is_advised("the loss"), compiled);
        number(FACT_INFERENCE, 1);
        assert_true(is_found("launch-bound") && is_found("python-between-ops") &&
                    is_found("short-kernels") && is_found("larger-batch"));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            assert_false(is_advised(words[i]));
    }
}

/* The device's kernels are these; 50 ms of a step are products in float32. */
static void assert_advised_by(const char *kernel, const char *also, const char *words)
{
    struct op_row rows[] = {{.name = kernel, .kind = "kernel"},
                            {.name = also, .kind = "kernel"}};

    summary.cuda.rows = rows;
    summary.cuda.judged_count = 2;
    assert_int_equal(is_found("float32-products"), words != NULL);
    if (words != NULL)
        assert_non_null(strstr(find("float32-products")->advice[0], words));
}

static void kernels_tell_the_generation_of_a_device_without_a_name(void **state)
{
    static const char add[] = "void at::native::vectorized_elementwise_kernel<4>";

    (void)state;
    put_device();
    device.name = "";
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    assert_advised_by("maxwell_sgemm_128x64_nn", add, NULL);
    assert_advised_by("volta_sgemm_128x64_nn", add, "GradScaler");
    assert_advised_by("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", add,
                      "GradScaler");
    assert_advised_by("ampere_sgemm_128x64_tn", add, "bfloat16");
    assert_advised_by("volta_sgemm_128x64_nn", /* which Ampere runs too */
                      "cutlass_80_tensorop_s1688gemm_128x64_32x6", "bfloat16");
    assert_advised_by("sm89_xmma_gemm_f32f32", add, "bfloat16");
    assert_advised_by("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", add, "bfloat16");
    assert_advised_by("fmha_cutlassF_f32_aligned_64x64_rf_sm50", add, NULL);
    device.name = "Tesla P100-PCIE-16GB";
    assert_advised_by("ampere_sgemm_128x64_tn", add, NULL);
}

static void a_device_without_a_name_is_called_by_its_number(void **state)
{
    struct op_row row = {.name = "ampere_sgemm_128x64_tn", .kind = "kernel"};

    (void)state;
    put_device();
    device.name = "";
    summary.cuda.rows = &row;
    summary.cuda.judged_count = 1;
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    assert_non_null(strstr(find("float32-products")->sentence,
                           "float32 products on cuda:0, which has tensor cores"));
    summary.cuda.family_ns[KERNEL_TF32] = 50 * MS;
    assert_true(is_found("tf32-products"));
}

static void amds_matrix_cores_are_advised_bfloat16_alone(void **state)
{
    static const char *const names[] = {"AMD Instinct MI100", "AMD Instinct MI250X",
                                        "AMD Instinct MI300X", "gfx90a:sramecc+:xnack-",
                                        "gfx942"};
    static const char *const older[] = {"AMD Instinct MI50", "gfx906:sramecc+:xnack-",
                                        "AMD Radeon RX 7900 XTX"};
    const struct finding *finding;

    (void)state;
    put_device();
    summary.cuda.family_ns[KERNEL_FLOAT32] = 50 * MS;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        device.name = names[i];
        finding = find("float32-products");
        assert_non_null(strstr(finding->sentence, "whose matrix cores take bfloat16"));
        assert_null(strstr(finding->title, "tensor cores"));
        assert_int_equal(finding->advice_count, 1);
        assert_non_null(strstr(finding->advice[0], "bfloat16"));
    }
    for (size_t i = 0; i < sizeof(older) / sizeof(older[0]); i++) {
        device.name = older[i];
        assert_false(is_found("float32-products"));
    }
    device.name = "";
    assert_advised_by("Cijk_Ailk_Bljk_SB_MT128x64x16_MI16x16x4x1_SN", "", "bfloat16");
    assert_advised_by("Cijk_Ailk_Bljk_SB_MT128x64x16_SN", "", NULL);
}

static void copies_of_memory_that_nobody_names_are_called_neither(void **state)
{
    struct gpu_run_copies copies = {.way = EVENT_COPY_H2D,
                                    .unknown = true,
                                    .count = 500,
                                    .bytes = 500ull << 24,
                                    .ns = 900 * MS};
    const struct finding *finding;

    (void)state;
    put_device();
    device.use_ns[GPU_COPY] = 20 * MS;
    device.run.copies = &copies;
    device.run.copy_count = 1;
    finding = find("exposed-copies");
    assert_non_null(
        strstr(finding->sentence, "is from the host to the device, 16 MiB"));
    assert_non_null(strstr(finding->advice[0], "it has to be pinned"));
    assert_false(is_found("pageable-copies"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_only_ddp_has_is_advised_to_nobody_else),
        TEST(buckets_that_hold_all_gradients_are_to_be_smaller),
        TEST(who_infers_is_not_told_how_to_train),
        TEST(kernels_tell_the_generation_of_a_device_without_a_name),
        TEST(a_device_without_a_name_is_called_by_its_number),
        TEST(amds_matrix_cores_are_advised_bfloat16_alone),
        TEST(copies_of_memory_that_nobody_names_are_called_neither),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
