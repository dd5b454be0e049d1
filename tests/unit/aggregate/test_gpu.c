/* What a device did at each instant, of works folded by hand: uses, spans, queues,
 * copies, and their sums. */
#include <math.h>

#include "aggregate/gpu_buckets.h"
#include "aggregate/kernels.h"
#include "aggregate/process.h"
#include "unit/gpu_bench.h"

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
        TEST(steps_get_what_lies_in_them),
        TEST(busy_and_idle_are_the_span_to_the_nanosecond_in_any_order),
        TEST(a_day_later_ten_seconds_are_told_apart_and_the_first_hours_add_up),
        TEST(a_step_is_as_long_as_it_was_when_the_device_rested_through_a_whole_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
