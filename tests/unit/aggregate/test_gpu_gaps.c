/* What a device waited for in a gap between its works, by what the host did
 * meanwhile. */
#include "aggregate/gpu_queue.h"
#include "unit/gpu_bench.h"

static void gap_gets(struct bench *bench, enum gpu_idle cause)
{
    /* Work until 100, then from 200 on with correlation 7. */
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(200, 210), 1, 7);
    gpu_finish(&bench->gpu, 210 * US);
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        assert_int_equal(sums(bench)->idle_ns[i], i == cause ? 100 * US : 0);
}

static void a_gap_in_which_the_next_batch_was_awaited_is_data(void **state)
{
    host(*state, EVENT_CPU_OP, "enumerate(DataLoader)#_MultiProcessing.__next__",
         SPAN(120, 180), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    gap_gets(*state, GPU_IDLE_DATA);
}

static void a_gap_that_began_in_a_wait_for_the_device_as_long_is_sync(void **state)
{
    host(*state, EVENT_SYNC, "cudaStreamSynchronize", SPAN(10, 103), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    gap_gets(*state, GPU_IDLE_SYNC);
}

static void
the_wait_takes_of_a_gap_what_it_lasted_and_code_after_it_the_rest(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_SYNC, "cudaStreamSynchronize", SPAN(80, 103), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(200, 210), 1, 7);
    gpu_finish(&bench->gpu, 210 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_SYNC], 23 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_PYTHON], 77 * US);
}

static void a_collective_that_only_takes_an_order_waits_for_no_peer(void **state)
{
    host(*state, EVENT_CPU_OP, "c10d::allreduce_", SPAN(110, 190), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(180, 185), 7);
    gap_gets(*state, GPU_IDLE_LAUNCH);
}

static void a_gap_in_a_collective_that_holds_the_host_is_collective(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_CPU_OP, "gloo:all_reduce", SPAN(110, 1190), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(1195, 1196), 7);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(1200, 1210), 1, 7);
    gpu_finish(&bench->gpu, 1210 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_COLLECTIVE], 1100 * US);
}

static void the_moment_before_work_that_was_queued_is_told_apart(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaGraphLaunch", SPAN(80, 95), 7);
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(150, 199), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 8);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "node", SPAN(102, 150), 1, 7);
    work(bench, "b", SPAN(200, 210), 1, 8);
    gpu_finish(&bench->gpu, 210 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 52 * US);
    assert_int_equal(sums(bench)->queued_ns, 2 * US);
}

static void a_gap_filled_with_ops_is_launch(void **state)
{
    host(*state, EVENT_CPU_OP, "aten::add", SPAN(130, 196), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    gap_gets(*state, GPU_IDLE_LAUNCH);
}

static void a_gap_without_ops_is_python(void **state)
{
    host(*state, EVENT_CPU_OP, "aten::add", SPAN(188, 196), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    gap_gets(*state, GPU_IDLE_PYTHON);
}

static void a_gap_in_allocating_calls_is_alloc(void **state)
{
    host(*state, EVENT_RUNTIME, "cudaMalloc", SPAN(110, 190), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(190, 195), 7);
    gap_gets(*state, GPU_IDLE_ALLOC);
}

/* A call of `ms` fills the gap. */
static enum gpu_idle cause_of_call(struct bench *bench, uint8_t kind, const char *name,
                                   int64_t ms)
{
    enum gpu_idle cause = GPU_IDLE_DATA;

    host(bench, kind, name, SPAN(110, 110 + ms * 1000), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel",
         SPAN(130 + ms * 1000, 135 + ms * 1000), 7);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(140 + ms * 1000, 150 + ms * 1000), 1, 7);
    gpu_finish(&bench->gpu, (150 + ms * 1000) * US);
    while (cause < GPU_IDLES && sums(bench)->idle_ns[cause] == 0)
        cause++;
    return cause;
}

static void calls_that_load_or_make_contexts_are_told_by_their_length(void **state)
{
    static const struct {
        const char *name;
        uint8_t kind;
        int64_t ms;
        enum gpu_idle cause;
    } calls[] = {
        {"cudaDeviceGetStreamPriorityRange", EVENT_RUNTIME, 300, GPU_IDLE_SETUP},
        {"cuModuleLoadData", EVENT_RUNTIME, 6, GPU_IDLE_SETUP},
        {"cudaLaunchKernel", EVENT_LAUNCH, 25, GPU_IDLE_SETUP},
        {"hipLaunchKernel", EVENT_LAUNCH, 25, GPU_IDLE_SETUP},
        {"cudaFree", EVENT_RUNTIME, 120, GPU_IDLE_SETUP},
        {"cudaLaunchKernel", EVENT_LAUNCH, 12, GPU_IDLE_LAUNCH}, /* put aside */
        {"cudaStreamCreate", EVENT_RUNTIME, 4, GPU_IDLE_LAUNCH},
        {"cudaFree", EVENT_RUNTIME, 80, GPU_IDLE_ALLOC},
        {"cudaHostAlloc", EVENT_RUNTIME, 120, GPU_IDLE_ALLOC}, /* pins many pages */
        {"hipHostMalloc", EVENT_RUNTIME, 120, GPU_IDLE_ALLOC},
        {"cuMemUnmap", EVENT_RUNTIME, 20, GPU_IDLE_ALLOC},
        {"cudaGraphLaunch", EVENT_LAUNCH, 40, GPU_IDLE_LAUNCH}, /* has many nodes */
        {"cudaMemcpyAsync", EVENT_LAUNCH, 6, GPU_IDLE_COPY},
        {"cudaMemset", EVENT_LAUNCH, 6, GPU_IDLE_LAUNCH},         /* waits */
        {"synchronizeStream", EVENT_RUNTIME, 6, GPU_IDLE_LAUNCH}, /* not of CUDA */
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_int_equal(
            cause_of_call(*state, calls[i].kind, calls[i].name, calls[i].ms),
            calls[i].cause);
        end(state);
        begin(state);
    }
}

static void a_gap_in_which_a_graph_is_captured_is_setup(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_RUNTIME, "cudaStreamBeginCapture", SPAN(110, 111), 0);
    host(bench, EVENT_CPU_OP, "aten::mm", SPAN(112, 188), 0);
    host(bench, EVENT_RUNTIME, "cudaStreamEndCapture", SPAN(189, 190), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(193, 195), 7);
    /* The end of one whose beginning is not known. */
    host(bench, EVENT_RUNTIME, "cudaStreamEndCapture", SPAN(250, 251), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(290, 295), 8);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(200, 210), 1, 7);
    work(bench, "c", SPAN(310, 320), 1, 8);
    gpu_finish(&bench->gpu, 320 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_SETUP], 100 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_PYTHON], 100 * US);
}

/* Long calls of all threads come before what is short, in no order with it. */
static void long_calls_that_come_ahead_pair_no_captures(void **state)
{
    struct bench *bench = *state;
    struct event begins = {
        .value = 2000 * US,
        .meta = EVENT_META(text(bench, "cudaStreamBeginCapture"), EVENT_RUNTIME, 0, 0)};
    struct event ends = {
        .time = 800000 * US,
        .value = 2000 * US,
        .meta = EVENT_META(text(bench, "cudaStreamEndCapture"), EVENT_RUNTIME, 0, 0)};

    gpu_fold_ahead(&bench->gpu, bench->texts, &begins);
    gpu_fold_ahead(&bench->gpu, bench->texts, &ends);
    work(bench, "a", SPAN(0, 100000), 1, 0);
    work(bench, "b", SPAN(800000, 910000), 1, 7);
    gpu_finish(&bench->gpu, 910000 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_SETUP], 0);
}

static void a_gap_before_communication_that_was_queued_is_collective(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(90, 95), 7);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "ncclDevKernel_AllReduce", SPAN(200, 210), 1, 7);
    gpu_finish(&bench->gpu, 210 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_COLLECTIVE], 100 * US);
}

static void a_gap_before_queued_work_is_unknown_unless_it_is_short(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(90, 95), 7);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(95, 99), 8);
    work(bench, "c", SPAN(213, 220), 1, 8);
    gap_gets(bench, GPU_IDLE_UNKNOWN);
    gpu_finish(&bench->gpu, 220 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 3 * US);
}

static void a_gap_is_the_hosts_until_it_launched_and_unknown_from_then_on(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(110, 120), 7);
    host(bench, EVENT_RUNTIME, "cudaMemcpyAsync", SPAN(125, 4900), 8);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(5000, 5010), 1, 7);
    gpu_finish(&bench->gpu, 5010 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH] +
                         sums(bench)->idle_ns[GPU_IDLE_PYTHON],
                     20 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_UNKNOWN], 4880 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_COPY], 0);
}

static void work_that_waits_on_another_stream_takes_the_gap_from_the_host(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(110, 120), 7);
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(130, 3000), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(2990, 2999), 8);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(3000, 3010), 2, 8);
    work(bench, "c", SPAN(5000, 5010), 3, 7);
    gpu_finish(&bench->gpu, 5010 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 20 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_UNKNOWN], (2880 + 1990) * US);
}

static void what_is_left_of_a_gap_before_communication_is_collective(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(140, 150), 7);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "ncclDevKernel_AllReduce", SPAN(1150, 1160), 1, 7);
    gpu_finish(&bench->gpu, 1160 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_COLLECTIVE], 1000 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_PYTHON], 50 * US);
}

static void a_gap_is_unknown_from_a_launch_on_whose_work_is_missing(void **state)
{
    struct bench *bench = *state;
    const struct gpu_span lost[] = {{500 * US, 505 * US}, {2500 * US, 2505 * US}};

    assert_true(gpu_queue_lose(&bench->gpu, lost, 2));
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(5, 10), 7);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(1005, 1010), 8);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(2005, 2010), 9);
    work(bench, "a", SPAN(12, 100), 1, 7);
    work(bench, "c", SPAN(1012, 1100), 1, 8);
    work(bench, "d", SPAN(2012, 2100), 1, 9);
    gpu_finish(&bench->gpu, 3000 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_UNKNOWN], (507 + 495) * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_PYTHON],
                     gpu_idle_ns(sums(bench)) - (507 + 495) * US);
}

static void a_gap_before_work_whose_launch_is_missing_is_unknown(void **state)
{
    struct bench *bench = *state;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(5, 10), 7);
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(100, 995), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(1990, 1995), 9);
    work(bench, "a", SPAN(0, 100), 1, 0);
    work(bench, "b", SPAN(1000, 1100), 1, 8);
    work(bench, "c", SPAN(2000, 2100), 1, 9);
    gpu_finish(&bench->gpu, 2100 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_UNKNOWN], 900 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 0);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_PYTHON], 900 * US);
}

static void a_gap_in_the_call_that_launches_its_work_is_launch(void **state)
{
    /* It began before the gap, and held the host up: for a lock, to load the kernel. */
    host(*state, EVENT_CPU_OP, "aten::add", SPAN(85, 196), 0);
    host(*state, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(90, 195), 7);
    gap_gets(*state, GPU_IDLE_LAUNCH);
}

static void without_the_host_a_gap_is_unknown(void **state)
{
    gap_gets(*state, GPU_IDLE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_gap_in_which_the_next_batch_was_awaited_is_data),
        TEST(a_gap_that_began_in_a_wait_for_the_device_as_long_is_sync),
        TEST(the_wait_takes_of_a_gap_what_it_lasted_and_code_after_it_the_rest),
        TEST(a_collective_that_only_takes_an_order_waits_for_no_peer),
        TEST(a_gap_in_a_collective_that_holds_the_host_is_collective),
        TEST(the_moment_before_work_that_was_queued_is_told_apart),
        TEST(a_gap_filled_with_ops_is_launch),
        TEST(a_gap_without_ops_is_python),
        TEST(a_gap_in_allocating_calls_is_alloc),
        TEST(calls_that_load_or_make_contexts_are_told_by_their_length),
        TEST(a_gap_in_which_a_graph_is_captured_is_setup),
        TEST(long_calls_that_come_ahead_pair_no_captures),
        TEST(a_gap_before_communication_that_was_queued_is_collective),
        TEST(a_gap_before_queued_work_is_unknown_unless_it_is_short),
        TEST(a_gap_is_the_hosts_until_it_launched_and_unknown_from_then_on),
        TEST(work_that_waits_on_another_stream_takes_the_gap_from_the_host),
        TEST(what_is_left_of_a_gap_before_communication_is_collective),
        TEST(a_gap_is_unknown_from_a_launch_on_whose_work_is_missing),
        TEST(a_gap_before_work_whose_launch_is_missing_is_unknown),
        TEST(a_gap_in_the_call_that_launches_its_work_is_launch),
        TEST(without_the_host_a_gap_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
