/* Events folded by hand, asked through the queries. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "aggregate/sum.h"
#include "query/bottlenecks_query.h"
#include "query/gpu_query.h"
#include "query/memory_query.h"
#include "query/ops_query.h"
#include "query/ranks_query.h"
#include "query/steps_query.h"
#include "wire/facts.h"

#define MS   INT64_C(1000000)
#define FULL (EVENT_STEP_OPS)

static struct store *store;
static struct session *session;
static struct process *process;

static struct process *new_process(int32_t rank)
{
    struct process_identity identity = {.pid = 100 + (uint32_t)rank,
                                        .rank = rank,
                                        .world_size = 2,
                                        .role = WIRE_ROLE_TRAINER};

    return state_process(store, session, &identity);
}

static int begin(void **state)
{
    (void)state;
    store = store_new(NULL);
    session = state_session(store, "hand");
    process = new_process(0);
    return process == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static uint32_t text(const char *name)
{
    return texts_intern(process->texts, name, strlen(name));
}

static void fold(uint32_t thread, uint64_t meta, int64_t start, int64_t value)
{
    struct event event = {
        .time = (uint64_t)start, .value = (uint64_t)value, .meta = meta};

    process_fold(process, thread, &event, 1);
}

static void op(uint32_t thread, const char *name, int64_t start, int64_t end_ns)
{
    fold(thread, EVENT_META(text(name), EVENT_CPU_OP, 0, 0), start, end_ns - start);
}

static void range(const char *name, int64_t start, int64_t end_ns)
{
    fold(0, EVENT_META(text(name), EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0), start,
         end_ns - start);
}

static void phase(uint16_t which, int64_t start, int64_t end_ns)
{
    fold(0, EVENT_META(0, EVENT_PHASE, 0, which), start, end_ns - start);
}

static void step(uint64_t number, uint32_t flags, int64_t start, int64_t end_ns)
{
    struct event event = {.time = (uint64_t)start,
                          .value = (uint64_t)(end_ns - start),
                          .meta = EVENT_META(0, EVENT_STEP, flags, 0xf),
                          .aux = number | (uint64_t)1 << 48};

    process_fold(process, 0, &event, 1);
}

/* What began before it is known then. */
static void work_begins_at(int64_t start)
{
    fold(1, EVENT_META(text("next"), EVENT_KERNEL, 0, 0x100), start, MS);
}

static struct ops_answer ask_ops(struct window window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct ops_answer answer;

    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    return answer;
}

/* The row of a name; one of nothing when there is none. */
static const struct op_row *find(const struct ops_answer *answer, const char *name)
{
    static const struct op_row none = {.name = "", .kind = ""};

    for (uint32_t i = 0; i < answer->row_count; i++)
        if (strcmp(answer->rows[i].name, name) == 0)
            return &answer->rows[i];
    return &none;
}

static const struct window run = {.kind = WINDOW_RUN};

static void the_last_seconds_of_a_run_that_hung_hold_its_last_steps(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_NS, .a = 100 * MS}};
    struct steps_answer answer;

    for (uint64_t n = 0; n < 50; n++)
        step(n, FULL, (int64_t)n * 10 * MS, (int64_t)(n + 1) * 10 * MS);
    op(0, "aten::mm", 501 * MS, 502 * MS);
    fold(0, EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0), 9000 * MS, MS);
    /* While it runs nobody knows that nothing follows. */
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_int_equal(answer.head.steps, 0);
    answer_free(&answer.head);
    process_finish(process, PROCESS_CRASHED, "killed");
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_int_equal(answer.head.window.from_ns, 400 * MS);
    assert_int_equal(answer.head.window.to_ns, 600 * MS + 1);
    assert_int_equal(answer.head.window.first_step, 40);
    assert_int_equal(answer.head.window.last_step, 49);
    answer_free(&answer.head);
}

/* Thread 2 has fetched them. */
static void a_call(const char *name, uint8_t kind, uint16_t thread, int64_t start,
                   int64_t end)
{
    fold(2, EVENT_META(text(name), kind, 0, thread + 1), start, end - start);
}

static void a_wait_takes_the_time_of_no_call_of_another_thread(void **state)
{
    (void)state;
    op(0, "of the trainer", 0, MS);
    op(1, "of another", 0, MS);
    a_call("cuLaunchKernel", EVENT_RUNTIME, 1, 2 * MS, 4 * MS);
    a_call("cudaLaunchKernel", EVENT_LAUNCH, 1, 2 * MS, 5 * MS);
    a_call("cudaStreamSynchronize", EVENT_SYNC, 0, 1 * MS, 9 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_true(find(&answer, "cudaStreamSynchronize")->self_ns == 8e6);
    assert_true(find(&answer, "cudaLaunchKernel")->self_ns == 1e6);
    answer_free(&answer.head);
}

static void a_range_takes_no_self_time_from_ops_and_gives_none(void **state)
{
    (void)state;
    op(0, "inner", 2 * MS, 4 * MS);
    range("mine", 1 * MS, 5 * MS);
    op(0, "outer", 0, 6 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_true(find(&answer, "outer")->self_ns == 4e6);
    assert_true(find(&answer, "mine")->self_ns == 0);
    assert_true(find(&answer, "mine")->total_ns == 4e6);
    assert_string_equal(find(&answer, "mine")->kind, "range");
    answer_free(&answer.head);
}

static void a_profiler_step_is_never_a_row_and_an_optimizer_is_a_range(void **state)
{
    (void)state;
    op(0, "aten::add", 1 * MS, 2 * MS);
    op(0, "Optimizer.step#SGD.step", 0, 3 * MS);
    op(0, "ProfilerStep#4", 0, 4 * MS);
    step(0, FULL, 0, 10 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.total_ops, 2);
    assert_string_equal(find(&answer, "Optimizer.step#SGD.step")->kind, "range");
    answer_free(&answer.head);
}

static void a_kernel_has_its_family_and_what_is_none_has_no_other(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer answer;

    op(0, "sgemm", 0, MS);
    fold(1, EVENT_META(text("volta_sgemm_64x64_nt"), EVENT_KERNEL, 0, 0x100), 0,
         2 * MS);
    fold(1, EVENT_META(text("flash_fwd_kernel"), EVENT_KERNEL, 0, 0x100), 2 * MS, MS);
    fold(1, EVENT_META(text("Memcpy sgemm"), EVENT_MEMCPY, 0, 0x100), 3 * MS, MS);
    step(0, FULL | EVENT_STEP_KERNELS, 0, 10 * MS);
    work_begins_at(10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(find(&answer, "volta_sgemm_64x64_nt")->family, KERNEL_FLOAT32);
    assert_int_equal(find(&answer, "flash_fwd_kernel")->family, KERNEL_OTHER);
    assert_int_equal(find(&answer, "Memcpy sgemm")->family, KERNEL_OTHER);
    assert_true(answer.family_ns[KERNEL_FLOAT32] == 2e6);
    assert_true(answer.family_ns[KERNEL_OTHER] == 1e6);
    answer_free(&answer.head);
    answer = ask_ops(run);
    assert_int_equal(find(&answer, "sgemm")->family, KERNEL_OTHER);
    answer_free(&answer.head);
}

static void sampled_ops_are_scaled_and_ranges_are_not(void **state)
{
    (void)state;
    /* One step in four recorded; the op takes 1 or 3 ms in turns. */
    for (int64_t n = 0; n < 400; n++) {
        int64_t t = n * 10 * MS;

        if (n % 4 == 0)
            op(0, "aten::mm", t + MS, t + (n % 8 == 0 ? 2 : 4) * MS);
        range("mine", t + 5 * MS, t + 6 * MS);
        step((uint64_t)n, n % 4 == 0 ? FULL : 0, t, t + 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_int_equal(answer.head.steps, 400);
    assert_int_equal(answer.head.recorded_steps, 100);
    assert_int_equal(mm->recorded_count, 100);
    assert_int_equal(mm->recorded_total_ns, 200 * MS);
    assert_true(fabs(mm->count - 400) < 1e-6);
    assert_true(fabs(mm->total_ns - 800e6) < 1);
    assert_true(fabs(mm->per_step_ns - 2e6) < 1e-3);
    assert_true(fabs(mm->share - 0.2) < 1e-9);
    /* 1.98 * 400 * sqrt(0.75) * sqrt(16 / 15) ms / 10 of 800 ms: blocks of 16. */
    assert_true(fabs(mm->error_pct - 8.86) < 0.1);
    assert_int_equal(find(&answer, "mine")->recorded_count, 400);
    assert_true(fabs(find(&answer, "mine")->total_ns - 400e6) < 1);
    assert_true(find(&answer, "mine")->error_pct == 0);
    answer_free(&answer.head);
}

/* `slow` steps of 100 ms are all recorded; of those of 10 ms behind them, `row` in a row
 * of `every`. The op takes half of each, so its share should be 0.5. */
static void assert_half(int64_t slow, int64_t row, int64_t every, double off)
{
    const int64_t count = slow + 40 * every;
    int64_t t = 0;

    end(NULL);
    assert_int_equal(begin(NULL), 0);
    for (int64_t n = 0; n < count; n++) {
        int64_t length = (n < slow ? 100 : 10) * MS;
        bool recorded = n < slow || (n - slow) % every >= every - row;

        if (recorded)
            op(0, "aten::mm", t, t + length / 2);
        step((uint64_t)(n < slow ? n : n + 100000), recorded ? FULL : 0, t, t + length);
        t += length;
    }
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_true(fabs(mm->count - (double)count) < 1e-6);
    assert_true(fabs(mm->share - 0.5) <= off);
    assert_true(fabs(mm->mean_ns - (double)t / 2 / (double)count) <= off * 2e7);
    assert_true(mm->error_pct < 1e-6);
    answer_free(&answer.head);
}

static void a_slow_beginning_that_was_recorded_whole_stands_for_itself(void **state)
{
    (void)state;
    assert_half(40, 1, 4, 1e-9);
    assert_half(36, 1, 50, 1e-9);
    assert_half(40, 3, 150, 1e-9);
    assert_half(8, 1, 2, 1e-9);
    assert_half(17, 1, 1, 1e-9);
}

/* Of a first step of 2 s, recorded or not, and 40 behind it, of which each fourth is recorded
 * and takes 12 ms, 5 of them on the device; the others take 10. Before it, perhaps, steps
 * that try validation out. */
static void train_behind_a_slow_step(uint32_t flags, int64_t validated)
{
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    int64_t at = validated * 30 * MS;

    for (int64_t i = 0; i < validated; i++)
        step(EVENT_STEP_NONE, EVENT_STEP_VALIDATION, i * 30 * MS, (i + 1) * 30 * MS);
    fold(1, gemm, at, 5 * MS);
    step(0, flags, at, at + 2000 * MS);
    at += 2000 * MS;
    for (uint64_t n = 1; n <= 40; n++) {
        bool recorded = n % 4 == 1;
        int64_t end_ns = at + (recorded ? 12 * MS : 10 * MS);

        if (recorded)
            fold(1, gemm, at, 5 * MS);
        step(n, recorded ? FULL | EVENT_STEP_KERNELS : 0, at, end_ns);
        at = end_ns;
    }
    work_begins_at(at);
}

/* What the device waits in a step, and what the steps are that this is told of. */
static double idle_ns(struct steps_usual *usual)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer steps;
    struct gpu_answer gpu;
    double idle = 0;

    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += gpu.devices[0].idle_ns[i];
    answer_free(&gpu.head);
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &steps), 0);
    assert_true(steps.train.error_pct > 90);
    *usual = steps.train.usual;
    answer_free(&steps.head);
    return idle;
}

static void assert_left_out_behind(int64_t validated)
{
    struct steps_usual usual;

    train_behind_a_slow_step(FULL, validated);
    assert_true(fabs(idle_ns(&usual) - 5.5e6) < 0.1e6);
    assert_int_equal(usual.count, 40);
    assert_true(usual.error_pct < 5);
}

static void a_slow_first_step_lengthens_no_wait_of_the_device(void **state)
{
    (void)state;
    assert_left_out_behind(0);
}

static void a_slow_first_step_behind_a_validation_lengthens_none_either(void **state)
{
    (void)state;
    assert_left_out_behind(20);
}

static void a_slow_first_step_that_was_recorded_is_one_of_the_devices(void **state)
{
    (void)state;
    struct steps_usual usual;

    train_behind_a_slow_step(FULL | EVENT_STEP_KERNELS, 0);
    assert_true(idle_ns(&usual) > 20e6);
    assert_int_equal(usual.count, 0);
}

static void a_kernel_has_its_short_name_and_is_found_by_both(void **state)
{
    (void)state;
    static const char mul[] = "void at::native::elementwise_kernel<128, 4, at::native::"
                              "gpu_kernel_impl<at::native::MulFunctor<float> > >(int)";
    static const char *const asked[] = {"mulfunctor (elem", "gpu_kernel_impl"};
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer answer;

    fold(1, EVENT_META(text(mul), EVENT_KERNEL, 0, 0x100), 0, 2 * MS);
    fold(1, EVENT_META(text("ampere_sgemm"), EVENT_KERNEL, 0, 0x100), 2 * MS, MS);
    fold(1, EVENT_META(text("Memcpy <x>::mulfunctor (elem"), EVENT_MEMCPY, 0, 0x100),
         3 * MS, MS);
    step(0, FULL | EVENT_STEP_KERNELS, 0, 10 * MS);
    work_begins_at(10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_string_equal(find(&answer, mul)->short_name, "MulFunctor (elementwise)");
    assert_null(find(&answer, "ampere_sgemm")->short_name);
    assert_null(find(&answer, "Memcpy <x>::mulfunctor (elem")->short_name);
    answer_free(&answer.head);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        request.query = asked[i];
        assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
        assert_int_equal(find(&answer, mul)->recorded_count, 1);
        assert_int_equal(answer.total_ops, i == 0 ? 2 : 1);
        answer_free(&answer.head);
    }
}

static void kernels_of_a_step_that_is_not_whole_are_in_no_sum(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* The source comes up in the middle of the first step; what it recorded there comes
     * in time and late. */
    for (int64_t n = 0; n < 4; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        fold(1, gemm, t + (n == 0 ? 8 : 1) * MS, MS);
        fold(1, gemm, t + 9 * MS, MS);
        step((uint64_t)n, n == 0 ? FULL : FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 1)
            fold(1, gemm, 7 * MS, MS);
    }
    work_begins_at(40 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 3);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 6);
    assert_true(fabs(find(&answer, "gemm")->per_step_count - 2) < 1e-9);
    assert_true(fabs(find(&answer, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&answer.head);
    answer = ask_ops(run);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 4);
    assert_true(fabs(find(&answer, "aten::mm")->per_step_ns - 1e6) < 1e-3);
    answer_free(&answer.head);
}

static void kernels_that_come_200_ms_late_are_those_of_their_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* One step of four is recorded; what ran in it and what ran elsewhere comes when
     * 20 more have ended. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS, then = t - 200 * MS;

        step((uint64_t)n, n % 4 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 10 * MS);
        if (then >= 0)
            fold(1, gemm, then + 5 * MS, MS);
        if (then >= 0 && n % 4 == 0)
            fold(1, gemm, then + 7 * MS, MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 20);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 2 * 20);
    answer_free(&answer.head);
}

/* Steps of 5 ms whose kernels come 200 ms late; two devices of which one is told of
 * first, and a third that worked only once. */
static void fold_late_kernels(int64_t steps, const char *name)
{
    uint64_t meta = EVENT_META(text(name), EVENT_KERNEL, 0, 0x100);
    uint64_t once = EVENT_META(text("once"), EVENT_KERNEL, 0, 0x102);
    uint64_t second = EVENT_META(text(name), EVENT_KERNEL, 0, 0x101);

    fold(1, once, 1, MS);
    for (int64_t n = 0; n < steps; n++) {
        int64_t t = n * 5 * MS;

        step((uint64_t)n, n % 2 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 5 * MS);
        if (n % 20 != 19 || n < 59)
            continue;
        for (int64_t late = n - 59; late < n - 39; late++)
            fold(1, meta, late * 5 * MS + MS, 2 * MS);
        for (int64_t late = n - 59; late < n - 39; late++)
            fold(1, second, late * 5 * MS + MS, 2 * MS);
    }
}

static void steps_whose_kernels_have_not_come_yet_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 100}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;
    struct gpu_answer gpu;

    fold_late_kernels(401, "gemm");
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.steps, 100);
    assert_int_equal(ops.head.recorded_steps, 29);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 2 * 29);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 4e6) < 1e-3);
    assert_true(fabs(find(&ops, "gemm")->count - 200) < 1e-6);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.head.recorded_steps, 29);
    assert_true(fabs(gpu.devices[1].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    assert_true(fabs(gpu.devices[2].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    answer_free(&gpu.head);
}

static void steps_whose_kernels_were_lost_are_none_with_kernels(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss = {.time = 15 * MS,
                         .meta = EVENT_META(0, EVENT_LOSS, 0, 0),
                         .aux = WIRE_SOURCE_CUPTI};
    struct ops_answer ops;
    struct gpu_answer gpu;
    struct process_capability *source = &process->capabilities[WIRE_SOURCE_CUPTI];

    /* From the middle of the second step to that of the fourth nothing came. */
    for (int64_t n = 0; n < 8; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        if (n == 3) {
            source->state = WIRE_STATE_STOLEN;
            source->reason = text("another profiler has taken CUPTI");
            process_fold(process, 1, &loss, 1);
            assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu),
                             0);
            assert_string_equal(gpu.head.reason, "another profiler has taken CUPTI");
            answer_free(&gpu.head);
            source->state = WIRE_STATE_ACTIVE;
        }
        if (n == 0 || n > 3)
            fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    work_begins_at(80 * MS);
    step(8, FULL, 80 * MS, 90 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work, the last goes on behind what is settled. */
    assert_int_equal(gpu.head.recorded_steps, 3);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    /* From 1 to 10 ms, and from 40 ms to the end of the last work that is settled. */
    assert_true(fabs(gpu.devices[0].span_ns - (9 + 33) * 1e6) < 1);
    answer_free(&gpu.head);
    ops = ask_ops(run);
    assert_int_equal(ops.head.recorded_steps, 9); /* of the host nothing was lost */
    answer_free(&ops.head);
}

/* The job ran on before anybody read of it, or was read of step by step. */
static void lost_work_has_an_end_whenever_it_is_told(int64_t told)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss[2] = {
        {15 * MS, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {38 * MS, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};
    struct ops_answer ops;
    struct gpu_answer gpu;

    for (int64_t n = 0; n < 8; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        if (n == told)
            process_fold(process, 1, loss, 2);
        if (n == 0 || n > 3)
            fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    work_begins_at(80 * MS);
    step(8, FULL, 80 * MS, 90 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work, the last goes on behind what is settled. */
    assert_int_equal(gpu.head.recorded_steps, 3);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    assert_true(fabs(gpu.devices[0].span_ns - (9 + 33) * 1e6) < 1);
    answer_free(&gpu.head);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t flags = steps_at(&process->steps, i)->flags;

        assert_int_equal((flags & EVENT_STEP_KERNELS) != 0, i == 0 || i > 3);
    }
}

static void lost_work_is_of_every_step_until_its_end_and_of_none_behind(void **state)
{
    (void)state;
    lost_work_has_an_end_whenever_it_is_told(1); /* as the reader of a backlog */
}

static void lost_work_that_is_told_late_spares_the_step_that_runs(void **state)
{
    (void)state;
    lost_work_has_an_end_whenever_it_is_told(4);
}

static void lose_works(int64_t since_ns, int64_t until_ns)
{
    struct event loss[2] = {
        {(uint64_t)since_ns, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {(uint64_t)until_ns, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};

    process_fold(process, 1, loss, 2);
}

static bool has_kernels(uint32_t i)
{
    return (steps_at(&process->steps, i)->flags & EVENT_STEP_KERNELS) != 0;
}

static void
a_longer_loss_that_is_told_later_takes_out_what_an_earlier_one_left(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 8; n++)
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
    lose_works(55 * MS, 58 * MS);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(has_kernels(i), i != 5);
    lose_works(25 * MS, 58 * MS);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(has_kernels(i), i < 2 || i > 5);
}

static void
losses_without_number_look_at_each_step_a_bounded_number_of_times(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, n * MS, (n + 1) * MS);
        for (int i = 0; i < 1000; i++)
            lose_works(100 * MS, 100 * MS + n * MS);
    }
    assert_in_range(process->loss_looks, 1000, 500000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_false(has_kernels(i)); /* the first ones too: none is claimed too much */
}

static void work_that_outlives_the_open_steps_is_counted_as_late(void **state)
{
    (void)state;
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t reduce = EVENT_META(text("ncclAllReduce"), EVENT_KERNEL, 0, 0x100);

    for (int64_t n = 0; n < 10; n++) {
        int64_t t = n * 10 * MS;

        fold(1, gemm, t + MS, 2 * MS);
        step((uint64_t)n, FULL | EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 2)
            fold(1, reduce, 5 * MS, 20 * MS); /* two steps back: they are open */
        assert_int_equal(process->device.ops.late_events, 0);
    }
    fold(1, reduce, 6 * MS, 88 * MS);
    assert_int_equal(process->device.ops.late_events, 1);
}

static void know_works_at(int64_t until_ns, int64_t now_ns)
{
    const struct event known = {(uint64_t)until_ns, (uint64_t)(now_ns - until_ns),
                                EVENT_META(0, EVENT_KNOWN, 0, 0), WIRE_SOURCE_CUPTI};

    process_fold(process, 1, &known, 1);
}

static void know_works(int64_t until_ns)
{
    know_works_at(until_ns, until_ns);
}

static void work_that_later_work_has_overtaken_is_that_of_its_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 10, .b = 14}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    /* Of steps 10 to 14 it comes in the middle of step 30. */
    for (int64_t n = 0; n < 60; n++) {
        int64_t t = n * 10 * MS;
        bool held = n >= 10 && n < 15;

        for (int64_t late = 10; n == 30 && late < 15; late++)
            fold(1, gemm, late * 10 * MS + MS, 2 * MS);
        if (!held)
            fold(1, gemm, t + MS, 2 * MS);
        know_works(n >= 10 && n < 30 ? 100 * MS : t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 5);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 5);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.head.recorded_steps, 5);
    assert_int_equal(gpu.uncounted, 0);
    assert_true(fabs(gpu.devices[0].use_ns[GPU_COMPUTE] - 2e6) < 1e-3);
    answer_free(&gpu.head);
    assert_int_equal(process->device.late_events + process->device.ops.late_events, 0);
    whose.window = (struct window){.kind = WINDOW_STEPS, .a = 59, .b = 59};
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.row_count, 0);
    assert_non_null(strstr(ops.head.reason, "has not come yet"));
    answer_free(&ops.head);
}

static void work_that_comes_long_after_it_was_told_lost_is_in_no_table(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct event loss[2] = {
        {10 * MS, 0, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {20 * MS, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0}};
    struct ops_answer answer;

    for (int64_t n = 0; n < 200; n++) {
        int64_t t = n * 10 * MS;

        if (n != 1)
            fold(1, gemm, t + MS, MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 10)
            process_fold(process, 1, loss, 2);
        know_works(n < 10 ? MS : t + 4 * MS);
    }
    fold(1, gemm, 11 * MS, 2 * MS);
    assert_int_equal(process->device.late_events, 1);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 198);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 198);
    answer_free(&answer.head);
}

/* Of 20 steps, each with one kernel, the source tells up to then; the kernels of the last
 * four have not come. */
static void works_come_until(int64_t until_ns)
{
    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        if (n < 16)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + MS, 2 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (t + 4 * MS <= until_ns)
            know_works(t + 4 * MS);
    }
    know_works(until_ns);
}

static void finish_after_telling(int64_t until_ns)
{
    works_come_until(until_ns);
    process->said_goodbye = true;
    process_finish(process, PROCESS_ENDED, "");
}

static void
steps_of_which_nothing_was_told_until_a_clean_end_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;
    struct gpu_answer gpu;

    finish_after_telling(164 * MS); /* the flush of step 16 hung */
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 16);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 16);
    assert_true(fabs(find(&ops, "gemm")->per_step_ns - 2e6) < 1e-3);
    answer_free(&ops.head);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has_kernels(i), i < 16);
    assert_int_equal(process->steps.train->kernels, 16);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    /* The first began before the first work. */
    assert_int_equal(gpu.head.recorded_steps, 15);
    answer_free(&gpu.head);
    whose.window = (struct window){.kind = WINDOW_STEPS, .a = 17, .b = 19};
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "was not told"));
    answer_free(&gpu.head);
}

static void steps_of_which_nothing_was_told_before_a_crash_are_in_no_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 17, .b = 19}};
    struct gpu_answer gpu;

    works_come_until(164 * MS);
    process_finish(process, PROCESS_CRASHED, "crashed at step 20");
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has_kernels(i), i < 16);
    assert_int_equal(process->steps.train->kernels, 16);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "was not told"));
    answer_free(&gpu.head);
}

static void steps_of_which_all_was_told_at_the_end_stay_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer ops;

    finish_after_telling(200 * MS); /* nothing ran in the last four */
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 20);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 16);
    answer_free(&ops.head);
    assert_int_equal(process->steps.train->kernels, 20);
}

static void steps_that_find_no_room_to_wait_are_none_with_kernels(void **state)
{
    (void)state;
    const int64_t all = DEVICE_OPS_WAITING + 100;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;

    /* Of the first nothing is told while all the others end; then what ran in all comes. */
    know_works(0);
    for (int64_t n = 0; n < all; n++)
        step((uint64_t)n, EVENT_STEP_KERNELS, n * MS, (n + 1) * MS);
    for (int64_t n = 0; n < all; n++)
        fold(1, gemm, n * MS + MS / 4, MS / 2);
    know_works(all * MS);
    for (uint32_t i = 0; i < all; i++)
        assert_int_equal(has_kernels(i), i >= 100);
    assert_int_equal(process->steps.train->kernels, DEVICE_OPS_WAITING);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, DEVICE_OPS_WAITING);
    assert_int_equal(find(&ops, "gemm")->recorded_count, DEVICE_OPS_WAITING);
    answer_free(&ops.head);
    assert_true(process->loss_looks < 1000); /* of each only those that were closed */
}

static void steps_whose_work_waits_behind_too_much_are_none_with_kernels(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t mm = EVENT_META(text("mm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;

    /* What ran in the first step comes when 70,000 kernels of the next seven have come. */
    know_works(0);
    for (int64_t n = 0; n < 9; n++)
        step((uint64_t)n, EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
    for (int64_t n = 1; n < 8; n++)
        for (int64_t i = 0; i < 10000; i++)
            fold(1, gemm, n * 10 * MS + i * 1000, 500);
    fold(1, mm, MS, 2 * MS);
    fold(1, mm, 81 * MS, 2 * MS);
    know_works(90 * MS);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(has_kernels(i), i >= 7);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 2);
    assert_int_equal(find(&ops, "gemm")->recorded_count, 10000);
    assert_int_equal(find(&ops, "mm")->recorded_count, 1);
    answer_free(&ops.head);
}

/* Steps of 5 ms, of which every fourth is recorded; CUPTI tells of its calls 150 ms late. */
/* 10,000 kernels a step, and one that they overtake; more than a device has room for while
 * nothing is told. */
static void
steps_that_were_settled_before_they_were_told_are_none_of_the_device(void **state)
{
    (void)state;
    const int64_t all = GPU_ITEMS / 10000 + 1, overtaken = all - 5;
    struct selection whose = {
        .rank = SELECT_ANY,
        .window = {.kind = WINDOW_STEPS, .a = overtaken, .b = overtaken}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    uint64_t mm = EVENT_META(text("mm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    know_works(0);
    for (int64_t n = 0; n < all; n++) {
        step((uint64_t)n, EVENT_STEP_KERNELS, n * 10 * MS, (n + 1) * 10 * MS);
        for (int64_t i = 0; i < 10000; i++)
            fold(1, gemm, n * 10 * MS + i * 1000, 500);
    }
    fold(1, mm, overtaken * 10 * MS + MS, 2 * MS);
    know_works(all * 10 * MS);
    step((uint64_t)all, EVENT_STEP_KERNELS, all * 10 * MS, (all + 1) * 10 * MS);
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.head.recorded_steps, 1);
    assert_int_equal(find(&ops, "mm")->recorded_count, 1);
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    answer_free(&gpu.head);
}

static void calls_that_are_told_late_are_those_of_their_own_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 40, .b = 79}};
    uint64_t launch = EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 0);
    struct ops_answer answer;

    know_works(0);
    for (int64_t n = 0; n < 200; n++) {
        int64_t t = n * 5 * MS, then = t - 150 * MS;

        op(0, "aten::mm", t, t + MS);
        step((uint64_t)n, n % 4 == 0 ? FULL | EVENT_STEP_KERNELS : 0, t, t + 5 * MS);
        for (int64_t i = 0; i < 3 && then >= 0 && n % 4 == 2; i++)
            fold(1, launch, then + i * MS, MS / 10); /* n - 30 was recorded */
        know_works(then > 0 ? then + 5 * MS : 0);
    }
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    assert_int_equal(answer.head.recorded_steps, 10);
    assert_int_equal(find(&answer, "cudaLaunchKernel")->recorded_count, 30);
    assert_true(fabs(find(&answer, "cudaLaunchKernel")->per_step_count - 3) < 1e-9);
    assert_int_equal(process->ops.late_events, 0);
    assert_true(process->ops.open_count < 40);
    answer_free(&answer.head);
}

static void
calls_of_a_job_without_torch_are_means_of_the_steps_with_their_work(void **state)
{
    (void)state;
    uint64_t launch = EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 0);
    struct ops_answer answer;

    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        for (int64_t i = 0; i < 3 && n % 2 == 0; i++)
            fold(1, launch, t + i * MS, MS / 10);
        step((uint64_t)n, n % 2 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 10 * MS);
    }
    answer = ask_ops(run);
    assert_int_equal(answer.head.recorded_steps, 10);
    assert_true(fabs(find(&answer, "cudaLaunchKernel")->per_step_count - 3) < 1e-9);
    answer_free(&answer.head);
}

static void work_that_its_ring_lost_is_of_the_steps_since_all_was_known(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    for (int64_t n = 0; n < 40; n++) {
        int64_t t = n * 10 * MS;

        if (n < 15 || n >= 20)
            fold(1, gemm, t + MS, MS);
        if (n == 20)
            process_lose(process, 1, 5);
        if (n < 15 || n > 20)
            know_works(t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 39 - 8); /* 14 to 21 */
    assert_int_equal(find(&answer, "gemm")->recorded_count, 39 - 8);
    answer_free(&answer.head);
}

/* The steps are told by another ring, long before; and behind one buffer that is not back
 * others were written. */
static void
work_that_its_ring_lost_is_of_all_steps_until_the_source_tells_again(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    for (int64_t n = 0; n < 40; n++) {
        int64_t t = n * 10 * MS;

        if (n < 15 || n >= 30)
            fold(1, gemm, t + MS, MS);
        if (n == 20)
            process_lose(process, 1, 15);
        if (n < 15 || n > 35)
            know_works(t + 4 * MS);
        if (n == 25) /* the work of 15 is not back, that of 16 to 25 was lost */
            know_works_at(150 * MS, t + 4 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        if (n == 29) /* that of 26 to 29 comes late */
            for (int64_t late = 26; late < 30; late++)
                fold(1, gemm, late * 10 * MS + MS, MS);
    }
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 39 - 12); /* 14 to 25 */
    assert_int_equal(find(&answer, "gemm")->recorded_count, 39 - 12);
    answer_free(&answer.head);
}

static void where_all_steps_have_lost_work_the_answers_say_so(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer ops;
    struct gpu_answer gpu;

    process->capabilities[WIRE_SOURCE_CUPTI].state = WIRE_STATE_ACTIVE;
    for (int64_t n = 0; n < 10; n++) {
        int64_t t = n * 10 * MS;

        fold(1, gemm, t + MS, MS);
        know_works(t + 4 * MS);
        process_lose(process, 1, 15);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    process->capabilities[WIRE_SOURCE_CUPTI].lost = 150;
    assert_int_equal(ops_query(store, &whose, &request, &ops), 0);
    assert_int_equal(ops.row_count, 0);
    assert_non_null(strstr(ops.head.reason, "some was lost"));
    answer_free(&ops.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.devices[0].known_steps, 0);
    assert_non_null(strstr(gpu.devices[0].reason, "some was lost"));
    answer_free(&gpu.head);
}

/* As where another profiler has taken the source, and steps are shorter from then on. */
static void
a_device_does_in_a_mean_step_what_it_did_and_waits_no_longer_than_that(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer gpu;

    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + 8 * MS, 2 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        know_works(t + 10 * MS);
    }
    for (int64_t n = 0; n < 380; n++)
        step(20 + (uint64_t)n, 0, 200 * MS + n * 5 * MS, 205 * MS + n * 5 * MS);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.device_count, 1);
    double busy = 0, idle = 0;

    for (uint32_t i = 0; i < GPU_USES; i++)
        busy += gpu.devices[0].use_ns[i];
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += gpu.devices[0].idle_ns[i];
    assert_true(fabs(busy - 2 * MS) < 1);
    assert_true(fabs(busy + idle - (20 * 10 * MS + 380 * 5 * MS) / 400.0) < 1);
    answer_free(&gpu.head);
}

/* A source that is far behind costs no more than one that is not: what it holds back is not
 * gone through at each step. */
static void work_that_is_held_back_for_long_costs_no_more_at_each_step(void **state)
{
    (void)state;
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);

    know_works(MS);
    for (int64_t n = 0; n < 3000; n++) {
        int64_t t = n * 10 * MS;

        for (int64_t i = 0; i < 100; i++)
            fold(1, gemm, t + i * MS / 20, MS / 50);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    assert_int_equal(process->gpu.settled_ns, MS);
    know_works(3000 * 10 * MS);
    step(3000, EVENT_STEP_KERNELS, 3000 * 10 * MS, 3001 * 10 * MS);
    assert_int_equal(process->gpu.settled_ns, 3000 * 10 * MS);
    assert_int_equal(process->gpu.tables[0]->works, 300000);
    assert_int_equal(process->gpu.tables[0]->late, 0);
}

static void what_ran_where_nothing_was_recorded_is_of_no_step_beside_it(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    struct ops_answer answer;

    /* The source came up in the first step, and all is told when the third has ended. */
    phase(EVENT_PHASE_DATA, 0, MS);
    for (int64_t n = 0; n < 3; n++)
        step((uint64_t)n, n == 0 ? 0 : EVENT_STEP_KERNELS, n * 10 * MS,
             (n + 1) * 10 * MS);
    for (int64_t n = 0; n < 4; n++)
        fold(1, gemm, n * 10 * MS + 5 * MS, MS);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 2);
    assert_int_equal(find(&answer, "gemm")->recorded_count, 2);
    answer_free(&answer.head);
}

static double gpu_idle_of(const struct gpu_device *device)
{
    double sum = 0;

    for (uint32_t i = 0; i < GPU_IDLES; i++)
        sum += device->idle_ns[i];
    return sum;
}

static void a_window_of_steps_of_which_some_have_kernels_is_summed_exactly(void **state)
{
    (void)state;
    const int64_t length = MS + 12345, busy = MS / 2 + 17;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 5, .b = 12}};
    struct gpu_answer answer;

    /* Two of four steps are recorded: 5, 8, 9 and 12 of the window. */
    for (int64_t n = 0; n < 16; n++) {
        int64_t t = n * length;

        if (n % 4 < 2)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + 7, busy);
        step((uint64_t)n, n % 4 < 2 ? FULL | EVENT_STEP_KERNELS : FULL, t, t + length);
    }
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 8);
    assert_int_equal(answer.head.recorded_steps, 4);
    assert_true(fabs(answer.devices[0].busy_ns - 4 * (double)busy) < 1);
    assert_true(fabs(answer.devices[0].span_ns - 4 * (double)length) < 1);
    assert_true(fabs(answer.devices[0].use_ns[GPU_COMPUTE] - (double)busy) < 1);
    assert_int_equal(answer.devices[0].known_steps, 4);
    assert_int_equal(answer.devices[0].summed_steps, 4);
    answer_free(&answer.head);
}

static void device_steps_stand_for_those_around_them_in_the_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer answer;

    /* The first ten are slow and all recorded, of the others one in ten. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS;
        bool recorded = n < 10 || n % 10 == 5;

        if (recorded)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t,
                 n < 10 ? 9 * MS : MS);
        step((uint64_t)n, recorded ? FULL | EVENT_STEP_KERNELS : FULL, t, t + 10 * MS);
    }
    work_begins_at(1001 * MS);
    step(0, EVENT_STEP_VALIDATION, 1005 * MS, 1010 * MS);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.devices[0].known_steps, 19);
    assert_int_equal(answer.devices[0].summed_steps, NOT_KNOWN);
    assert_string_equal(answer.devices[0].reason, "");
    assert_true(fabs(answer.devices[0].use_ns[GPU_COMPUTE] - 1.8e6) < 1);
    assert_true(fabs(gpu_idle_of(&answer.devices[0]) - 8.2e6) < 1);
    answer_free(&answer.head);
}

static void
a_job_without_cpu_ops_counts_its_steps_with_kernels_as_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct bottlenecks_answer answer;

    for (int64_t n = 0; n < 20; n++)
        step((uint64_t)n, n % 4 == 0 ? EVENT_STEP_KERNELS : 0, n * MS, (n + 1) * MS);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 20);
    assert_int_equal(answer.head.recorded_steps, 5);
    bottlenecks_free(&answer);
}

static void a_device_behind_its_launches_says_why_no_step_of_it_is_known(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer answer;

    /* Blocks of three, and what they launch runs four steps later. */
    for (int64_t n = 0; n < 60; n++) {
        int64_t t = n * 10 * MS;
        struct event launch = {(uint64_t)(t + MS), 1000,
                               EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 1),
                               (uint64_t)n + 1};
        struct event kernel = {(uint64_t)(t + 41 * MS), 9 * MS,
                               EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100),
                               (uint64_t)n + 1};

        if (n % 9 < 3) {
            process_fold(process, 1, &kernel, 1);
            process_fold(process, 1, &launch, 1);
        }
        step((uint64_t)n, n % 9 < 3 ? FULL | EVENT_STEP_KERNELS : FULL, t, t + 10 * MS);
    }
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.devices[0].known_steps, 0);
    assert_true(answer.devices[0].behind_steps >= 15);
    assert_true(isnan(answer.devices[0].use_ns[GPU_COMPUTE]));
    assert_non_null(strstr(answer.devices[0].reason, "still busy"));
    answer_free(&answer.head);
}

/* A reading of one device that takes 400 W. */
static void take_power(int64_t at_ns)
{
    static struct hardware_reading reading;
    struct hardware_device *device = &reading.devices[0];

    reading.state = WIRE_STATE_ACTIVE;
    reading.device_count = 1;
    device->sample =
        (struct hardware_sample){.monotonic_ns = session->zero_monotonic_ns + at_ns,
                                 .energy_j = (double)NAN,
                                 .power_w = 400};
    hardware_take(&store->hardware, &reading);
}

static void validation_takes_no_energy_of_a_training_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_request request = {0};
    struct gpu_answer answer;

    fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), 0, MS);
    /* Ten steps of 100 ms a second, from the sixth on batches of validation. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 100 * MS;

        if (n % 10 == 0)
            take_power(t);
        step(n < 50 ? (uint64_t)n : EVENT_STEP_NONE, n < 50 ? 0 : EVENT_STEP_VALIDATION,
             t, t + 100 * MS);
    }
    assert_int_equal(gpu_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.hardware.row_count, 1);
    assert_true(fabs(answer.hardware.rows[0].energy_j - 9 * 400) < 1);
    assert_true(fabs(answer.hardware.rows[0].joules_per_step - 40) < 0.1);
    answer_free(&answer.head);
}

/* Sixteen steps of 62.5 ms a second, for 5,000 seconds: of 4,096 they are remembered. */
static void what_forgotten_steps_took_is_no_energy_of_those_remembered(void **state)
{
    (void)state;
    const int64_t second = 1000 * MS, seconds = STEPS_MAX / 16 + 904;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_request request = {0};
    struct gpu_answer answer;

    fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), 0, MS);
    for (int64_t at = 0, n = 0; at < seconds; at++) {
        if (at % 2 == 0)
            take_power(at * second);
        for (; n < (at + 1) * 16; n++) {
            fold(0, EVENT_META(0, EVENT_SAMPLES, 0, 0), n * second / 16, 8);
            step((uint64_t)n, 0, n * second / 16, (n + 1) * second / 16);
        }
    }
    assert_int_equal(gpu_query(store, &whose, &request, &answer), 0);
    /* Each point tells of two seconds: they reach back as far as the run. */
    assert_true(fabs(answer.hardware.rows[0].energy_j - (double)(seconds - 2) * 400) <
                1);
    assert_true(fabs(answer.hardware.rows[0].joules_per_step - 25) < 0.1);
    assert_true(fabs(answer.hardware.rows[0].samples_per_joule - 8.0 / 25) < 0.001);
    answer_free(&answer.head);
}

static void tagged_steps_stand_for_themselves_alone(void **state)
{
    (void)state;
    /* Ten drawn of 99 at 1 ms, and one tagged step with 50 ms. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 100 * MS;
        bool drawn = n % 10 == 0, tagged = n == 55;

        if (drawn || tagged)
            op(0, "aten::mm", t, t + (tagged ? 50 : 1) * MS);
        step((uint64_t)n,
             tagged  ? FULL | EVENT_STEP_TAGGED
             : drawn ? FULL
                     : 0,
             t, t + 100 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_true(fabs(find(&answer, "aten::mm")->total_ns - (50e6 + 99e6)) < 1);
    answer_free(&answer.head);
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 55, .b = 55});
    assert_true(fabs(find(&answer, "aten::mm")->total_ns - 50e6) < 1);
    assert_true(find(&answer, "aten::mm")->error_pct == 0);
    answer_free(&answer.head);
}

static void a_long_first_step_stands_for_itself_alone(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer answer;
    int64_t t = 1000 * MS;

    phase(EVENT_PHASE_FORWARD, 0, t);
    step(0, FULL, 0, t);
    /* Each is half data; nine of them tell. */
    for (uint64_t n = 1; n < 1000; n++, t += 2 * MS) {
        struct event unknown = {.time = (uint64_t)t,
                                .value = 2 * MS,
                                .meta = EVENT_META(0, EVENT_STEP, 0, 0),
                                .aux = n | (uint64_t)1 << 48};

        if (n % 100 != 50) {
            process_fold(process, 0, &unknown, 1);
            continue;
        }
        phase(EVENT_PHASE_DATA, t, t + MS);
        step(n, 0, t, t + 2 * MS);
    }
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_int_equal(answer.train.count, 1000);
    assert_true(fabs(answer.train.phase_share[EVENT_PHASE_DATA] - 999.0 / 2998) < 1e-6);
    assert_true(fabs(answer.train.phase_share[EVENT_PHASE_FORWARD] - 1000.0 / 2998) <
                1e-6);
    answer_free(&answer.head);
}

static void what_was_recorded_on_demand_alone_says_no_error_of_the_rest(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS;

        op(0, "aten::mm", t, t + MS);
        step((uint64_t)n, n < 3 ? FULL | EVENT_STEP_TAGGED : 0, t, t + 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_true(fabs(find(&answer, "aten::mm")->count - 100) < 1e-9);
    assert_true(isnan(find(&answer, "aten::mm")->error_pct));
    answer_free(&answer.head);
    /* Of steps that were all recorded it is exact. */
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 0, .b = 2});
    assert_true(find(&answer, "aten::mm")->error_pct == 0);
    answer_free(&answer.head);
}

static void late_events_join_the_step_in_which_they_began(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 4; n++) {
        op(0, "main", n * 10 * MS, n * 10 * MS + MS);
        step((uint64_t)n, FULL, n * 10 * MS, (n + 1) * 10 * MS);
    }
    op(1, "late", 11 * MS, 19 * MS);
    struct ops_answer answer =
        ask_ops((struct window){.kind = WINDOW_STEPS, .a = 1, .b = 1});

    assert_int_equal(find(&answer, "late")->recorded_count, 1);
    assert_int_equal(find(&answer, "main")->recorded_count, 1);
    answer_free(&answer.head);
    answer = ask_ops((struct window){.kind = WINDOW_STEPS, .a = 2, .b = 3});
    assert_int_equal(find(&answer, "late")->recorded_count, 0);
    answer_free(&answer.head);
}

static void ops_outside_of_steps_and_in_validation_are_no_part_of_a_step(void **state)
{
    (void)state;
    op(0, "init", 0, 5 * MS);
    op(0, "aten::collate", 11 * MS, 12 * MS);
    phase(EVENT_PHASE_DATA, 10 * MS, 12 * MS);
    op(0, "aten::mm", 12 * MS, 14 * MS);
    step(0, FULL, 10 * MS, 20 * MS);
    op(0, "aten::eval", 22 * MS, 24 * MS);
    step(0, FULL | EVENT_STEP_VALIDATION, 21 * MS, 25 * MS);
    op(0, "save", 26 * MS, 28 * MS);
    op(0, "aten::mm", 31 * MS, 33 * MS);
    step(1, FULL, 30 * MS, 40 * MS);
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.total_ops, 2);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 2);
    assert_int_equal(find(&answer, "aten::collate")->recorded_count, 1);
    answer_free(&answer.head);
}

static void a_process_without_steps_shows_its_ops_by_its_span(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 20000; n++)
        op(0, "aten::mm", n * MS, n * MS + MS / 2);
    process_finish(process, PROCESS_ENDED, "");
    struct ops_answer answer = ask_ops(run);
    const struct op_row *mm = find(&answer, "aten::mm");

    assert_int_equal(mm->recorded_count, 20000);
    assert_true(fabs(mm->share - 0.5) < 0.001);
    assert_true(isnan(mm->per_step_ns));
    answer_free(&answer.head);
}

static void a_step_with_losses_is_not_counted_as_recorded(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        if (n == 3)
            process_lose(process, 0, 17);
        op(0, "aten::mm", n * 10 * MS, n * 10 * MS + MS);
        step((uint64_t)n, FULL, n * 10 * MS, (n + 1) * 10 * MS);
    }
    struct ops_answer answer = ask_ops(run);

    assert_int_equal(answer.head.lost_events, 17);
    assert_int_equal(answer.head.recorded_steps, 9);
    assert_int_equal(find(&answer, "aten::mm")->recorded_count, 9);
    assert_true(fabs(find(&answer, "aten::mm")->count - 10) < 1e-9);
    answer_free(&answer.head);
}

static void ten_thousand_names_are_top_k_and_other(void **state)
{
    (void)state;
    char name[32];
    double shown = 0, total = 0;

    phase(EVENT_PHASE_DATA, 0, 1);
    for (int64_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "op_%05d", (int)i);
        op(0, name, i * 2000, i * 2000 + 100 + i % 1000);
        total += (double)(100 + i % 1000);
    }
    step(0, FULL, 0, 20 * MS);
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct ops_request request = {.k = 25, .sort = OPS_BY_P95};
    struct ops_answer answer;

    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.total_ops, 10000);
    assert_int_equal(answer.row_count, 25);
    assert_int_equal(answer.other_ops, 9975);
    for (uint32_t i = 0; i < answer.row_count; i++) {
        shown += answer.rows[i].self_ns;
        assert_true(answer.rows[i].p95_ns >= 0.99 * 1083);
    }
    assert_true(fabs(shown + answer.other.self_ns - total) < 1);
    answer_free(&answer.head);
    request.query = "OP_00012";
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.total_ops, 1);
    assert_string_equal(answer.rows[0].name, "op_00012");
    answer_free(&answer.head);
}

static void phases_are_unions_and_what_is_outside_is_told(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer answer;

    phase(EVENT_PHASE_DATA, 0, 2 * MS);
    phase(EVENT_PHASE_FORWARD, 2 * MS, 4 * MS);
    phase(EVENT_PHASE_BACKWARD, 4 * MS, 7 * MS);
    phase(EVENT_PHASE_BACKWARD, 5 * MS, 8 * MS);
    phase(EVENT_PHASE_OPTIMIZER, 8 * MS, 9 * MS);
    step(0, 0, 0, 10 * MS);
    phase(EVENT_PHASE_DATA, 13 * MS, 14 * MS);
    step(1, 0, 13 * MS, 20 * MS);
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_int_equal(answer.row_count, 2);
    assert_true(answer.rows[0].phase_ns[EVENT_PHASE_BACKWARD] == 4e6);
    assert_true(answer.rows[0].other_ns == 1e6);
    assert_true(answer.outside_ns == 3e6);
    assert_true(answer.rows[1].phase_ns[EVENT_PHASE_FORWARD] == 0);
    answer_free(&answer.head);
}

static void waited(int64_t time, int64_t ns)
{
    fold(0, EVENT_META(0, EVENT_WAITED, 0, 0), time, ns);
}

static void a_wait_for_a_batch_belongs_to_the_step_that_fetched_it(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer answer;

    phase(EVENT_PHASE_DATA, 0, 4 * MS);
    step(0, 0, 0, 10 * MS);
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_true(isnan(answer.train.waited_ns)); /* nobody told */
    assert_true(isnan(answer.train.late_share));
    answer_free(&answer.head);
    phase(EVENT_PHASE_DATA, 10 * MS, 14 * MS);
    waited(12 * MS, 1 * MS);
    waited(14 * MS, 1 * MS);
    waited(23 * MS,
           3 * MS); /* of the next step, whose end of the one before came late */
    step(1, 0, 10 * MS, 20 * MS);
    phase(EVENT_PHASE_DATA, 20 * MS, 24 * MS);
    step(2, 0, 20 * MS, 30 * MS);
    phase(EVENT_PHASE_DATA, 30 * MS, 34 * MS);
    waited(34 * MS, 900 * MS); /* more than there was */
    step(3, 0, 30 * MS, 40 * MS);
    step(4, 0, 40 * MS, 50 * MS); /* it fetched nothing */
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &answer),
                     0);
    assert_true(fabs(answer.train.waited_ns - (2 + 3 + 4 + 0) / 4.0 * 1e6) < 1);
    assert_true(answer.train.late_share == 3 / 4.0);
    assert_true(answer.train.waited_error_ns > 0);
    answer_free(&answer.head);
}

static void a_spike_survives_decimation_and_its_cause_is_named(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer answer;
    int64_t t = 0;
    bool seen = false;

    for (uint64_t n = 0; n < 5000; n++) {
        int64_t data = n == 3333 ? 80 * MS : 2 * MS;

        phase(EVENT_PHASE_DATA, t, t + data);
        phase(EVENT_PHASE_FORWARD, t + data, t + data + 3 * MS);
        step(n, 0, t, t + data + 8 * MS);
        t += data + 8 * MS;
    }
    struct steps_request request = {.points = 100};

    assert_int_equal(steps_query(store, &whose, &request, &answer), 0);
    assert_true(answer.decimated && answer.row_count <= 100);
    for (uint32_t i = 0; i < answer.row_count; i++)
        seen |= answer.rows[i].number == 3333 && answer.rows[i].slow;
    assert_true(seen);
    uint64_t steps = 0;
    double total = 0;

    for (uint32_t i = 0; i < answer.mean_count; i++) {
        steps += answer.means[i].steps;
        total += (double)answer.means[i].steps * answer.means[i].phase_ns[0];
        assert_true(i == 0 || answer.means[i].time_ns > answer.means[i - 1].time_ns);
    }
    assert_int_equal(steps, answer.train.count);
    assert_true(fabs(total / (double)steps - answer.train.phase_ns[0]) < 1);
    assert_int_equal(answer.slow_count, 1);
    assert_string_equal(answer.slow[0].cause, "data");
    assert_true(fabs(answer.slow[0].over_ns - 78e6) < 1);
    assert_true(fabs(answer.train.p50_ns - 10e6) < 1);
    answer_free(&answer.head);
}

static void a_run_longer_than_the_table_keeps_its_sums(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer answer;

    for (uint64_t n = 0; n < STEPS_MAX + 5000; n++)
        step(n, 0, (int64_t)n * MS, (int64_t)(n + 1) * MS);
    struct steps_request request = {.points = 600};

    assert_int_equal(steps_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.train.count, STEPS_MAX + 5000);
    assert_true(fabs(answer.train.p95_ns - 1e6) < 0.01e6);
    assert_true(answer.rows[0].start_ns < 2000 * MS);
    assert_int_equal(answer.rows[answer.row_count - 1].number, STEPS_MAX + 4999);
    answer_free(&answer.head);
}

static void the_stream_gives_each_step_once_and_tells_of_gaps(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct steps_answer answer;
    uint64_t cursor = 0;

    step(0, 0, 0, MS);
    assert_int_equal(steps_since(store, &whose, &cursor, 10, &answer), 0);
    assert_int_equal(answer.row_count, 0);
    answer_free(&answer.head);
    for (uint64_t n = 1; n < 4; n++)
        step(n, 0, (int64_t)n * MS, (int64_t)(n + 1) * MS);
    assert_int_equal(steps_since(store, &whose, &cursor, 10, &answer), 0);
    assert_int_equal(answer.row_count, 3);
    assert_int_equal(answer.rows[0].number, 1);
    assert_string_equal(answer.head.reason, "");
    answer_free(&answer.head);
    for (uint64_t n = 4; n < 40; n++)
        step(n, 0, (int64_t)n * MS, (int64_t)(n + 1) * MS);
    assert_int_equal(steps_since(store, &whose, &cursor, 10, &answer), 0);
    assert_int_equal(answer.row_count, 10);
    assert_int_equal(answer.rows[9].number, 39);
    assert_string_equal(answer.head.reason, "gap");
    answer_free(&answer.head);
}

/* A sample at `time_ns` with its peak in between and two allocations of 10 bytes. */
static void memory_sample(int64_t time_ns, int64_t bytes, int64_t peak)
{
    uint32_t name = text("aten::conv2d");
    struct event events[3] = {
        {.time = (uint64_t)time_ns,
         .value = (uint64_t)bytes,
         .meta = EVENT_META(name, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)),
         .aux = (uint64_t)bytes + 1000},
        {.time = (uint64_t)time_ns - 5,
         .value = (uint64_t)peak,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1),
         .aux = 2 | (uint64_t)1 << 32},
        {.time = 20, .meta = EVENT_META(0, EVENT_MORE, 0, 2)},
    };

    /* In pieces, as a batch may be cut anywhere. */
    process_fold(process, 0, events, 1);
    process_fold(process, 0, events + 1, 2);
    process_fold_whole(process, 0);
}

static void memory_has_peaks_with_their_op_and_a_leak_has_a_slope(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    int64_t mib = 1024 * 1024;

    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1000 * mib + n * mib + (n % 5) * 20 * mib,
                      n == 700 ? 9000 * mib : 2200 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_int_equal(answer.device_count, 1);
    const struct memory_device *device = &answer.devices[0];

    assert_string_equal(device->device, "cuda:0");
    assert_true(device->peak_bytes == 9000.0 * (double)mib);
    assert_int_equal(device->peak_time_ns, 701 * 100 * MS - 5);
    assert_int_equal(device->peak_step, 700);
    assert_string_equal(device->peak_op, "aten::conv2d");
    assert_true(device->growth.sure);
    assert_true(fabs(device->growth.slope_bytes_per_s - 10.0 * (double)mib) <
                0.5 * (double)mib);
    assert_true(fabs(device->allocations_per_step - 2) < 1e-9);
    assert_true(fabs(device->bytes_per_step - 20) < 1e-9);
    assert_int_equal(device->point_count, 600);
    answer_free(&answer.head);
}

/* A sample of what an allocator asked of the driver meanwhile. */
static void driver_sample(int64_t time_ns, uint64_t got, uint64_t retries,
                          uint64_t segments)
{
    struct event events[4] = {
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)),
         .aux = 4 << 20},
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1)},
        {.value = got | (uint64_t)2 << 32,
         .meta = EVENT_META(0, EVENT_MORE, EVENT_MEMORY_SEGMENTS, 2),
         .aux = retries | (uint64_t)1 << 32},
        {.time = (uint64_t)time_ns - 3 * MS,
         .value = 3 * MS,
         .meta = EVENT_META(0, EVENT_MORE, 0, 3),
         .aux = segments},
    };

    process_fold(process, 0, events, 4);
    process_fold_whole(process, 0);
}

/* One of an allocation that failed; what it asked the driver for before nobody saw. */
static void failed_sample(int64_t time_ns, uint64_t allocations)
{
    struct event events[3] = {
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0))},
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1),
         .aux = allocations},
        {.meta = EVENT_META(0, EVENT_MORE, EVENT_MEMORY_OOMS | EVENT_MEMORY_FAILED, 2),
         .aux = (uint64_t)1 << 32},
    };

    process_fold(process, 0, events, 3);
    process_fold_whole(process, 0);
}

static void a_sample_of_a_failure_is_no_step_and_tells_of_no_retries(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1 << 20, 1 << 20);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    double usual = answer.devices[0].allocations_per_step;

    assert_true(isnan(answer.devices[0].ooms));
    answer_free(&answer.head);
    for (int64_t n = 0; n < 5; n++)
        failed_sample(1000 * MS + n + 1, 9);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].ooms == 5);
    assert_true(isnan(answer.devices[0].retries));
    assert_true(isnan(answer.devices[0].driver_ns));
    /* Five times nine, by nine steps: before the first sample was another window. */
    assert_true(fabs(answer.devices[0].allocations_per_step - usual - 5) < 1e-9);
    answer_free(&answer.head);
}

static void what_an_allocator_asks_of_the_driver_is_summed_over_the_window(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        driver_sample((n + 1) * 100 * MS, 3, n == 4 ? 7 : 0, n == 9 ? 0 : 12);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    const struct memory_device *device = &answer.devices[0];

    assert_true(device->segments_got == 30 && device->segments_given_back == 20);
    assert_true(device->retries == 7 && device->ooms == 10);
    assert_true(device->driver_ns == 3 * MS && device->driver_lasting_ns == 3 * MS);
    assert_true(isnan(device->segments)); /* the newest does not know them all */
    answer_free(&answer.head);
    for (int64_t n = 0; n < 10; n++) /* as long, and of another allocator */
        memory_sample((1000 + n) * MS, 1 << 20, 1 << 20);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(isnan(answer.devices[0].driver_lasting_ns));
    answer_free(&answer.head);
    driver_sample(1100 * MS, 0, 0, 1);
    memory_sample(1200 * MS, 1 << 20, 1 << 20);
    whose.window = (struct window){.kind = WINDOW_TIME, .a = 1050 * MS, .b = 1150 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].segments == 0);
    assert_true(answer.devices[0].segments_got == 0);
    answer_free(&answer.head);
    whose.window = (struct window){.kind = WINDOW_TIME, .a = 1150 * MS, .b = 1250 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(isnan(answer.devices[0].segments_got)); /* another's sample */
    assert_true(isnan(answer.devices[0].retries));
    answer_free(&answer.head);
}

static void say_fact(const char *key, double number)
{
    process->facts[process->fact_count++] =
        (struct process_fact){.key = texts_intern(process->texts, key, strlen(key)),
                              .type = WIRE_FACT_NUMBER,
                              .number = number};
}

/* The allocator is asked of one device: of another one nothing is known. */
static void
what_an_allocator_has_split_is_of_the_device_that_it_was_asked_about(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    memory_sample(MS, 1 << 20, 1 << 20);
    say_fact(FACT_ALLOCATOR_INACTIVE_SPLIT, 4096);
    say_fact(FACT_ALLOCATOR_DEVICE, 1);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_string_equal(answer.devices[0].device, "cuda:0");
    assert_true(isnan(answer.devices[0].inactive_split_bytes));
    answer_free(&answer.head);
    process->facts[process->fact_count - 1].number = 0;
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].inactive_split_bytes == 4096);
    answer_free(&answer.head);
}

static void the_ops_with_the_largest_blocks_are_remembered(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    char name[16], best[16];

    /* In any order, each op twice, the second block smaller. */
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t op = n * 37 % 50;

        (void)snprintf(name, sizeof(name), "op %u", op);
        struct event event = {
            .time = n,
            .value = (op + 1) * 1000 - (n >= 50 ? 500 : 0),
            .meta = EVENT_META(text(name), EVENT_ALLOC, 0, EVENT_DEVICE(1, 0))};

        process_fold(process, 0, &event, 1);
        event.value = (uint64_t)-1000000; /* a free is no block */
        process_fold(process, 0, &event, 1);
    }
    memory_sample(100 * MS, 1 << 20, 1 << 20);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_int_equal(answer.devices[0].largest_count, MEMORY_OPS);
    for (uint32_t i = 0; i < MEMORY_OPS; i++) {
        (void)snprintf(best, sizeof(best), "op %u", 49 - i);
        assert_string_equal(answer.devices[0].largest[i].op, best);
        assert_true(answer.devices[0].largest[i].bytes == (50 - i) * 1000);
    }
    answer_free(&answer.head);
}

static void an_alloc(const char *op, int64_t bytes)
{
    struct event event = {.value = (uint64_t)bytes,
                          .meta = EVENT_META(op == NULL ? 0 : text(op), EVENT_ALLOC, 0,
                                             EVENT_DEVICE(1, 0))};

    process_fold(process, 0, &event, 1);
}

/* A gradient that the next step gives back, and `kept` that stays. */
static void a_step_that_keeps(int64_t n, const char *kept)
{
    step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
    an_alloc(kept, 1 << 20);
    an_alloc(NULL, -(4 << 20));
    an_alloc("aten::mm", 4 << 20);
    an_alloc("aten::mul", 2 << 20);
    an_alloc(NULL, -(2 << 20));
    memory_sample((n + 1) * 100 * MS, (n + 1) << 20, (n + 1) << 20);
}

static struct memory_answer ask_memory(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    return answer;
}

static void the_op_whose_blocks_stay_is_told_and_what_is_passing_is_not(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++)
        a_step_that_keeps(n, "aten::relu");
    memory_sample(1100 * MS, 11 << 20, 11 << 20); /* of a step that was not recorded */
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 1);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::relu");
    assert_true(answer.devices[0].kept_bytes_per_step == 1 << 20);
    assert_true(answer.devices[0].kept_block_bytes == 1 << 20);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

/* A free may be of any of them, in whatever order they come. */
static void all_ops_that_take_blocks_of_the_size_that_stays_are_told(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        an_alloc("aten::empty", 4 << 20);
        a_step_that_keeps(n, "aten::relu");
    }
    struct memory_answer answer = ask_memory();

    assert_true(answer.devices[0].kept_block_bytes == 4 << 20);
    assert_true(answer.devices[0].kept_bytes_per_step == 4 << 20);
    assert_int_equal(answer.devices[0].kept_op_count, 2);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::empty");
    assert_string_equal(answer.devices[0].kept_ops[1], "aten::mm");
    answer_free(&answer.head);
}

static void of_a_size_that_many_ops_take_nobody_is_told_to_keep_it(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        an_alloc("aten::add", 1 << 20);
        an_alloc("aten::sub", 1 << 20);
        an_alloc(n < 5 ? "aten::div" : "aten::exp", 1 << 20); /* no step has four */
        memory_sample((n + 1) * 100 * MS, 3 * (n + 1) << 20, 3 * (n + 1) << 20);
    }
    step(0, 0, 0, 1100 * MS);
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 0);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

/* As a queue that is filled in one step and emptied in the next. */
static void what_every_other_step_keeps_and_the_next_gives_back_is_no_ones(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        an_alloc(n % 2 ? NULL : "aten::pin", n % 2 ? -(8 << 20) : 8 << 20);
        an_alloc("aten::mm", 4 << 20);
        an_alloc(NULL, -(4 << 20));
        memory_sample((n + 1) * 100 * MS, 8 << 20, 8 << 20);
    }
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 0);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

static void of_a_step_with_too_many_sizes_nothing_is_told_of_who_keeps(void **state)
{
    (void)state;
    for (int64_t size = 1; size <= 1000; size++)
        an_alloc("aten::mm", size << 10);
    a_step_that_keeps(0, "aten::relu");
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_steps, 0);
    answer_free(&answer.head);
    a_step_that_keeps(1, "aten::relu"); /* begins anew */
    answer = ask_memory();
    assert_int_equal(answer.devices[0].kept_steps, 1);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::relu");
    answer_free(&answer.head);
}

static void memory_whose_stamps_run_back_is_told_at_the_newest_instant(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_TIME, .b = 1000 * MS}};
    struct memory_answer answer;

    step(0, 0, 0, 1000 * MS);
    memory_sample(900 * MS, 4 << 20, 4 << 20);
    for (int64_t n = 0; n <= 30; n++)
        memory_sample(900 * MS - n, (4 + n) << 20, 64 << 20);
    assert_int_equal(
        memory_query(store, &whose, &(struct memory_request){.points = 10}, &answer),
        0);
    assert_int_equal(answer.device_count, 1);
    assert_true(answer.devices[0].allocated_bytes == (double)(34 << 20));
    assert_true(answer.devices[0].point_count > 0);
    for (uint32_t i = 0; i < answer.devices[0].point_count; i++)
        assert_int_equal(answer.devices[0].points[i].time_ns, 900 * MS);
    answer_free(&answer.head);
}

static void totals_below_zero_are_points_as_others_are(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 1; n <= 20; n++) {
        step((uint64_t)n, 0, (n - 1) * 100 * MS, n * 100 * MS);
        memory_sample(n * 100 * MS, -n * (1 << 20), 0);
    }
    assert_int_equal(
        memory_query(store, &whose, &(struct memory_request){.points = 10}, &answer),
        0);
    const struct memory_device *device = &answer.devices[0];

    assert_int_equal(device->point_count, 10);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(device->points[i].time_ns, (2 * i + 1) * 100 * MS);
        assert_true(device->points[i].allocated == -(double)((2 * i + 1) << 20));
    }
    assert_int_equal(device->points[9].time_ns, 2000 * MS);
    answer_free(&answer.head);
}

static void what_is_held_at_the_end_depends_on_no_number_of_points(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    step(0, 0, 0, 1000 * MS);
    for (int64_t n = 1; n <= 100; n++)
        memory_sample(n * 10 * MS, (200 - n) << 20, 256 << 20);
    for (uint32_t points = 1; points <= 128; points++) {
        struct memory_answer answer;
        const struct memory_device *device;

        assert_int_equal(memory_query(store, &whose,
                                      &(struct memory_request){.points = points},
                                      &answer),
                         0);
        device = &answer.devices[0];
        assert_int_equal(device->point_count, points < 100 ? points : 100);
        assert_true(device->points[device->point_count - 1].allocated == 100 << 20);
        if (points > 1) /* and the highest is among them */
            assert_true(device->points[0].allocated == 199 << 20);
        answer_free(&answer.head);
    }
}

static void steady_memory_has_no_sure_slope(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    int64_t mib = 1024 * 1024;

    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1000 * mib + (n * 7919 % 101) * mib,
                      2200 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_false(answer.devices[0].growth.sure);
    assert_true(isnan(answer.devices[0].growth.full_in_s));
    answer_free(&answer.head);
}

static void the_peaks_of_single_steps_are_told_from_the_usual_one(void **state)
{
    (void)state;
    const int64_t mib = 1 << 20;
    struct memory_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    for (int64_t n = 0; n < 50; n++)
        memory_sample((n + 1) * 100 * MS, 1000 * mib + n % 3 * mib,
                      (n % 20 == 7 ? 3000 : 2000 + n % 2) * mib);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].usual_peak_bytes == 2000.0 * (double)mib);
    assert_true(answer.devices[0].least_peak_bytes == 2000.0 * (double)mib);
    assert_true(answer.devices[0].floor_bytes == 1000.0 * (double)mib);
    assert_int_equal(answer.devices[0].peaks, 50);
    assert_int_equal(answer.devices[0].high_peaks, 3);
    assert_int_equal(answer.devices[0].other_peaks, 3); /* 2,001 MiB are alike */
    answer_free(&answer.head);
    whose.window = (struct window){.kind = WINDOW_LAST_NS, .a = 1000 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    /* Ten steps have no usual peak. */
    assert_true(isnan(answer.devices[0].usual_peak_bytes));
    assert_true(isnan(answer.devices[0].floor_bytes));
    assert_int_equal(answer.devices[0].high_peaks, 0);
    answer_free(&answer.head);
}

/* The device's memory, as the job's facts have it. */
static void say_device_memory(double bytes)
{
    process->facts[process->fact_count++] =
        (struct process_fact){.key = texts_intern(process->texts, FACT_DEVICE_MEMORY,
                                                  strlen(FACT_DEVICE_MEMORY)),
                              .type = WIRE_FACT_NUMBER,
                              .number = bytes};
}

static void the_time_until_a_device_is_full_has_an_interval(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    const int64_t mib = 1 << 20, last = 1000 * mib + 999 * mib + 50 * mib;
    const struct memory_growth *growth;
    struct memory_answer answer;

    say_device_memory(20000.0 * (double)mib);
    for (int64_t n = 0; n < 1000; n++) {
        int64_t held = n == 999 ? last : 1000 * mib + n * mib + n * 7919 % 101 * mib;

        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, held, held + 500 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    growth = &answer.devices[0].growth;
    assert_true(growth->sure);
    assert_true(growth->error_bytes_per_s > 0);
    assert_true(growth->error_bytes_per_s < 0.2 * growth->slope_bytes_per_s);
    /* A step needs its peak: that is what meets the end. */
    double left = (double)(20000 * mib - last - 500 * mib);

    assert_true(growth->full_in_s == left / growth->slope_bytes_per_s);
    assert_true(growth->earliest_s < left / (10.0 * (double)mib));
    assert_true(growth->latest_s > left / (10.0 * (double)mib));
    assert_true(growth->earliest_s < growth->full_in_s &&
                growth->full_in_s < growth->latest_s);
    answer_free(&answer.head);
}

static void stamps_that_run_back_end_no_query(void **state)
{
    (void)state;
    struct memory_answer answer;

    for (int64_t n = 0; n < 100; n++)
        memory_sample((n % 2 == 0 ? 100 : 1) * MS + n, 1000, 2000);
    for (int64_t from = 0; from < 110; from += 3) {
        struct selection whose = {
            .rank = SELECT_ANY,
            .window = {.kind = WINDOW_TIME, .a = from * MS, .b = (from + 5) * MS}};

        assert_int_equal(
            memory_query(store, &whose, &(struct memory_request){0}, &answer), 0);
        assert_true(answer.devices[0].point_count <= 100);
        answer_free(&answer.head);
    }
}

/* The longest that a reader hands on, and the stamps farthest apart. */
static void lengths_that_cannot_be_add_up_to_their_limit(void **state)
{
    (void)state;
    const int64_t longest = ((int64_t)1 << 50) - 1, farthest = (int64_t)1 << 60;
    struct bottlenecks_answer answer;
    struct steps_answer steps;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    for (int64_t n = 0; n < 6; n++) {
        int64_t t = n % 2 == 0 ? -farthest : farthest;

        for (uint32_t i = 0; i < 1000; i++)
            phase(EVENT_PHASE_DATA, t, t + longest);
        for (int64_t i = 0; i < 70000; i++)
            op(0, "aten::add", t + i, t + i + longest);
        step((uint64_t)n, FULL, t, t + longest);
    }
    struct ops_answer ops = ask_ops(run);

    assert_int_equal(find(&ops, "aten::add")->recorded_count, 6 * 70000);
    assert_int_equal(find(&ops, "aten::add")->recorded_total_ns, SUM_MAX_NS);
    assert_true(find(&ops, "aten::add")->self_ns >= (double)SUM_MAX_NS);
    answer_free(&ops.head);
    assert_int_equal(
        steps_query(store, &whose, &(struct steps_request){.points = 100}, &steps), 0);
    assert_int_equal(steps.train.count, 6);
    assert_true(steps.train.mean_ns > 0);
    answer_free(&steps.head);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    bottlenecks_free(&answer);
}

static void the_rank_that_others_wait_for_is_found_with_its_cause(void **state)
{
    (void)state;
    struct process *second = new_process(1), *both[2] = {process, second};
    struct ranks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    for (uint64_t n = 0; n < 50; n++) {
        for (uint32_t r = 0; r < 2; r++) {
            /* Rank 1 loads 30 ms, rank 0 waits for it in backward. */
            int64_t t = (int64_t)n * 100 * MS, data = r == 1 ? 30 * MS : 5 * MS;

            process = both[r];
            phase(EVENT_PHASE_DATA, t, t + data);
            phase(EVENT_PHASE_FORWARD, t + data, t + data + 20 * MS);
            phase(EVENT_PHASE_BACKWARD, t + data + 20 * MS, t + 95 * MS);
            step(n, 0, t, t + 100 * MS);
        }
    }
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_true(answer.comparable);
    assert_int_equal(answer.slowest, 1);
    assert_string_equal(answer.slowest_cause, "data");
    assert_true(fabs(answer.slowest_by_ns - 25e6) < 1);
    assert_true(fabs(answer.rows[0].wait_ns - 25e6) < 1);
    assert_true(fabs(answer.slowest_price_ns - 25e6) < 1);
    answer_free(&answer.head);
}

/* A second loop of the job counts anew. In the first one both ranks are alike. */
static void ranks_are_compared_from_where_the_window_begins(void **state)
{
    (void)state;
    struct process *second = new_process(1), *both[2] = {process, second};
    struct window last = {.kind = WINDOW_LAST_STEPS, .a = 40};
    struct selection whose = {.rank = SELECT_ANY, .window = last};
    struct ranks_answer answer;

    for (uint64_t n = 0; n < 100; n++) {
        for (uint32_t r = 0; r < 2; r++) {
            /* Rank 1 is a step ahead. */
            int64_t t = (int64_t)(n + 1 - r) * 100 * MS;
            int64_t data = r == 1 && n >= 50 ? 30 * MS : 5 * MS;

            process = both[r];
            phase(EVENT_PHASE_DATA, t, t + data);
            phase(EVENT_PHASE_FORWARD, t + data, t + data + 20 * MS);
            phase(EVENT_PHASE_BACKWARD, t + data + 20 * MS, t + 95 * MS);
            step(n % 50, 0, t, t + 100 * MS);
        }
    }
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_true(answer.comparable);
    assert_int_equal(answer.slowest, 1);
    assert_true(fabs(answer.rows[0].wait_ns - 25e6) < 1);
    answer_free(&answer.head);
}

/* Rank 1 saves for 10 or 30 ms in each step; with `exchange` rank 0 waits for it. */
static void train_with_a_saving_rank(uint64_t steps, bool exchange)
{
    struct process *second = new_process(1), *both[2] = {process, second};

    for (uint64_t n = 0; n < steps; n++) {
        int64_t t = (int64_t)n * 100 * MS, extra = n % 2 == 0 ? 30 * MS : 10 * MS;

        for (uint32_t r = 0; r < 2; r++) {
            int64_t backward = r == 0 && exchange ? 30 * MS + extra : 30 * MS;

            process = both[r];
            phase(EVENT_PHASE_DATA, t, t + 5 * MS);
            phase(EVENT_PHASE_FORWARD, t + 5 * MS, t + 25 * MS);
            phase(EVENT_PHASE_BACKWARD, t + 25 * MS, t + 25 * MS + backward);
            step(n, 0, t, t + 55 * MS + (r == 1 || exchange ? extra : 0));
        }
    }
}

static void what_one_rank_does_in_no_phase_is_a_cause_and_priced_per_step(void **state)
{
    (void)state;
    struct ranks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    train_with_a_saving_rank(50, true);
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_int_equal(answer.slowest, 1);
    assert_string_equal(answer.slowest_cause, "other");
    assert_true(fabs(answer.slowest_cause_ns - 20e6) < 1);
    assert_true(fabs(answer.slowest_price_ns - 20e6) < 1);
    assert_true(answer.slowest_error_ns > 0);
    answer_free(&answer.head);
}

static void ranks_that_exchange_nothing_do_not_wait_for_the_slower_one(void **state)
{
    (void)state;
    struct ranks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    train_with_a_saving_rank(50, false);
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_int_equal(answer.slowest, 1);
    assert_true(fabs(answer.slowest_price_ns) < 1);
    answer_free(&answer.head);
}

static void say(struct process *of, const char *key, const char *value)
{
    of->facts[of->fact_count++] =
        (struct process_fact){.key = texts_intern(of->texts, key, strlen(key)),
                              .type = WIRE_FACT_TEXT,
                              .text = texts_intern(of->texts, value, strlen(value))};
}

static void a_running_job_names_the_device_that_it_is_on(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer gpu;

    say(process, FACT_DEVICE_NAME, "NVIDIA H200");
    say_fact(FACT_ALLOCATOR_DEVICE, 1);
    fold_late_kernels(80, "gemm");
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_true(gpu.device_count >= 2);
    for (uint32_t i = 0; i < gpu.device_count; i++)
        assert_string_equal(gpu.devices[i].name,
                            strcmp(gpu.devices[i].device, "cuda:1") == 0 ? "NVIDIA H200"
                                                                         : "");
    answer_free(&gpu.head);
}

/* Rank 1 loads for 30 ms and rank 0 for 5; rank 0 is in forward for that much longer. */
static void train_with_late_batches(const char *backend, const char *wrapper)
{
    struct process *first = process, *second = new_process(1);
    struct process *both[2] = {first, second};

    for (uint64_t n = 0; n < 50; n++) {
        for (uint32_t r = 0; r < 2; r++) {
            int64_t t = (int64_t)n * 100 * MS, data = r == 1 ? 30 * MS : 5 * MS;

            process = both[r];
            phase(EVENT_PHASE_DATA, t, t + data);
            phase(EVENT_PHASE_FORWARD, t + data, t + 50 * MS);
            phase(EVENT_PHASE_BACKWARD, t + 50 * MS, t + 95 * MS);
            step(n, 0, t, t + 100 * MS);
        }
    }
    say(first, FACT_DISTRIBUTED_BACKEND, backend);
    say(first, FACT_DISTRIBUTED_WRAPPER, wrapper);
}

static void late_batches_are_waited_for_where_weights_are_gathered(void **state)
{
    (void)state;
    struct ranks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    train_with_late_batches("gloo", "FSDP");
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_int_equal(answer.slowest, 1);
    assert_string_equal(answer.slowest_cause, "data");
    assert_int_equal(answer.waits_in, EVENT_PHASE_FORWARD);
    assert_true(fabs(answer.slowest_price_ns - 25e6) < 1);
    assert_true(fabs(answer.rows[0].wait_ns - 25e6) < 1);
    assert_true(fabs(answer.rows[1].wait_ns) < 1);
    answer_free(&answer.head);
}

static void
ranks_that_wait_in_backward_alone_may_differ_in_the_other_phases(void **state)
{
    (void)state;
    struct ranks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    train_with_late_batches("gloo", "DDP");
    assert_int_equal(ranks_query(store, &whose, &answer), 0);
    assert_int_equal(answer.slowest, -1);
    assert_true(fabs(answer.rows[0].wait_ns) < 1);
    answer_free(&answer.head);
}

static void
a_place_that_the_kernel_names_speaks_for_looks_of_which_it_names_none(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct process_place *places = process->between_ops.places[EVENT_PHASE_FORWARD];
    struct bottlenecks_answer answer;

    step(0, 0, 0, 10 * MS);
    places[0] = (struct process_place){.name = "", .count = 30};
    places[1] = (struct process_place){.name = "futex_do_wait", .count = 2};
    places[2] = (struct process_place){.name = "hrtimer_nanosleep", .count = 5};
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_string_equal(answer.between_ops.place[EVENT_PHASE_FORWARD],
                        "hrtimer_nanosleep");
    assert_string_equal(answer.between_ops.place[EVENT_PHASE_OPTIMIZER], "");
    bottlenecks_free(&answer);
}

static void a_summary_counts_everything_over_the_same_steps(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 100}};
    struct bottlenecks_answer answer;

    for (int64_t n = 0; n < 300; n++) {
        int64_t t = n * 10 * MS;

        phase(EVENT_PHASE_DATA, t, t + 4 * MS);
        op(0, "aten::mm", t + 4 * MS, t + 9 * MS);
        step((uint64_t)n, FULL, t, t + 10 * MS);
    }
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 100);
    assert_int_equal(answer.cpu.head.steps, 100);
    assert_int_equal(answer.cpu.head.recorded_steps, 100);
    assert_true(fabs(answer.dataloader_share - 0.4) < 1e-9);
    assert_true(fabs(answer.cpu.rows[0].share - 0.5) < 1e-9);
    bottlenecks_free(&answer);
}

static void rules_see_the_same_rows_however_few_are_asked_for(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct bottlenecks_answer one, all;

    for (int64_t n = 0; n < 20; n++) {
        for (int64_t i = 0; i < 120; i++) {
            char name[16];

            (void)snprintf(name, sizeof(name), "aten::op%03d", (int)i);
            op(0, name, n * 100 * MS + i * MS / 2,
               n * 100 * MS + i * MS / 2 + 400000 - i);
        }
        step((uint64_t)n, FULL, n * 100 * MS, n * 100 * MS + 90 * MS);
    }
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){.k = 1}, &one),
        0);
    assert_int_equal(bottlenecks_query(store, &whose,
                                       &(struct bottlenecks_request){.k = 1000}, &all),
                     0);
    assert_int_equal(one.cpu.row_count, 1);
    assert_int_equal(one.cpu.other_ops, 119);
    assert_int_equal(all.cpu.row_count, 120);
    assert_int_equal(one.cpu.judged_count, OPS_JUDGED);
    assert_int_equal(all.cpu.judged_count, OPS_JUDGED);
    for (uint32_t i = 0; i < OPS_JUDGED; i++) {
        assert_string_equal(one.cpu.rows[i].name, all.cpu.rows[i].name);
        assert_true(one.cpu.rows[i].p50_ns == all.cpu.rows[i].p50_ns);
        assert_non_null(one.cpu.rows[i].caller);
    }
    bottlenecks_free(&one);
    bottlenecks_free(&all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void
of_jobs_with_a_step_one_that_runs_is_shown_before_a_newer_that_is_over(void **state)
{
    struct process_identity identity = {.pid = 500, .role = WIRE_ROLE_TRAINER};
    struct session *short_one = state_session(store, "short");
    struct process *other = state_process(store, short_one, &identity);
    struct event event = {.value = (uint64_t)MS,
                          .meta = EVENT_META(0, EVENT_STEP, 0, 0xf)};

    (void)state;
    assert_non_null(other);
    session->zero_realtime_ns = 1000;
    short_one->zero_realtime_ns = 2000;
    process->state = other->state = PROCESS_RUNNING;
    step(0, FULL, 0, MS);
    assert_ptr_equal(state_newest(store), session); /* the other made no step yet */
    process_fold(other, 0, &event, 1);
    assert_ptr_equal(state_newest(store), short_one);
    other->state = PROCESS_ENDED;
    assert_ptr_equal(state_newest(store), session);
    process->state = PROCESS_ENDED;
    assert_ptr_equal(state_newest(store), short_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_seconds_of_a_run_that_hung_hold_its_last_steps),
        TEST(a_wait_takes_the_time_of_no_call_of_another_thread),
        TEST(a_range_takes_no_self_time_from_ops_and_gives_none),
        TEST(a_profiler_step_is_never_a_row_and_an_optimizer_is_a_range),
        TEST(a_kernel_has_its_family_and_what_is_none_has_no_other),
        TEST(sampled_ops_are_scaled_and_ranges_are_not),
        TEST(a_slow_beginning_that_was_recorded_whole_stands_for_itself),
        TEST(a_slow_first_step_lengthens_no_wait_of_the_device),
        TEST(a_slow_first_step_behind_a_validation_lengthens_none_either),
        TEST(a_slow_first_step_that_was_recorded_is_one_of_the_devices),
        TEST(a_running_job_names_the_device_that_it_is_on),
        TEST(a_kernel_has_its_short_name_and_is_found_by_both),
        TEST(kernels_of_a_step_that_is_not_whole_are_in_no_sum),
        TEST(kernels_that_come_200_ms_late_are_those_of_their_own_step),
        TEST(steps_whose_kernels_have_not_come_yet_are_in_no_mean),
        TEST(steps_whose_kernels_were_lost_are_none_with_kernels),
        TEST(lost_work_is_of_every_step_until_its_end_and_of_none_behind),
        TEST(lost_work_that_is_told_late_spares_the_step_that_runs),
        TEST(a_longer_loss_that_is_told_later_takes_out_what_an_earlier_one_left),
        TEST(losses_without_number_look_at_each_step_a_bounded_number_of_times),
        TEST(work_that_outlives_the_open_steps_is_counted_as_late),
        TEST(work_that_later_work_has_overtaken_is_that_of_its_own_step),
        TEST(work_that_comes_long_after_it_was_told_lost_is_in_no_table),
        TEST(steps_of_which_nothing_was_told_until_a_clean_end_are_in_no_mean),
        TEST(steps_of_which_nothing_was_told_before_a_crash_are_in_no_mean),
        TEST(steps_of_which_all_was_told_at_the_end_stay_recorded),
        TEST(steps_that_find_no_room_to_wait_are_none_with_kernels),
        TEST(steps_whose_work_waits_behind_too_much_are_none_with_kernels),
        TEST(steps_that_were_settled_before_they_were_told_are_none_of_the_device),
        TEST(calls_that_are_told_late_are_those_of_their_own_step),
        TEST(calls_of_a_job_without_torch_are_means_of_the_steps_with_their_work),
        TEST(work_that_its_ring_lost_is_of_the_steps_since_all_was_known),
        TEST(work_that_its_ring_lost_is_of_all_steps_until_the_source_tells_again),
        TEST(where_all_steps_have_lost_work_the_answers_say_so),
        TEST(work_that_is_held_back_for_long_costs_no_more_at_each_step),
        TEST(a_device_does_in_a_mean_step_what_it_did_and_waits_no_longer_than_that),
        TEST(what_ran_where_nothing_was_recorded_is_of_no_step_beside_it),
        TEST(a_window_of_steps_of_which_some_have_kernels_is_summed_exactly),
        TEST(device_steps_stand_for_those_around_them_in_the_mean),
        TEST(a_job_without_cpu_ops_counts_its_steps_with_kernels_as_recorded),
        TEST(a_device_behind_its_launches_says_why_no_step_of_it_is_known),
        TEST(validation_takes_no_energy_of_a_training_step),
        TEST(what_forgotten_steps_took_is_no_energy_of_those_remembered),
        TEST(tagged_steps_stand_for_themselves_alone),
        TEST(a_long_first_step_stands_for_itself_alone),
        TEST(what_was_recorded_on_demand_alone_says_no_error_of_the_rest),
        TEST(late_events_join_the_step_in_which_they_began),
        TEST(ops_outside_of_steps_and_in_validation_are_no_part_of_a_step),
        TEST(a_process_without_steps_shows_its_ops_by_its_span),
        TEST(a_step_with_losses_is_not_counted_as_recorded),
        TEST(ten_thousand_names_are_top_k_and_other),
        TEST(phases_are_unions_and_what_is_outside_is_told),
        TEST(a_wait_for_a_batch_belongs_to_the_step_that_fetched_it),
        TEST(a_spike_survives_decimation_and_its_cause_is_named),
        TEST(a_run_longer_than_the_table_keeps_its_sums),
        TEST(the_stream_gives_each_step_once_and_tells_of_gaps),
        TEST(memory_has_peaks_with_their_op_and_a_leak_has_a_slope),
        TEST(what_an_allocator_asks_of_the_driver_is_summed_over_the_window),
        TEST(what_an_allocator_has_split_is_of_the_device_that_it_was_asked_about),
        TEST(a_sample_of_a_failure_is_no_step_and_tells_of_no_retries),
        TEST(the_ops_with_the_largest_blocks_are_remembered),
        TEST(the_op_whose_blocks_stay_is_told_and_what_is_passing_is_not),
        TEST(all_ops_that_take_blocks_of_the_size_that_stays_are_told),
        TEST(of_a_size_that_many_ops_take_nobody_is_told_to_keep_it),
        TEST(what_every_other_step_keeps_and_the_next_gives_back_is_no_ones),
        TEST(of_a_step_with_too_many_sizes_nothing_is_told_of_who_keeps),
        TEST(memory_whose_stamps_run_back_is_told_at_the_newest_instant),
        TEST(totals_below_zero_are_points_as_others_are),
        TEST(what_is_held_at_the_end_depends_on_no_number_of_points),
        TEST(steady_memory_has_no_sure_slope),
        TEST(the_peaks_of_single_steps_are_told_from_the_usual_one),
        TEST(the_time_until_a_device_is_full_has_an_interval),
        TEST(stamps_that_run_back_end_no_query),
        TEST(lengths_that_cannot_be_add_up_to_their_limit),
        TEST(the_rank_that_others_wait_for_is_found_with_its_cause),
        TEST(what_one_rank_does_in_no_phase_is_a_cause_and_priced_per_step),
        TEST(ranks_are_compared_from_where_the_window_begins),
        TEST(ranks_that_exchange_nothing_do_not_wait_for_the_slower_one),
        TEST(late_batches_are_waited_for_where_weights_are_gathered),
        TEST(a_place_that_the_kernel_names_speaks_for_looks_of_which_it_names_none),
        TEST(ranks_that_wait_in_backward_alone_may_differ_in_the_other_phases),
        TEST(a_summary_counts_everything_over_the_same_steps),
        TEST(rules_see_the_same_rows_however_few_are_asked_for),
        TEST(of_jobs_with_a_step_one_that_runs_is_shown_before_a_newer_that_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
