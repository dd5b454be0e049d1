/* Steps made by hand and by a simulated job, replayed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/replay.h"
#include "aggregate/texts.h"

#define US       INT64_C(1000)
#define MS       INT64_C(1000000)
#define CUDA0    EVENT_DEVICE(1, 0)
#define EVENTS   8192u
#define MAIN     0u
#define AUTOGRAD 1u
#define CUPTI    2u

static struct texts *texts;
static struct replay *replay;
static struct event events[EVENTS];
static uint32_t event_count;

static int begin(void **state)
{
    (void)state;
    texts = texts_new();
    replay = replay_new(texts);
    event_count = 0;
    return replay == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    replay_free(replay);
    texts_release(texts);
    return 0;
}

static void step(int64_t from, int64_t to)
{
    replay_begin(
        replay, &(struct replay_step){.start_ns = from, .end_ns = to, .trainer = MAIN});
}

static void put(uint32_t thread, uint64_t meta, const int64_t span[2], uint64_t aux)
{
    assert_true(event_count < EVENTS);
    struct event *event = &events[event_count++];

    *event = (struct event){.time = (uint64_t)span[0],
                            .value = (uint64_t)(span[1] - span[0]),
                            .meta = meta,
                            .aux = aux};
    assert_true(replay_add(replay, thread, event, NULL));
}

static uint64_t named(const char *name, uint8_t kind, uint16_t aux16)
{
    return EVENT_META(texts_intern(texts, name, strlen(name)), kind, 0, aux16);
}

static void op(uint32_t thread, const char *name, int64_t from, int64_t to)
{
    put(thread, named(name, EVENT_CPU_OP, 0), (const int64_t[]){from, to}, 0);
}

static void call(uint8_t kind, int64_t from, int64_t to, uint64_t correlation)
{
    put(CUPTI, named("cudaCall", kind, MAIN + 1), (const int64_t[]){from, to},
        correlation);
}

static void data(int64_t from, int64_t to)
{
    put(MAIN, EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA),
        (const int64_t[]){from, to}, 0);
}

/* A work with its stream in the record behind it. */
static void work(const char *name, const int64_t span[2], uint32_t stream,
                 uint64_t correlation)
{
    uint8_t kind = strncmp(name, "Memcpy", 6) == 0 ? EVENT_MEMCPY : EVENT_KERNEL;

    assert_true(event_count + 2 <= EVENTS);
    events[event_count] = (struct event){.time = (uint64_t)span[0],
                                         .value = (uint64_t)(span[1] - span[0]),
                                         .meta = named(name, kind, CUDA0),
                                         .aux = correlation};
    events[event_count + 1] = (struct event){
        .time = stream, .value = stream, .meta = EVENT_META(0, EVENT_MORE, 0, 1)};
    assert_true(
        replay_add(replay, CUPTI, &events[event_count], &events[event_count + 1]));
    event_count += 2;
}

#define SPAN(from, to) ((const int64_t[2]){(from), (to)})

/* Runs it; whatever it is, the path fills the step and nothing changed takes as long. */
static struct replay_result run(void)
{
    struct replay_result result;
    int64_t kinds = 0;

    assert_int_equal(replay_run(replay, &result), 0);
    assert_true(result.path_count > 0);
    for (uint32_t i = 1; i < result.path_count; i++)
        assert_true(result.path[i].start_ns == result.path[i - 1].end_ns);
    assert_true(result.path[result.path_count - 1].end_ns - result.path[0].start_ns ==
                result.step_ns);
    for (uint32_t i = 0; i < REPLAY_KINDS; i++)
        kinds += result.kind_ns[i];
    assert_true(kinds == result.step_ns);
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++)
        assert_true(result.what_if_ns[i] >= 0 &&
                    result.what_if_ns[i] <= result.step_ns);
    for (uint32_t i = 0; i < REPLAY_CUTS; i++)
        assert_true(result.cut_ns[i] >= 0 &&
                    result.cut_ns[i] <=
                        (i == 0 ? result.step_ns : result.cut_ns[i - 1]));
    return result;
}

static void without_a_device_the_path_is_that_of_the_host(void **state)
{
    (void)state;
    step(0, 10 * MS);
    data(0, 4 * MS);
    op(MAIN, "aten::mm", 6 * MS, 7 * MS);
    op(MAIN, "aten::linear", 5 * MS, 8 * MS);
    struct replay_result result = run();

    assert_true(result.step_ns == 10 * MS);
    assert_true(result.kind_ns[REPLAY_DATA] == 4 * MS);
    assert_true(result.kind_ns[REPLAY_OP] == 3 * MS);
    assert_true(result.kind_ns[REPLAY_PYTHON] == 3 * MS);
    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 6 * MS);
    assert_true(result.asked[REPLAY_DATA_HIDDEN]);
    assert_false(result.asked[REPLAY_SYNC_FREE] || result.asked[REPLAY_LAUNCH_FREE] ||
                 result.asked[REPLAY_COPIES_HIDDEN] ||
                 result.asked[REPLAY_COMMUNICATION_HIDDEN]);
}

static void the_path_names_the_innermost_op(void **state)
{
    (void)state;
    step(0, 8 * MS);
    op(MAIN, "inner", 2 * MS, 5 * MS);
    op(MAIN, "outer", 0, 8 * MS);
    struct replay_result result = run();

    assert_int_equal(result.path_count, 3);
    assert_string_equal(texts_get(texts, EVENT_NAME(result.path[0].event->meta)),
                        "outer");
    assert_string_equal(texts_get(texts, EVENT_NAME(result.path[1].event->meta)),
                        "inner");
    assert_true(result.path[1].end_ns - result.path[1].start_ns == 3 * MS);
}

static void
another_thread_has_the_baton_while_the_training_thread_is_in_nothing(void **state)
{
    (void)state;
    step(0, 10 * MS);
    op(MAIN, "forward", 0, 4 * MS);
    op(AUTOGRAD, "early", 1 * MS, 2 * MS); /* beside the forward pass: not waited for */
    op(AUTOGRAD, "MmBackward0", 5 * MS, 9 * MS);
    struct replay_result result = run();

    assert_true(result.kind_ns[REPLAY_OP] == 8 * MS);
    assert_true(result.kind_ns[REPLAY_PYTHON] == 2 * MS);
    for (uint32_t i = 0; i < result.path_count; i++)
        assert_true(result.path[i].event == NULL ||
                    strcmp(texts_get(texts, EVENT_NAME(result.path[i].event->meta)),
                           "early") != 0);
}

/* Data, a launch, a kernel of 10 ms, and the host waits for it. */
static void launch_and_wait(void)
{
    step(0, 20 * MS);
    data(0, 5 * MS);
    call(EVENT_LAUNCH, 6 * MS, 6 * MS + 5 * US, 1);
    work("gemm", SPAN(6 * MS + 4 * US, 16 * MS + 4 * US), 7, 1);
    call(EVENT_SYNC, 7 * MS, 16 * MS + 10 * US, 2);
}

static void the_path_goes_over_the_kernel_that_a_call_waited_for(void **state)
{
    (void)state;
    launch_and_wait();
    struct replay_result result = run();

    assert_true(result.kind_ns[REPLAY_COMPUTE] == 10 * MS);
    assert_true(result.kind_ns[REPLAY_LATENCY] == 4 * US);
    assert_true(result.kind_ns[REPLAY_SYNC] == 6 * US);
    assert_true(result.kind_ns[REPLAY_DATA] == 5 * MS);
    assert_true(result.kind_ns[REPLAY_UNKNOWN] == 0);
    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 15 * MS);
}

static void a_call_that_waited_longer_than_its_work_ran_keeps_its_own_time(void **state)
{
    (void)state;
    launch_and_wait();
    struct replay_result result = run();

    /* 5 of data, 1 and 0.995 before the call, 3.99 behind it. */
    assert_true(result.what_if_ns[REPLAY_SYNC_FREE] == 20 * MS - (9 * MS + 10 * US));
    /* Data, the kernel, its start and what the call itself takes. */
    assert_true(result.what_if_ns[REPLAY_LAUNCH_FREE] ==
                5 * MS + 10 * MS + 4 * US + 6 * US);
}

/* What a step gains with kernels shorter by an eighth, a quarter, half and all. */
#define GAINS(result, a, b, c, d)                                                      \
    do {                                                                               \
        const int64_t gains[REPLAY_CUTS] = {(a), (b), (c), (d)};                       \
        for (uint32_t i = 0; i < REPLAY_CUTS; i++)                                     \
            assert_true((result).step_ns - (result).cut_ns[i] == gains[i]);            \
    } while (0)

static void shorter_kernels_gain_what_the_host_waited_for_them_and_no_more(void **state)
{
    (void)state;
    launch_and_wait();
    struct replay_result result = run();

    assert_true(result.compute_ns == 10 * MS);
    assert_int_equal(result.waits, 1);
    /* The call that waits begins 1 ms behind the launch. */
    GAINS(result, 10 * MS / 8, 10 * MS / 4, 5 * MS, 9 * MS + 4 * US);
    assert_true(result.what_if_ns[REPLAY_COMPUTE_HALVED] == 15 * MS);
}

/* The host computes for longer than the kernel. */
static void launch_and_go_on(void)
{
    step(0, 20 * MS);
    call(EVENT_LAUNCH, MS, MS + 5 * US, 1);
    work("gemm", SPAN(MS + 4 * US, 17 * MS), 7, 1);
    op(MAIN, "aten::to", 2 * MS, 20 * MS);
}

static void shorter_kernels_gain_nothing_where_nobody_waits_for_them(void **state)
{
    (void)state;
    launch_and_go_on();
    struct replay_result result = run();

    assert_true(result.compute_ns == 16 * MS - 4 * US);
    assert_int_equal(result.waits, 0);
    GAINS(result, 0, 0, 0, 0);
    /* Nor where they have ended long before. */
    launch_and_go_on();
    call(EVENT_SYNC, 18 * MS, 18 * MS + 5 * US, 2);
    result = run();
    assert_int_equal(result.waits, 1);
    GAINS(result, 0, 0, 0, 0);
}

static void
beside_a_host_that_is_nearly_as_slow_only_the_difference_is_gained(void **state)
{
    (void)state;
    step(0, 20 * MS);
    for (uint64_t i = 0; i < 16; i++) {
        int64_t launch = (int64_t)i * MS;

        op(MAIN, "aten::mm", launch, launch + MS);
        call(EVENT_LAUNCH, launch + 1, launch + 5 * US, i + 1);
        work("gemm", SPAN((int64_t)i * 5 * MS / 4 + 1, (int64_t)(i + 1) * 5 * MS / 4),
             7, i + 1);
    }
    call(EVENT_SYNC, 16 * MS, 20 * MS, 99);
    struct replay_result result = run();

    assert_true(result.compute_ns == 20 * MS - 16);
    /* Each kernel then begins when it is launched: 15 ms and one kernel are the least, and
     * the host takes 16. */
    assert_true(result.step_ns - result.cut_ns[0] >= 5 * MS / 2 - 20 &&
                result.step_ns - result.cut_ns[0] <= 5 * MS / 2);
    assert_true(result.cut_ns[1] == 16 * MS);
    assert_true(result.cut_ns[REPLAY_CUTS - 1] == 16 * MS);
}

static void kernels_of_two_streams_at_once_count_once_as_compute(void **state)
{
    (void)state;
    step(0, 20 * MS);
    work("gemm", SPAN(2 * MS, 10 * MS), 7, 0);
    work("gemm", SPAN(6 * MS, 14 * MS), 9, 0);
    work("Memcpy HtoD", SPAN(15 * MS, 17 * MS), 9, 0);
    assert_true(run().compute_ns == 12 * MS);
}

static void a_device_that_is_busy_is_the_floor(void **state)
{
    (void)state;
    step(0, 20 * MS);
    data(0, 10 * MS);
    /* Launched in the step before: still running while the host waits for data. */
    work("gemm", SPAN(-2 * MS, 18 * MS), 7, 1);
    op(MAIN, "aten::mm", 11 * MS, 12 * MS);
    struct replay_result result = run();

    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 18 * MS);
}

static void a_queue_that_is_full_hides_what_the_host_does(void **state)
{
    (void)state;
    step(0, 20 * MS);
    data(0, 6 * MS);
    work("gemm", SPAN(0, 10 * MS), 7, 0);
    call(EVENT_LAUNCH, 7 * MS, 7 * MS + 5 * US, 3);
    work("gemm", SPAN(10 * MS + US, 19 * MS), 7, 3);
    call(EVENT_SYNC, 8 * MS, 19 * MS + 2 * US, 4);
    struct replay_result result = run();

    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 20 * MS);
    assert_true(result.kind_ns[REPLAY_DATA] == 0);
    assert_true(result.kind_ns[REPLAY_COMPUTE] == 19 * MS - US);
}

static void a_copy_that_holds_its_call_is_a_wait(void **state)
{
    (void)state;
    step(0, 10 * MS);
    call(EVENT_LAUNCH, 1 * MS, 5 * MS, 9);
    work("Memcpy DtoH (Device -> Pageable)", SPAN(1 * MS + 3 * US, 5 * MS - US), 7, 9);
    struct replay_result result = run();

    assert_true(result.asked[REPLAY_SYNC_FREE] && result.asked[REPLAY_COPIES_HIDDEN]);
    assert_true(result.kind_ns[REPLAY_COPY] == 4 * MS - 4 * US);
    assert_true(result.what_if_ns[REPLAY_COPIES_HIDDEN] == 6 * MS + 4 * US);
    assert_true(result.what_if_ns[REPLAY_SYNC_FREE] == 6 * MS);
}

static void
work_of_another_stream_that_ended_just_before_explains_a_late_start(void **state)
{
    (void)state;
    step(0, 20 * MS);
    call(EVENT_LAUNCH, 0, 5 * US, 1);
    call(EVENT_LAUNCH, 10 * US, 15 * US, 2);
    work("ncclDevKernel_AllReduce", SPAN(5 * US, 12 * MS), 20, 1);
    work("gemm", SPAN(12 * MS + 2 * US, 15 * MS), 7, 2);
    call(EVENT_SYNC, 1 * MS, 15 * MS + 4 * US, 3);
    struct replay_result result = run();

    assert_true(result.kind_ns[REPLAY_COMMUNICATION] == 12 * MS - 5 * US);
    assert_true(result.kind_ns[REPLAY_UNKNOWN] == 0);
    /* It then waits for its own launch, at 10 us. */
    assert_true(result.what_if_ns[REPLAY_COMMUNICATION_HIDDEN] ==
                20 * MS - (12 * MS - 10 * US));
}

static void
nodes_of_a_graph_that_run_side_by_side_take_the_longest_of_them(void **state)
{
    (void)state;
    step(0, 20 * MS);
    data(0, 5 * MS);
    call(EVENT_LAUNCH, 5 * MS, 5 * MS + 5 * US, 1);
    work("gemm", SPAN(5 * MS + 4 * US, 15 * MS), 7, 1);
    work("relu", SPAN(6 * MS, 8 * MS), 7, 1);
    work("add", SPAN(15 * MS, 16 * MS), 7, 1);
    call(EVENT_SYNC, 6 * MS, 16 * MS + 4 * US, 2);
    struct replay_result result = run();

    assert_true(result.kind_ns[REPLAY_COMPUTE] == 11 * MS - 4 * US);
    assert_true(result.kind_ns[REPLAY_UNKNOWN] == 0);
    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 15 * MS);
}

static void a_wait_that_nothing_explains_is_unknown_and_stays(void **state)
{
    (void)state;
    step(0, 20 * MS);
    data(0, MS);
    call(EVENT_LAUNCH, MS, MS + 5 * US, 1);
    work("gemm", SPAN(9 * MS, 15 * MS), 7, 1);
    call(EVENT_SYNC, 2 * MS, 15 * MS + 4 * US, 3);
    struct replay_result result = run();

    assert_true(result.unknown_ns == 8 * MS);
    assert_true(result.kind_ns[REPLAY_UNKNOWN] == 8 * MS);
    assert_true(result.what_if_ns[REPLAY_DATA_HIDDEN] == 19 * MS);
}

static void
a_collective_of_the_host_is_communication_only_where_no_device_works(void **state)
{
    (void)state;
    step(0, 10 * MS);
    op(MAIN, "c10d::allreduce_", 2 * MS, 6 * MS);
    struct replay_result result = run();

    assert_true(result.kind_ns[REPLAY_COLLECTIVE] == 4 * MS);
    assert_true(result.what_if_ns[REPLAY_COMMUNICATION_HIDDEN] == 6 * MS);
    step(0, 10 * MS);
    op(MAIN, "c10d::allreduce_", 2 * MS, 6 * MS);
    work("gemm", SPAN(3 * MS, 4 * MS), 7, 0);
    result = run();
    assert_true(result.kind_ns[REPLAY_COLLECTIVE] == 0);
    assert_false(result.asked[REPLAY_COMMUNICATION_HIDDEN]);
}

static void annotations_and_what_lies_outside_are_no_part_of_it(void **state)
{
    struct replay_result result;

    (void)state;
    step(10 * MS, 20 * MS);
    op(MAIN, "ProfilerStep#3", 10 * MS, 20 * MS);
    op(MAIN, "aten::before", 2 * MS, 9 * MS);
    op(MAIN, "aten::after", 20 * MS, 21 * MS);
    assert_int_equal(replay_run(replay, &result), -EINVAL);
    step(10 * MS, 20 * MS);
    op(MAIN, "aten::across", 2 * MS, 15 * MS);
    result = run();
    assert_true(result.kind_ns[REPLAY_OP] == 5 * MS);
}

static void a_step_without_length_is_refused(void **state)
{
    struct replay_result result;

    (void)state;
    step(5, 5);
    assert_int_equal(replay_run(replay, &result), -EINVAL);
    step(INT64_MAX, INT64_MIN);
    assert_int_equal(replay_run(replay, &result), -EINVAL);
    step(INT64_MIN, INT64_MAX);
    assert_int_equal(replay_run(replay, &result), -EINVAL);
}

static void a_step_that_is_too_large_is_refused(void **state)
{
    static const struct event one = {.time = 1, .value = 1};
    struct replay_result result;
    struct event tiny = one;
    uint64_t taken = 0;

    (void)state;
    tiny.meta = named("x", EVENT_CPU_OP, 0);
    step(0, MS);
    while (replay_add(replay, MAIN, &tiny, NULL))
        taken++;
    assert_true(taken <= REPLAY_EVENTS_MAX);
    assert_int_equal(replay_run(replay, &result), -E2BIG);
}

/* ---- a simulated job ------------------------------------------------------------------- */

#define TASKS 60u

static uint64_t state_of_draw;

static int64_t draw(int64_t most)
{
    state_of_draw ^= state_of_draw << 13;
    state_of_draw ^= state_of_draw >> 7;
    state_of_draw ^= state_of_draw << 17;
    return (int64_t)(state_of_draw >> 11) % most;
}

static void events_of_any_shape_leave_a_path_that_fills_the_step(void **state)
{
    static const char *const names[] = {"aten::mm", "ncclKernel", "Memcpy HtoD",
                                        "cudaLaunchKernel"};

    (void)state;
    state_of_draw = 88172645463325252u;
    for (uint32_t round = 0; round < 300; round++) {
        event_count = 0;
        step(0, MS);
        op(MAIN, "aten::add", 0, 1);
        for (uint32_t i = 0; i < 100; i++) {
            int64_t from = draw(3 * MS) - MS, to = from + draw(MS);
            uint64_t correlation = (uint64_t)draw(30);

            switch (draw(5)) {
            case 0:
                op((uint32_t)draw(3), names[0], from, to);
                break;
            case 1:
                call(draw(2) == 0 ? EVENT_LAUNCH : EVENT_SYNC, from, to, correlation);
                break;
            case 2:
                data(from, to);
                break;
            default:
                work(names[draw(3)], SPAN(from, to), (uint32_t)draw(4), correlation);
                break;
            }
        }
        assert_true(run().step_ns == MS);
    }
}

struct task {
    int64_t host, work; /* what the host takes for it, and its kernel */
    bool waits;         /* afterwards, for the device */
};

struct job {
    int64_t data;
    struct task tasks[TASKS];
};

#define LATENCY (3 * US)

/* One step from `from_ns` on; when its kernels are done is in *free_ns. The step's end. */
static int64_t simulate_step(const struct job *job, int64_t from_ns, int64_t *free_ns,
                             bool tell)
{
    int64_t host = from_ns + job->data;

    if (tell && job->data > 0)
        data(from_ns, host);
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct task *task = &job->tasks[i];
        int64_t launch = host + task->host / 2, called = host + task->host;
        int64_t begins = launch + LATENCY > *free_ns ? launch + LATENCY : *free_ns;

        *free_ns = begins + task->work;
        if (tell) {
            op(MAIN, "aten::mm", host, called);
            call(EVENT_LAUNCH, launch, launch + 2 * US, 2 * i + 1);
            work("gemm", SPAN(begins, *free_ns), 7, 2 * i + 1);
        }
        host = called;
        if (!task->waits)
            continue;
        host = (*free_ns > host ? *free_ns : host) + US;
        if (tell)
            call(EVENT_SYNC, called, host, 2 * i + 2);
    }
    return host;
}

/* Mean length of the job's step once it runs steadily. */
static int64_t simulate(const struct job *job)
{
    int64_t host = 0, free_ns = 0, from = 0;

    for (uint32_t i = 0; i < 40; i++) {
        from = i == 10 ? host : from;
        host = simulate_step(job, host, &free_ns, false);
    }
    return (host - from) / 30;
}

/* Its ninth step, replayed. */
static struct replay_result replay_job(const struct job *job)
{
    int64_t host = 0, free_ns = 0, from = 0, until, unused;

    for (uint32_t i = 0; i < 9; i++) {
        from = host;
        host = simulate_step(job, host, &free_ns, false);
    }
    event_count = 0;
    unused = free_ns;
    until = simulate_step(job, host, &unused, false);
    step(host, until);
    /* What the step before left to do. */
    if (free_ns > host)
        work("gemm", SPAN(from, free_ns), 7, 0);
    (void)simulate_step(job, host, &free_ns, true);
    struct replay_result result = run();

    assert_true(result.step_ns == until - host);
    return result;
}

static void draw_job(struct job *job)
{
    int64_t most_host = 5 * US + draw(100 * US), most_work = 5 * US + draw(100 * US);

    job->data = draw(3 * MS);
    for (uint32_t i = 0; i < TASKS; i++)
        job->tasks[i] = (struct task){.host = 4 * US + draw(most_host),
                                      .work = US + draw(most_work),
                                      .waits = i == TASKS - 5 || draw(30) == 0};
}

static int64_t apart(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static void simulated_jobs_take_without_data_loading_what_was_said(void **state)
{
    (void)state;
    state_of_draw = 88172645463325252u;
    for (uint32_t i = 0; i < 300; i++) {
        struct job job;

        draw_job(&job);
        struct replay_result result = replay_job(&job);

        job.data = 0;
        assert_true(apart(result.what_if_ns[REPLAY_DATA_HIDDEN], simulate(&job)) <=
                    result.step_ns / 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_device_the_path_is_that_of_the_host,
                                        begin, end),
        cmocka_unit_test_setup_teardown(the_path_names_the_innermost_op, begin, end),
        cmocka_unit_test_setup_teardown(
            another_thread_has_the_baton_while_the_training_thread_is_in_nothing, begin,
            end),
        cmocka_unit_test_setup_teardown(
            the_path_goes_over_the_kernel_that_a_call_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(
            a_call_that_waited_longer_than_its_work_ran_keeps_its_own_time, begin, end),
        cmocka_unit_test_setup_teardown(
            shorter_kernels_gain_what_the_host_waited_for_them_and_no_more, begin, end),
        cmocka_unit_test_setup_teardown(
            shorter_kernels_gain_nothing_where_nobody_waits_for_them, begin, end),
        cmocka_unit_test_setup_teardown(
            beside_a_host_that_is_nearly_as_slow_only_the_difference_is_gained, begin,
            end),
        cmocka_unit_test_setup_teardown(
            kernels_of_two_streams_at_once_count_once_as_compute, begin, end),
        cmocka_unit_test_setup_teardown(a_device_that_is_busy_is_the_floor, begin, end),
        cmocka_unit_test_setup_teardown(a_queue_that_is_full_hides_what_the_host_does,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_copy_that_holds_its_call_is_a_wait, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            work_of_another_stream_that_ended_just_before_explains_a_late_start, begin,
            end),
        cmocka_unit_test_setup_teardown(
            nodes_of_a_graph_that_run_side_by_side_take_the_longest_of_them, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_wait_that_nothing_explains_is_unknown_and_stays, begin, end),
        cmocka_unit_test_setup_teardown(
            a_collective_of_the_host_is_communication_only_where_no_device_works, begin,
            end),
        cmocka_unit_test_setup_teardown(
            annotations_and_what_lies_outside_are_no_part_of_it, begin, end),
        cmocka_unit_test_setup_teardown(a_step_without_length_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_step_that_is_too_large_is_refused, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            events_of_any_shape_leave_a_path_that_fills_the_step, begin, end),
        cmocka_unit_test_setup_teardown(
            simulated_jobs_take_without_data_loading_what_was_said, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
