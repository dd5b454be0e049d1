/* Rules over the work of a device and what steps wait for of it, each on numbers made
 * by hand. */
#include "unit/rule_summary.h"

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

/* Steps that were replayed gain so much with kernels shorter by an eighth, a quarter,
 * half, all. */
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

/* Fewer kernels are launched in less time too; but where the device rests, launches are
 * what other findings are about. */
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

/* A trace of ten large steps, of which one was replayed, gates as the other nine let
 * it. */
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
    /* A few more were seen, and the device waited for none: that stands a little
     * longer. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
