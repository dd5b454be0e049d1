#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/gpu.h"
#include "aggregate/gpu_buckets.h"
#include "aggregate/gpu_queue.h"
#include "aggregate/kernels.h"
#include "aggregate/process.h"

#define CUDA0 EVENT_DEVICE(1, 0)
#define US    INT64_C(1000)

struct bench {
    struct gpu gpu;
    struct texts *texts;
};

static uint32_t text(struct bench *bench, const char *name)
{
    return texts_intern(bench->texts, name, strlen(name));
}

static int begin(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    bench->texts = texts_new();
    gpu_init(&bench->gpu);
    gpu_begin(&bench->gpu, 0);
    gpu_device(&bench->gpu, CUDA0);
    *state = bench;
    return 0;
}

static int end(void **state)
{
    struct bench *bench = *state;

    gpu_free(&bench->gpu);
    texts_release(bench->texts);
    free(bench);
    return 0;
}

static void host(struct bench *bench, uint8_t kind, const char *name,
                 const int64_t span[2], uint64_t correlation)
{
    struct event event = {.time = (uint64_t)span[0],
                          .value = (uint64_t)(span[1] - span[0]),
                          .meta = EVENT_META(text(bench, name), kind, 0, 0),
                          .aux = correlation};

    gpu_fold(&bench->gpu, bench->texts, &event, 1);
}

static void work(struct bench *bench, const char *name, const int64_t span[2],
                 uint32_t stream, uint64_t correlation)
{
    uint8_t kind = strncmp(name, "Memcpy", 6) == 0 ? EVENT_MEMCPY : EVENT_KERNEL;
    struct event events[2] = {
        {.time = (uint64_t)span[0],
         .value = (uint64_t)(span[1] - span[0]),
         .meta = EVENT_META(text(bench, name), kind, 0, CUDA0),
         .aux = correlation},
        {.time = stream, .value = stream, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    gpu_fold(&bench->gpu, bench->texts, events, 2);
}

static void step(struct bench *bench, const int64_t span[2], uint8_t flags)
{
    struct event event = {.time = (uint64_t)span[0],
                          .value = (uint64_t)(span[1] - span[0]),
                          .meta = EVENT_META(0, EVENT_STEP, flags, 0)};

    gpu_fold_step(&bench->gpu, &event);
}

static const struct gpu_cell *sums(struct bench *bench)
{
    return &gpu_find(&bench->gpu, CUDA0)->run;
}

#define SPAN(from, to) ((const int64_t[2]){(from)*US, (to)*US})

static void
each_instant_counts_once_compute_before_communication_before_copies(void **state)
{
    struct bench *bench = *state;

    work(bench, "ncclKernel_AllReduce", SPAN(10, 30), 2, 0);
    work(bench, "gemm", SPAN(20, 40), 1, 0);
    work(bench, "Memcpy HtoD", SPAN(25, 50), 3, 0);
    gpu_finish(&bench->gpu, 100 * US);
    assert_int_equal(sums(bench)->use_ns[GPU_COMPUTE], 20 * US);
    assert_int_equal(sums(bench)->use_ns[GPU_COMMUNICATION], 10 * US);
    assert_int_equal(sums(bench)->use_ns[GPU_COPY], 10 * US);
    assert_int_equal(sums(bench)->overlap_ns, 10 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 60 * US);
}

static void work_that_runs_into_the_next_of_its_stream_is_cut_there(void **state)
{
    struct bench *bench = *state;

    work(bench, "ncclKernel_AllReduce", SPAN(0, 15), 1, 0);
    work(bench, "Memcpy HtoD", SPAN(10, 20), 1, 0);
    gpu_settle(&bench->gpu, 5 * US); /* in the middle of the first */
    gpu_finish(&bench->gpu, 100 * US);
    assert_int_equal(sums(bench)->use_ns[GPU_COMMUNICATION], 10 * US);
    assert_int_equal(sums(bench)->use_ns[GPU_COPY], 10 * US);
}

static void work_that_holds_the_next_of_its_stream_runs_beside_it(void **state)
{
    struct bench *bench = *state;
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);

    work(bench, "short, and at once", SPAN(0, 5), 1, 0);
    work(bench, "a", SPAN(0, 90), 1, 0);
    work(bench, "b", SPAN(10, 20), 1, 0);
    work(bench, "c", SPAN(15, 30), 1, 0);
    gpu_settle(&bench->gpu, 12 * US); /* in the middle of two */
    work(bench, "cuts the first", SPAN(80, 95), 1, 0);
    gpu_finish(&bench->gpu, 100 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 95 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 5 * US);
    assert_int_equal(table->work.streams[0].busy_ns, 95 * US);
}

static void the_span_begins_with_the_earliest_work_while_nothing_is_final(void **state)
{
    struct bench *bench = *state;

    gpu_free(&bench->gpu);
    work(bench, "b", SPAN(100, 110), 1, 0);
    work(bench, "a", SPAN(50, 60), 2, 0);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 20 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 130 * US);
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->late, 0);
}

static void what_is_final_keeps_its_place_and_late_work_is_counted(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;
    int64_t range[2] = {1000 * US, 2000 * US};

    gpu_free(&bench->gpu);
    work(bench, "a", SPAN(1000, 1100), 1, 0);
    work(bench, "b", SPAN(1900, 2000), 1, 0);
    gpu_settle(&bench->gpu, 2000 * US);
    work(bench, "before all", SPAN(100, 200), 2, 0);
    work(bench, "in the gap", SPAN(1500, 1950), 2, 0);
    work(bench, "in time", SPAN(1950, 2100), 2, 0);
    gpu_finish(&bench->gpu, 2100 * US);
    gpu_sum_time(&bench->gpu, gpu_find(&bench->gpu, CUDA0), range, &sum);
    assert_int_equal(gpu_busy_ns(&sum), 200 * US);
    assert_int_equal(gpu_idle_ns(&sum), 800 * US);
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->works, 5);
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->late, 2);
}

static void work_waits_from_its_launch_and_the_queue_is_as_deep_as_that(void **state)
{
    struct bench *bench = *state;
    const struct gpu_work *done;

    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(0, 1), 1);
    host(bench, EVENT_LAUNCH, "cudaGraphLaunch", SPAN(5, 6), 2);
    work(bench, "a", SPAN(10, 20), 7, 1);
    work(bench, "first of the graph", SPAN(20, 30), 7, 2);
    work(bench, "second of the graph", SPAN(30, 40), 7, 2);
    work(bench, "of nobody knows whom", SPAN(35, 45), 8, 9);
    gpu_finish(&bench->gpu, 50 * US);
    done = &gpu_find(&bench->gpu, CUDA0)->work;
    assert_int_equal(done->delays, 2);
    assert_int_equal(done->delay_ns, (10 + 15) * US);
    assert_int_equal(done->delay_max_ns, 15 * US);
    assert_int_equal(done->stream_count, 2);
    assert_int_equal(done->streams[0].busy_ns, 30 * US);
    assert_int_equal(done->streams[1].works, 1);
}

static void
nodes_of_a_graph_between_those_of_other_streams_wait_once_for_it(void **state)
{
    struct bench *bench = *state;
    const struct gpu_work *done;

    host(bench, EVENT_LAUNCH, "cudaGraphLaunch", SPAN(0, 1), 1);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(2, 3), 2);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(4, 5), 3);
    work(bench, "first of the graph", SPAN(10, 20), 7, 1);
    work(bench, "ncclDevKernel_AllReduce", SPAN(12, 22), 9, 2);
    work(bench, "second of the graph", SPAN(5000, 5010), 7, 1);
    work(bench, "Memcpy HtoD", SPAN(5005, 5010), 8, 3);
    work(bench, "third of the graph", SPAN(9000, 9010), 7, 1);
    gpu_finish(&bench->gpu, 10000 * US);
    done = &gpu_find(&bench->gpu, CUDA0)->work;
    assert_int_equal(done->delays, 3);
    assert_int_equal(done->delay_ns, (10 + 10 + 5001) * US);
}

static void copy(struct bench *bench, int64_t at_us, uint8_t flags)
{
    struct event events[2] = {
        {.time = (uint64_t)(at_us * US),
         .value = 5 * US,
         .meta = EVENT_META(text(bench, "Memcpy"), EVENT_MEMCPY, flags, CUDA0)},
        {.time = 4096, .value = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    gpu_fold(&bench->gpu, bench->texts, events, 2);
}

static void copies_are_summed_by_direction_and_kind_of_memory(void **state)
{
    struct bench *bench = *state;
    const struct gpu_work *done;

    copy(bench, 0, EVENT_COPY_H2D | EVENT_COPY_PAGEABLE);
    copy(bench, 10, EVENT_COPY_H2D | EVENT_COPY_PAGEABLE);
    copy(bench, 20, EVENT_COPY_D2H);
    gpu_finish(&bench->gpu, 100 * US);
    done = &gpu_find(&bench->gpu, CUDA0)->work;
    assert_int_equal(done->copies[EVENT_COPY_H2D][1].count, 2);
    assert_int_equal(done->copies[EVENT_COPY_H2D][1].bytes, 8192);
    assert_int_equal(done->copies[EVENT_COPY_H2D][1].ns, 10 * US);
    assert_int_equal(done->copies[EVENT_COPY_D2H][0].count, 1);
}

static void copies_of_steps_that_were_recorded_in_part_are_not_summed(void **state)
{
    struct bench *bench = *state;

    copy(bench, 90, EVENT_COPY_H2D); /* after the source came up */
    step(bench, SPAN(0, 100), 0);
    copy(bench, 110, EVENT_COPY_H2D);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    copy(bench, 210, EVENT_COPY_H2D); /* before it went down */
    step(bench, SPAN(200, 300), 0);
    gpu_finish(&bench->gpu, 300 * US);
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->work.copies[EVENT_COPY_H2D][0].count,
                     bench->gpu.recorded_steps);
}

static void occupancy_is_bound_by_registers_shared_memory_and_the_grid(void **state)
{
    /* An H100: 132 multiprocessors of 2,048 threads. */
    struct kernels_device device =
        kernels_device_parse("132 2048 65536 233472 32 1024", 0);
    struct process_kernel kernel = {
        .count = 1, .grid = {100000, 1, 1}, .block = {256, 1, 1}, .registers = 32};

    (void)state;
    assert_true(fabs(kernels_occupancy(&kernel, &device) - 1) < 1e-9);
    kernel.registers = 64; /* 2,048 of a warp: 32 warps, four blocks of eight */
    assert_true(fabs(kernels_occupancy(&kernel, &device) - 0.5) < 1e-9);
    kernel.shared_bytes = 100 * 1024; /* two blocks, with what is reserved */
    assert_true(fabs(kernels_occupancy(&kernel, &device) - 0.25) < 1e-9);
    kernel.grid[0] = 66; /* half of the multiprocessors have a block */
    assert_true(fabs(kernels_occupancy(&kernel, &device) - 0.0625) < 1e-9);
    device = kernels_device_parse("132 2048", 0);
    assert_true(isnan(kernels_occupancy(&kernel, &device)));
}

static void devices_have_multiprocessors_of_their_own_unless_all_are_alike(void **state)
{
    static const char unlike[] =
        "132 2048 65536 233472 32 1024, 46 1024 65536 65536 16 0";

    (void)state;
    assert_int_equal(kernels_device_parse(unlike, 0).threads, 2048);
    assert_int_equal(kernels_device_parse(unlike, 1).threads, 1024);
    assert_int_equal(kernels_device_parse(unlike, 2).threads, 0);
    assert_int_equal(kernels_device_parse("46 1024 65536 65536 16 0", 7).count, 46);
    assert_true(isnan(kernels_multiprocessors(unlike)));
    assert_true(kernels_multiprocessors("132 1 1 1 1 1, 132 2 2 2 2 2") == 132);
    assert_true(kernels_multiprocessors("") == 0);
}

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

static void steps_get_what_lies_in_them(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    work(bench, "a", SPAN(0, 30), 1, 0);
    work(bench, "b", SPAN(40, 90), 1, 0);
    step(bench, SPAN(10, 60), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 100 * US);
    assert_int_equal(
        gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 100), &sum),
        1);
    assert_int_equal(gpu_busy_ns(&sum), 40 * US);
    assert_int_equal(gpu_idle_ns(&sum), 10 * US);
}

static void the_run_tells_in_how_many_of_its_steps_work_was_recorded(void **state)
{
    struct bench *bench = *state;

    step(bench, SPAN(0, 10), EVENT_STEP_KERNELS);
    step(bench, SPAN(10, 20), 0);
    step(bench, SPAN(20, 30), EVENT_STEP_WINDOW);
    step(bench, SPAN(30, 40), EVENT_STEP_KERNELS | EVENT_STEP_VALIDATION);
    step(bench, SPAN(40, 50), EVENT_STEP_KERNELS);
    assert_int_equal(bench->gpu.training_steps, 4);
    assert_int_equal(bench->gpu.recorded_steps, 2);
    assert_int_equal(gpu_lose(&bench->gpu, 42 * US, 43 * US), 1);
    (void)gpu_lose(&bench->gpu, 44 * US, 45 * US); /* once is enough */
    assert_int_equal(bench->gpu.recorded_steps, 1);
}

static void a_step_counts_in_the_sums_of_the_run_once_it_is_final(void **state)
{
    struct bench *bench = *state;
    const struct gpu_moves *moves;

    copy(bench, 10, EVENT_COPY_H2D);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    copy(bench, 110, EVENT_COPY_H2D);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    moves = &gpu_find(&bench->gpu, CUDA0)->work.copies[EVENT_COPY_H2D][0];
    gpu_settle(&bench->gpu, 100 * US);
    assert_int_equal(moves->count, 1);
    assert_int_equal(gpu_settled_steps(&bench->gpu), 1);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(moves->count, 2);
    assert_int_equal(gpu_settled_steps(&bench->gpu), 2);
}

/* Recorded up to 100 and from 900 on, and a part of the step before that. */
static void record_in_two_stretches(struct bench *bench)
{
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(5, 9), 0);
    work(bench, "a", SPAN(10, 20), 1, 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    for (int64_t at = 100; at < 900; at += 100)
        step(bench, SPAN(at, at + 100), EVENT_STEP_OPS);
    work(bench, "after the source came up", SPAN(850, 870), 1, 0);
    work(bench, "b", SPAN(950, 960), 1, 0);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
}

static void steps_without_their_kernels_are_none_of_the_device(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    record_in_two_stretches(bench);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(
        gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum),
        2);
    assert_int_equal(gpu_busy_ns(&sum), 20 * US);
    assert_int_equal(gpu_idle_ns(&sum), 180 * US);
}

static void
time_in_which_kernels_were_not_recorded_is_neither_busy_nor_idle(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    record_in_two_stretches(bench);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 20 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 180 * US);
    gpu_sum_time(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum);
    assert_memory_equal(&sum, sums(bench), sizeof(sum));
    /* Nor is it a stream's: that would be busier than its device. */
    assert_int_equal(gpu_find(&bench->gpu, CUDA0)->work.streams[0].busy_ns, 20 * US);
}

static void a_gap_that_recording_cut_has_the_cause_of_each_of_its_ends(void **state)
{
    struct bench *bench = *state;

    work(bench, "a", SPAN(0, 40), 1, 0);
    host(bench, EVENT_CPU_OP, "enumerate(DataLoader)", SPAN(40, 95), 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    step(bench, SPAN(100, 900), 0);
    host(bench, EVENT_CPU_OP, "aten::add", SPAN(900, 960), 0);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(955, 958), 7);
    work(bench, "b", SPAN(960, 1000), 1, 7);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 1000 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_DATA], 60 * US);
    assert_int_equal(sums(bench)->idle_ns[GPU_IDLE_LAUNCH], 60 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 120 * US);
}

static void
what_runs_through_time_that_was_not_recorded_counts_on_both_sides(void **state)
{
    struct bench *bench = *state;
    struct gpu_cell sum;

    work(bench, "gemm", SPAN(50, 950), 1, 0);
    work(bench, "ncclKernel_AllReduce", SPAN(60, 940), 2, 0);
    step(bench, SPAN(0, 100), EVENT_STEP_KERNELS);
    step(bench, SPAN(100, 900), 0);
    step(bench, SPAN(900, 1000), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 1000 * US);
    gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), SPAN(0, 1000), &sum);
    assert_int_equal(sum.use_ns[GPU_COMPUTE], 100 * US);
    assert_int_equal(sum.overlap_ns, 80 * US);
    assert_memory_equal(&sum, sums(bench), sizeof(sum));
}

static void what_came_before_the_first_recorded_step_is_not_known(void **state)
{
    struct bench *bench = *state;

    work(bench, "after the source came up", SPAN(60, 70), 1, 0);
    step(bench, SPAN(50, 100), 0);
    work(bench, "a", SPAN(110, 120), 1, 0);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(gpu_busy_ns(sums(bench)), 10 * US);
    assert_int_equal(gpu_idle_ns(sums(bench)), 90 * US);
}

static void
a_device_that_runs_behind_is_not_idle_where_recording_begins_again(void **state)
{
    struct bench *bench = *state;
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);
    struct gpu_cell sum;

    /* Steps of 100 us, the device 150 us behind; two of four are recorded. What was
     * launched in the first two is never told. */
    step(bench, SPAN(0, 100), 0);
    step(bench, SPAN(100, 200), 0);
    for (int64_t n = 2; n < 5; n++) {
        int64_t t = n * 100;

        step(bench, SPAN(t, t + 100), EVENT_STEP_KERNELS);
        host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(t + 5, t + 10), (uint64_t)n);
        work(bench, "gemm", SPAN(t + 155, t + 255), 1, (uint64_t)n);
    }
    step(bench, SPAN(500, 600), EVENT_STEP_KERNELS);
    gpu_finish(&bench->gpu, 600 * US);
    /* Of the third step nothing is known, of the fourth its second half. */
    assert_int_equal(gpu_idle_ns(sums(bench)), 0);
    assert_int_equal(gpu_busy_ns(sums(bench)), 245 * US);
    assert_int_equal(gpu_sum_steps(&bench->gpu, table, SPAN(0, 600), &sum), 2);
    assert_int_equal(sum.use_ns[GPU_COMPUTE], 200 * US);
    assert_int_equal(gpu_idle_ns(&sum), 0);
}

static void a_device_that_waits_for_its_first_launch_is_idle_until_then(void **state)
{
    struct bench *bench = *state;
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);
    struct gpu_cell sum;

    step(bench, SPAN(0, 100), 0);
    step(bench, SPAN(100, 200), EVENT_STEP_KERNELS);
    host(bench, EVENT_LAUNCH, "cudaLaunchKernel", SPAN(150, 155), 1);
    work(bench, "gemm", SPAN(157, 190), 1, 1);
    gpu_finish(&bench->gpu, 200 * US);
    assert_int_equal(gpu_sum_steps(&bench->gpu, table, SPAN(0, 200), &sum), 1);
    assert_int_equal(gpu_idle_ns(&sum), 67 * US);
}

static void busy_and_idle_are_the_span_to_the_nanosecond_in_any_order(void **state)
{
    struct bench *bench = *state;
    int64_t to = 0;
    unsigned seed = 1;

    for (int64_t chunk = 0; chunk < 200; chunk++) {
        for (int i = 0; i < 50; i++) {
            int64_t from = chunk * 100000 + rand_r(&seed) % 100000;
            int64_t until = from + rand_r(&seed) % 5000;

            to = until > to ? until : to;
            work(bench, i % 7 ? "gemm" : "ncclKernel", (int64_t[2]){from, until},
                 (uint32_t)rand_r(&seed) % 5, 0);
            host(bench, i % 3 ? EVENT_CPU_OP : EVENT_SYNC,
                 i % 3 ? "aten::add" : "cudaDeviceSynchronize",
                 (int64_t[2]){from - 3000, from - 1000}, 0);
        }
        if (chunk % 3 == 0)
            gpu_settle(&bench->gpu, (chunk + 1) * 100000);
    }
    to += 12345;
    gpu_finish(&bench->gpu, to);
    struct gpu_cell sum;

    assert_int_equal(gpu_busy_ns(sums(bench)) + gpu_idle_ns(sums(bench)), to);
    gpu_sum_time(&bench->gpu, gpu_find(&bench->gpu, CUDA0),
                 (const int64_t[2]){0, 4 * to}, &sum);
    assert_memory_equal(&sum, sums(bench), sizeof(sum));
}

static void
a_day_later_ten_seconds_are_told_apart_and_the_first_hours_add_up(void **state)
{
    struct bench *bench = *state;
    const int64_t second = 1000000 * US, day = 86400 * second;
    const int64_t newest[2] = {day - 10 * second, day}, all[2] = {0, day};
    struct gpu_buckets buckets;
    struct gpu_cell sum;

    for (int64_t at = 0; at < day; at += 10 * second) {
        work(bench, "a", (int64_t[2]){at, at + second}, 1, 0);
        gpu_settle(&bench->gpu, at + second);
    }
    gpu_finish(&bench->gpu, day);
    const struct gpu_table *table = gpu_find(&bench->gpu, CUDA0);

    gpu_sum_time(&bench->gpu, table, newest, &sum);
    assert_int_equal(gpu_busy_ns(&sum), second);
    assert_int_equal(gpu_idle_ns(&sum), 9 * second);
    buckets = gpu_buckets_since(&bench->gpu, table, newest[0]);
    assert_int_equal(buckets.end, day / buckets.width_ns);
    assert_true(buckets.width_ns <= second / 4);
    assert_int_equal(gpu_busy_ns(gpu_bucket(&buckets, buckets.end - 1)), 0);
    gpu_sum_time(&bench->gpu, table, all, &sum);
    assert_int_equal(gpu_busy_ns(&sum) + gpu_idle_ns(&sum), day);
}

static void
a_step_is_as_long_as_it_was_when_the_device_rested_through_a_whole_ring(void **state)
{
    struct bench *bench = *state;
    const int64_t steps = GPU_STEPS + 100, length = 10 * US;
    const int64_t newest[2] = {(steps - 1) * length, steps * length};
    struct gpu_cell sum;

    work(bench, "a", (int64_t[2]){0, length}, 1, 0);
    for (int64_t i = 0; i < steps; i++) {
        step(bench, (int64_t[2]){i * length, (i + 1) * length}, EVENT_STEP_KERNELS);
        gpu_settle(&bench->gpu, i * length);
    }
    gpu_finish(&bench->gpu, newest[1]);
    assert_int_equal(
        gpu_sum_steps(&bench->gpu, gpu_find(&bench->gpu, CUDA0), newest, &sum), 1);
    assert_int_equal(gpu_busy_ns(&sum) + gpu_idle_ns(&sum), length);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_instant_counts_once_compute_before_communication_before_copies),
        TEST(work_that_runs_into_the_next_of_its_stream_is_cut_there),
        TEST(work_that_holds_the_next_of_its_stream_runs_beside_it),
        TEST(the_span_begins_with_the_earliest_work_while_nothing_is_final),
        TEST(what_is_final_keeps_its_place_and_late_work_is_counted),
        TEST(nodes_of_a_graph_between_those_of_other_streams_wait_once_for_it),
        TEST(work_waits_from_its_launch_and_the_queue_is_as_deep_as_that),
        TEST(copies_are_summed_by_direction_and_kind_of_memory),
        TEST(copies_of_steps_that_were_recorded_in_part_are_not_summed),
        TEST(occupancy_is_bound_by_registers_shared_memory_and_the_grid),
        TEST(devices_have_multiprocessors_of_their_own_unless_all_are_alike),
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
        TEST(steps_get_what_lies_in_them),
        TEST(the_run_tells_in_how_many_of_its_steps_work_was_recorded),
        TEST(a_step_counts_in_the_sums_of_the_run_once_it_is_final),
        TEST(steps_without_their_kernels_are_none_of_the_device),
        TEST(time_in_which_kernels_were_not_recorded_is_neither_busy_nor_idle),
        TEST(a_gap_that_recording_cut_has_the_cause_of_each_of_its_ends),
        TEST(what_runs_through_time_that_was_not_recorded_counts_on_both_sides),
        TEST(what_came_before_the_first_recorded_step_is_not_known),
        TEST(a_device_that_runs_behind_is_not_idle_where_recording_begins_again),
        TEST(a_device_that_waits_for_its_first_launch_is_idle_until_then),
        TEST(busy_and_idle_are_the_span_to_the_nanosecond_in_any_order),
        TEST(a_day_later_ten_seconds_are_told_apart_and_the_first_hours_add_up),
        TEST(a_step_is_as_long_as_it_was_when_the_device_rested_through_a_whole_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
