/* How a device works off what it is given: short kernels, streams in turn, a host that is
 * far ahead, copies of each direction, and what is left unexplained. */
#include "query/ops_inside.h"
#include "unit/rule_summary.h"

static struct gpu_device device;

/* It computes for 80 of 100 ms. */
static void put_device(void)
{
    give_device(&device, 80 * MS);
}

static bool advises(const struct finding *finding, const char *what)
{
    for (uint32_t i = 0; i < finding->advice_count; i++)
        if (strstr(finding->advice[i], what) != NULL)
            return true;
    return false;
}

static void add_kernel(double each_ns, double count, enum kernel_family family)
{
    struct op_row of = {.name = "k",
                        .kind = "kernel",
                        .family = family,
                        .count = count,
                        .self_ns = count * each_ns,
                        .per_step_ns = count * each_ns,
                        .per_step_count = count};

    ops_sums_add(&of, &summary.cuda);
}

static void kernels_that_end_when_they_have_begun_cost_their_starts(void **state)
{
    (void)state;
    put_device();
    add_kernel(12e3, 5000, KERNEL_OTHER); /* long enough */
    add_kernel(4e3, 5000, KERNEL_COLLECTIVE);
    add_kernel(4e3, 5000, KERNEL_GRAPH); /* nobody knows how short its kernels are */
    assert_false(is_found("short-kernels"));
    add_kernel(4e3, 10000, KERNEL_OTHER);
    /* Half of the 40 ms are starts, for four fifths of the step the device works, and of
     * four kernels one stays. */
    assert_true(fabs(find("short-kernels")->ns_per_step - 20 * MS * 0.8 * 0.75) < 1);
    assert_non_null(strstr(find("short-kernels")->advice[0], "torch.compile(model)`"));
    number(FACT_COMPILE_USED, 1);
    assert_non_null(strstr(find("short-kernels")->advice[0], "max-autotune"));
    summary.native = true;
    assert_false(advises(find("short-kernels"), "torch"));
    assert_false(advises(find("short-kernels"), "fused=True"));
    assert_true(advises(find("short-kernels"), "CUDA graph"));
    device.use_ns[GPU_COMPUTE] = 40 * MS; /* the host is what it waits for */
    assert_false(is_found("short-kernels"));
}

static void short_kernels_of_a_large_model_are_no_finding(void **state)
{
    (void)state;
    put_device();
    add_kernel(300e3, 250, KERNEL_OTHER);
    add_kernel(3e3, 2000, KERNEL_OTHER); /* norms, casts, indices: 2.4 ms to be won */
    assert_false(is_found("short-kernels"));
}

static void short_kernels_that_other_rules_are_about_are_theirs(void **state)
{
    (void)state;
    struct op_row row = {.name = "k",
                         .kind = "kernel",
                         .count = 20000,
                         .self_ns = 40 * MS,
                         .per_step_ns = 40 * MS,
                         .per_step_count = 20000,
                         .launch = {.known = true, .grid = {66, 1, 1}}};

    put_device();
    add_kernel(2e3, 20000, KERNEL_ELEMENTWISE);
    assert_true(is_found("elementwise-kernels"));
    assert_false(is_found("short-kernels"));
    summary.cuda.multiprocessors = 132;
    ops_sums_add(&row, &summary.cuda);
    /* Half of the device is free beside 40 ms, and half of that is the other rule's. */
    assert_true(fabs(find("small-grids")->ns_per_step - 40 * MS * 0.8 / 4) < 1);
    assert_true(fabs(find("short-kernels")->ns_per_step - 40 * MS * 0.8 / 2) < 1);
}

/* Streams that were busy for those shares of the run's busy time, which is 100 s. */
static void put_streams(struct gpu_run_stream *streams, double first, double second,
                        double busy)
{
    streams[0] = (struct gpu_run_stream){7, 1000, first * 1e11};
    streams[1] = (struct gpu_run_stream){13, 1000, second * 1e11};
    device.run.streams = streams;
    device.run.stream_count = 2;
    device.run.streams_busy = busy;
}

static void streams_that_are_never_busy_at_once_are_a_risk(void **state)
{
    (void)state;
    struct gpu_run_stream streams[2];
    struct gpu_run_copies copies = {.way = EVENT_COPY_H2D, .count = 100, .ns = 30e9};

    put_device();
    put_streams(streams, 0.7, 0.3, 1);
    const struct finding *finding = find("streams-in-turn");

    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    assert_non_null(strstr(finding->sentence, "24 ms of a step")); /* 0.3 of 80 ms */
    put_streams(streams, 0.75, 0.31, 1.06); /* a fifth of the other's runs beside it */
    assert_false(is_found("streams-in-turn"));
    put_streams(streams, 0.7, 0.3, 1);
    device.run.copies = &copies; /* the other stream is that of the copies */
    device.run.copy_count = 1;
    assert_false(is_found("streams-in-turn"));
    device.run.copy_count = 0;
    summary.cuda.family_ns[KERNEL_COLLECTIVE] = 24 * MS; /* or of the collectives */
    assert_false(is_found("streams-in-turn"));
    summary.cuda.family_ns[KERNEL_COLLECTIVE] = 0;
    device.run.stream_count = 1;
    assert_false(is_found("streams-in-turn"));
    put_streams(streams, 0.7, 0.3, (double)NAN); /* of no run */
    assert_false(is_found("streams-in-turn"));
}

static void put_slow_launches(void)
{
    static struct op_row row = {.name = "cudaLaunchKernel",
                                .kind = "runtime",
                                .per_step_ns = 70 * MS,
                                .per_step_count = 400,
                                .p50_ns = 170e3,
                                .mean_ns = 175e3};

    put_device();
    summary.cpu.rows = &row;
    summary.cpu.judged_count = 1;
}

static void launches_that_wait_for_room_in_a_full_queue_are_no_finding(void **state)
{
    (void)state;
    put_slow_launches();
    device.idle_ns[GPU_IDLE_SYNC] = 4 * MS; /* at the step's end, of other reasons */
    assert_true(is_found("slow-launches"));
    device.run.queue_depth = 900;
    assert_false(is_found("slow-launches"));
    device.run.queue_depth = (double)NAN;
    assert_true(is_found("slow-launches"));
}

static void
a_queue_that_was_full_for_most_of_the_run_hides_no_slow_launches(void **state)
{
    (void)state;
    put_slow_launches();
    device.run.queue_depth = 900;
    device.idle_ns[GPU_IDLE_LAUNCH] = 0.7 * MS; /* a moment before each kernel */
    device.queued_ns = 0.7 * MS;
    device.idle_ns[GPU_IDLE_SYNC] = 4 * MS;
    assert_false(is_found("slow-launches"));
    device.idle_ns[GPU_IDLE_LAUNCH] = 15 * MS;
    assert_true(fabs(find("slow-launches")->ns_per_step - 19 * MS) < 1);
}

static void gaps_before_queued_kernels_are_not_blamed_on_the_host(void **state)
{
    (void)state;
    put_device();
    device.idle_ns[GPU_IDLE_LAUNCH] = 8 * MS;
    assert_non_null(strstr(find("launch-bound")->title, "waits for the CPU"));
    device.queued_ns = 7 * MS;
    const struct finding *finding = find("launch-bound");

    assert_non_null(strstr(finding->title, "before each of its many kernels"));
    assert_null(strstr(finding->sentence, "inside ops"));
    /* Fewer kernels, or closer ones: nobody knows how much of it goes. */
    assert_true(fabs(finding->ns_per_step - 4 * MS) < 1);
    assert_true(finding->estimated);
    assert_true(fabs(finding->claims[0].ns + finding->claims[1].ns - 4 * MS) < 1);
    assert_string_equal(finding->formula,
                        "(8 ms idle for this cause) / 2 of 8 ms idle");
    assert_non_null(strstr(finding->sentence, "is idle for 8 ms of 100 ms"));
    assert_true(advises(finding, "torch.compile"));
    summary.native = true;
    assert_false(advises(find("launch-bound"), "torch"));
    assert_false(advises(find("launch-bound"), "fused=True"));
    assert_true(advises(find("launch-bound"), "cudaGraphLaunch"));
    summary.native = false;
    /* Whoever replays graphs is not told to. */
    static struct op_row replays = {.name = "cudaGraphLaunch", .kind = "runtime"};

    summary.cpu.rows = &replays;
    summary.cpu.judged_count = 1;
    assert_false(advises(find("launch-bound"), "CUDA graph"));
    assert_true(advises(find("launch-bound"), "Larger batches"));
    summary.cpu.judged_count = 0;
    /* Most of it was not launched in time: somewhere in the step the queue runs empty. */
    device.queued_ns = 3 * MS;
    assert_non_null(strstr(find("launch-bound")->title, "waits for the CPU"));
}

static void a_verdict_says_that_the_host_is_far_ahead(void **state)
{
    (void)state;
    put_device();
    device.use_ns[GPU_COMPUTE] = 97 * MS;
    assert_string_equal(find("")->id, "none");
    assert_non_null(strstr(findings.verdict, "Bound by compute"));
    assert_null(strstr(findings.verdict, "far ahead"));
    device.run.queue_depth = 950;
    assert_string_equal(find("")->id, "none");
    assert_non_null(strstr(findings.verdict, "950 launches in the queue"));
}

static void copies_are_told_by_their_direction_memory_and_size(void **state)
{
    (void)state;
    struct gpu_run_copies copies[2] = {
        {.way = EVENT_COPY_D2H, .count = 10, .bytes = 1 << 20, .ns = 1 * MS},
        {.way = EVENT_COPY_H2D, .count = 500, .bytes = 500ull << 24, .ns = 900 * MS}};

    put_device();
    device.use_ns[GPU_COPY] = 12 * MS;
    assert_true(advises(find("exposed-copies"), "pin_memory")); /* nothing tells */
    device.run.copies = copies;
    device.run.copy_count = 2;
    assert_non_null(
        strstr(find("exposed-copies")->sentence,
               "from pinned memory of the host to the device, 16 MiB each"));
    assert_false(advises(find("exposed-copies"), "pin_memory"));
    assert_true(advises(find("exposed-copies"), "torch.cuda.stream"));
    assert_true(advises(find("exposed-copies"), "non_blocking=True"));
    copies[1].pageable = true;
    assert_true(advises(find("exposed-copies"), "pin_memory"));
    copies[1].way = EVENT_COPY_D2H;
    assert_true(advises(find("exposed-copies"), "Keep results on the device"));
    assert_false(advises(find("exposed-copies"), "pin_memory"));
    assert_false(advises(find("exposed-copies"), "Many small ones"));
    copies[1].bytes = 500 * 4096;
    assert_true(advises(find("exposed-copies"), "Many small ones"));
    device.run.memset_count = 100;
    device.run.memset_ns = 2000 * MS;
    assert_true(advises(find("exposed-copies"), "torch.empty"));
    assert_false(advises(find("exposed-copies"), "Keep results"));
}

static void calls_that_copy_are_told_by_what_they_copy(void **state)
{
    (void)state;
    struct gpu_run_copies copies = {
        .way = EVENT_COPY_D2H, .count = 10, .bytes = 1 << 20, .ns = 1 * MS};

    put_device();
    device.idle_ns[GPU_IDLE_COPY] = 12 * MS;
    assert_true(advises(find("host-copies"), "pin_memory"));
    device.run.copies = &copies;
    device.run.copy_count = 1;
    assert_false(advises(find("host-copies"), "pin_memory"));
    assert_true(advises(find("host-copies"), "Keep results on the device"));
}

static void
a_host_that_waits_for_copies_is_told_of_those_that_it_waits_for(void **state)
{
    (void)state;
    struct gpu_run_copies copies[3] = {
        {.way = EVENT_COPY_D2D, .count = 100, .bytes = 100ull << 24, .ns = 30 * MS},
        {.way = EVENT_COPY_H2D, .count = 100, .bytes = 100ull << 20, .ns = 9 * MS},
        {.way = EVENT_COPY_H2D,
         .count = 100,
         .bytes = 100ull << 20,
         .ns = 3 * MS,
         .pageable = true}};

    put_device();
    device.idle_ns[GPU_IDLE_COPY] = 12 * MS;
    device.use_ns[GPU_COPY] = 12 * MS;
    device.run.copies = copies;
    device.run.copy_count = 3;
    assert_true(advises(find("exposed-copies"), "`out=`"));
    assert_true(advises(find("host-copies"), "pin_memory"));
    assert_false(advises(find("host-copies"), "`out=`"));
    assert_non_null(strstr(find("host-copies")->sentence,
                           "25 % of the time of copies, without those inside of the "
                           "device, is from pageable memory"));
    device.run.memset_count = 100; /* which no host waits for */
    device.run.memset_ns = 2000 * MS;
    assert_true(advises(find("host-copies"), "pin_memory"));
    device.run.copy_count = 1;
    assert_true(advises(find("host-copies"), "pin_memory"));
    assert_null(strstr(find("host-copies")->sentence, "inside of the device"));
    text(FACT_FRAMEWORK, "transformers");
    assert_true(advises(find("host-copies"), "`dataloader_pin_memory=True`"));
    assert_false(advises(find("host-copies"), "DataLoader("));
    /* The loader pins: what is copied from pageable memory is something else. */
    number(FACT_DATALOADER_PIN_MEMORY, 1);
    assert_false(advises(find("host-copies"), "pin_memory=True"));
    device.run.copy_count = 3;
    assert_false(advises(find("host-copies"), "pin_memory=True"));
    assert_true(advises(find("host-copies"), "What the loader pins is not these"));
}

static void copies_of_a_job_without_python_are_advised_in_words_of_cuda(void **state)
{
    (void)state;
    struct gpu_run_copies copies = {
        .way = EVENT_COPY_H2D, .count = 500, .bytes = 2000, .ns = 9 * MS};
    static const uint8_t ways[] = {EVENT_COPY_H2D, EVENT_COPY_D2H, EVENT_COPY_D2D,
                                   EVENT_COPY_P2P};

    put_device();
    summary.native = true;
    device.use_ns[GPU_COPY] = 12 * MS;
    assert_true(advises(find("exposed-copies"), "cudaMallocHost"));
    device.run.copies = &copies;
    for (uint32_t i = 0; i < 8; i++) {
        device.run.copy_count = 1;
        copies.way = ways[i / 2];
        copies.pageable = i % 2 != 0;
        assert_non_null(strstr(find("exposed-copies")->sentence, "4 bytes each"));
        assert_true(find("exposed-copies")->advice_count >= 2);
        assert_false(advises(find("exposed-copies"), "torch"));
        assert_false(advises(find("exposed-copies"), "tensor"));
        assert_false(advises(find("exposed-copies"), "non_blocking"));
        assert_false(advises(find("exposed-copies"), "out="));
    }
    device.run.memset_count = 100;
    device.run.memset_ns = 2000 * MS;
    assert_false(advises(find("exposed-copies"), "torch"));
    assert_true(advises(find("exposed-copies"), "cudaMemsetAsync"));
}

static void memory_is_told_in_the_unit_that_it_fills(void **state)
{
    (void)state;
    struct gpu_run_copies copies = {.way = EVENT_COPY_D2H, .count = 1, .ns = 1 * MS};
    static const struct {
        uint64_t bytes;
        const char *told;
    } each[] = {{1, ", 1 byte each"},          {4, ", 4 bytes each"},
                {1023, ", 1023 bytes each"},   {1024, ", 1 KiB each"},
                {65536, ", 64 KiB each"},      {1048575, ", 1 MiB each"},
                {1ull << 24, ", 16 MiB each"}, {3ull << 30, ", 3 GiB each"}};

    put_device();
    device.use_ns[GPU_COPY] = 12 * MS;
    device.run.copies = &copies;
    device.run.copy_count = 1;
    for (uint32_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        copies.bytes = each[i].bytes;
        assert_non_null(strstr(find("exposed-copies")->sentence, each[i].told));
    }
}

static void idle_time_that_no_finding_is_about_is_told_by_its_causes(void **state)
{
    (void)state;
    struct hardware_row row = {.device = "cuda:0", .other_bytes = 0};

    put_device();
    device.idle_ns[GPU_IDLE_UNKNOWN] = 8 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 1 * MS;
    assert_false(is_found("idle-rest")); /* a tenth of the step is more */
    device.idle_ns[GPU_IDLE_SYNC] = 2.5 * MS;
    const struct finding *finding = find("idle-rest");

    assert_true(finding->ns_per_step == 0 && findings.avoidable_ns == 0);
    assert_non_null(
        strstr(finding->sentence,
               "for 11.5 ms of a step: 8 ms for what is not known, 2.5 ms after "
               "the host waited for it, 1 ms for Python"));
    assert_true(advises(finding, "wait_stream"));
    assert_true(advises(finding, "small by itself"));
    assert_false(advises(finding, "nvidia-smi"));
    assert_int_equal(finding->severity, FINDING_LOW);
    summary.hardware.rows = &row;
    summary.hardware.row_count = 1;
    row.other_bytes = 1e9;
    assert_true(advises(find("idle-rest"), "nvidia-smi"));
    /* A cause that has a finding of its own is no rest. */
    device.idle_ns[GPU_IDLE_SYNC] = 6 * MS;
    assert_true(is_found("device-sync"));
    assert_false(is_found("idle-rest"));
    device.idle_ns[GPU_IDLE_UNKNOWN] = 20 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 0;
    assert_int_equal(find("idle-rest")->severity, FINDING_MEDIUM);
    assert_false(advises(find("idle-rest"), "small by itself"));
}

static void small_waits_of_many_causes_are_told_together(void **state)
{
    (void)state;
    put_device();
    device.idle_ns[GPU_IDLE_LAUNCH] = device.idle_ns[GPU_IDLE_SYNC] = 2.8 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = device.idle_ns[GPU_IDLE_ALLOC] = 2.8 * MS;
    assert_non_null(strstr(find("idle-rest")->advice[0], "small by itself"));
    assert_false(advises(find("idle-rest"), "wait_stream"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_that_end_when_they_have_begun_cost_their_starts),
        TEST(short_kernels_of_a_large_model_are_no_finding),
        TEST(short_kernels_that_other_rules_are_about_are_theirs),
        TEST(streams_that_are_never_busy_at_once_are_a_risk),
        TEST(launches_that_wait_for_room_in_a_full_queue_are_no_finding),
        TEST(a_queue_that_was_full_for_most_of_the_run_hides_no_slow_launches),
        TEST(gaps_before_queued_kernels_are_not_blamed_on_the_host),
        TEST(a_verdict_says_that_the_host_is_far_ahead),
        TEST(copies_are_told_by_their_direction_memory_and_size),
        TEST(calls_that_copy_are_told_by_what_they_copy),
        TEST(a_host_that_waits_for_copies_is_told_of_those_that_it_waits_for),
        TEST(copies_of_a_job_without_python_are_advised_in_words_of_cuda),
        TEST(memory_is_told_in_the_unit_that_it_fills),
        TEST(idle_time_that_no_finding_is_about_is_told_by_its_causes),
        TEST(small_waits_of_many_causes_are_told_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
