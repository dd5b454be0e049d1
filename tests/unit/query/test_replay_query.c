/* Steps folded by hand, replayed through the query. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "query/replay_query.h"
#include "query/trace_query.h"
#include "query/what_if.h"
#include "unit/kernel_step.h"

#define MS INT64_C(1000000)

static struct store *store;
static struct session *session;
static struct process *process;

static int begin_with(uint64_t history_bytes)
{
    struct process_identity identity = {
        .pid = 100, .rank = 0, .world_size = 1, .role = WIRE_ROLE_TRAINER};

    store = store_new(&(struct store_limits){.history_bytes = history_bytes});
    session = state_session(store, "hand");
    process = state_process(store, session, &identity);
    if (process == NULL)
        return -1;
    gpu_begin(&process->gpu, 0);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(0);
}

static int begin_small(void **state)
{
    (void)state;
    return begin_with(64 * 1024);
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static void step_with_a_kernel(uint64_t number, int64_t *at, int64_t data)
{
    kernel_step(process, number, at, data);
}

/* All that was done until the end of the newest step is known. */
static struct replay_answer ask(struct window window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct replay_answer answer;

    gpu_finish(&process->gpu, process->steps.last_end_ns);
    assert_int_equal(replay_query(store, &whose, &answer), 0);
    return answer;
}

static const struct window run = {.kind = WINDOW_RUN};

static void the_median_step_is_shown_with_a_path_that_fills_it(void **state)
{
    int64_t at = 0, sum = 0;

    (void)state;
    for (uint64_t i = 0; i < 5; i++)
        step_with_a_kernel(i, &at, (int64_t)(i + 1) * MS);
    struct replay_answer answer = ask(run);

    assert_int_equal(answer.table.steps, 5);
    assert_int_equal(answer.number, 2);
    assert_true(answer.duration_ns == 11e6);
    assert_true(answer.kind_ns[REPLAY_DATA] == 3e6);
    assert_true(answer.kind_ns[REPLAY_COMPUTE] == 6e6);
    assert_true(answer.parts[0].start_ns == answer.start_ns);
    for (uint32_t i = 0; i < answer.part_count; i++)
        sum += answer.parts[i].end_ns - answer.parts[i].start_ns;
    assert_true((double)sum == answer.duration_ns);
    assert_string_equal(answer.shares[0].name, "gemm");
    assert_int_equal(answer.shares[0].kind, REPLAY_COMPUTE);
    assert_string_equal(answer.head.reason, "");
    answer_free(&answer.head);
}

static void what_a_step_would_take_is_the_mean_of_all_that_were_replayed(void **state)
{
    int64_t at = 0;

    (void)state;
    /* One in four waits: the median knows nothing of it. */
    for (uint64_t i = 0; i < 64; i++)
        step_with_a_kernel(i, &at, i % 4 == 3 ? 40 * MS : 0);
    struct replay_answer answer = ask(run);
    const struct replay_what_if_row *row = &answer.table.what_ifs[REPLAY_DATA_HIDDEN];

    assert_int_equal(answer.table.steps, REPLAY_STEPS_MAX);
    assert_true(fabs(answer.table.step_ns - 18e6) < 1);
    assert_true(row->known && fabs(row->mean_ns - 8e6) < 1);
    assert_true(row->low_ns <= row->mean_ns && row->mean_ns <= row->high_ns);
    assert_true(row->high_ns < answer.table.step_ns);
    answer_free(&answer.head);
}

static void a_step_in_a_hundred_that_waits_long_is_replayed_too(void **state)
{
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        step_with_a_kernel(i, &at, i % 100 == 50 ? 800 * MS : 0);
    struct replay_answer answer = ask(run);
    const struct replay_what_if_row *row = &answer.table.what_ifs[REPLAY_DATA_HIDDEN];

    assert_true(fabs(answer.table.step_ns - 16e6) < 1);
    /* Without the wait each takes 8 ms; the ten that stand beside both are counted as they. */
    assert_true(row->known && row->mean_ns > 7e6 && row->mean_ns < 9e6);
    answer_free(&answer.head);
}

static void a_question_is_answered_where_it_is_worth_a_sentence(void **state)
{
    struct bottlenecks_answer summary = {0};
    struct what_if told;
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        step_with_a_kernel(i, &at, 4 * MS);
    struct replay_answer answer = ask(run);

    summary.replay = answer.table;
    assert_true(what_if_replayed(&summary, REPLAY_DATA_HIDDEN, &told));
    assert_true(fabs(told.low_ns - 8e6) < 1 && fabs(told.high_ns - 8e6) < 1);
    assert_false(what_if_replayed(&summary, REPLAY_COPIES_HIDDEN, &told));
    summary.replay.what_ifs[REPLAY_DATA_HIDDEN].mean_ns = 0.995 * answer.table.step_ns;
    assert_false(what_if_replayed(&summary, REPLAY_DATA_HIDDEN, &told));
    memset(&summary.replay, 0, sizeof(summary.replay));
    assert_false(what_if_replayed(&summary, REPLAY_DATA_HIDDEN, &told));
    answer_free(&answer.head);
}

static void what_is_gained_by_less_work_of_a_device_grows_with_it(void **state)
{
    int64_t at = 0;
    double before = 0;

    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        step_with_a_kernel(i, &at, 4 * MS);
    struct replay_answer answer = ask(run);
    const struct replay_table *table = &answer.table;

    /* The host waits from 1 ms behind the launch to the end of the kernel, which takes 6. */
    assert_true(fabs(table->compute_ns - 6e6) < 1);
    assert_true(fabs(replay_gain(table, 1e6) - 1e6) < 1);
    assert_true(fabs(replay_gain(table, 3e6) - 3e6) < 1);
    assert_true(fabs(replay_gain(table, 6e6) - 5.004e6) < 1);
    assert_true(fabs(replay_gain(table, 60e6) - 5.004e6) < 1);
    for (double ns = 0; ns <= 7e6; ns += 1e5) {
        double gain = replay_gain(table, ns);

        assert_true(gain >= before && gain <= ns);
        before = gain;
    }
    answer_free(&answer.head);
}

/* A launch whose work does not come. */
static void launch_nothing(uint64_t number, int64_t at_ns)
{
    kernel_step_put(process, KERNEL_STEP_THREAD,
                    kernel_step_named(process, "cudaLaunchKernel", EVENT_LAUNCH, 1),
                    (const int64_t[2]){at_ns, at_ns + 5000}, number);
}

/* A kernel that is launched at `at_ns`, and runs so much later. */
static void launch_late(uint64_t number, int64_t at_ns, int64_t later_ns,
                        int64_t length_ns)
{
    struct event kernel[2] = {
        {.time = (uint64_t)(at_ns + later_ns),
         .value = (uint64_t)length_ns,
         .meta = kernel_step_named(process, "gemm", EVENT_KERNEL, KERNEL_STEP_CUDA0),
         .aux = number},
        {.time = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    launch_nothing(number, at_ns);
    process_fold(process, KERNEL_STEP_THREAD, kernel, 2);
}

static void launch(uint64_t number, int64_t at_ns, int64_t length_ns)
{
    launch_late(number, at_ns, 2 * MS, length_ns);
}

static void phase(enum event_phase which, int64_t from_ns, int64_t to_ns)
{
    kernel_step_put(process, 0, EVENT_META(0, EVENT_PHASE, 0, which),
                    (const int64_t[2]){from_ns, to_ns}, 0);
}

/* What a device does while the host is in the optimizer was launched before. */
static void work_of_a_device_is_of_the_phase_in_which_it_was_launched(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        int64_t at = (int64_t)i * 20 * MS;

        launch(3 * i + 1, at + MS, 3 * MS);
        launch(3 * i + 2, at + 4 * MS, 6 * MS);
        launch(3 * i + 3, at + 10 * MS, 4 * MS);
        phase(EVENT_PHASE_FORWARD, at, at + 3 * MS);
        phase(EVENT_PHASE_BACKWARD, at + 3 * MS, at + 6 * MS);
        phase(EVENT_PHASE_OPTIMIZER, at + 6 * MS, at + 9 * MS);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 20 * MS}, i | (uint64_t)1 << 48);
    }
    struct replay_answer answer = ask(run);
    const double *launched = answer.table.launched_ns;

    assert_true(answer.table.steps >= 3);
    assert_true(launched[EVENT_PHASE_DATA] == 0);
    assert_true(fabs(launched[EVENT_PHASE_FORWARD] - 3e6) < 1);
    assert_true(fabs(launched[EVENT_PHASE_BACKWARD] - 6e6) < 1);
    assert_true(launched[EVENT_PHASE_OPTIMIZER] == 0);
    assert_true(fabs(launched[EVENT_PHASES] - 4e6) < 1);
    answer_free(&answer.head);
}

/* What is launched in backward runs in the next step: nothing of it is left out. */
static void work_of_a_device_that_is_behind_is_of_its_own_step(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        int64_t at = (int64_t)i * 20 * MS;

        launch_late(2 * i + 1, at + MS, 10 * MS, 6 * MS);
        launch_late(2 * i + 2, at + 4 * MS, 15 * MS, 9 * MS);
        phase(EVENT_PHASE_FORWARD, at, at + 3 * MS);
        phase(EVENT_PHASE_BACKWARD, at + 3 * MS, at + 6 * MS);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 20 * MS}, i | (uint64_t)1 << 48);
    }
    struct replay_answer answer = ask(run);
    const double *launched = answer.table.launched_ns;

    assert_true(answer.table.steps >= 3);
    assert_true(fabs(launched[EVENT_PHASE_FORWARD] - 6e6) < 1);
    assert_true(fabs(launched[EVENT_PHASE_BACKWARD] - 9e6) < 1);
    assert_true(launched[EVENT_PHASES] == 0);
    answer_free(&answer.head);
}

/* Of a launch whose work did not come nobody knows what it has launched. */
static void launches_without_their_work_tell_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        int64_t at = (int64_t)i * 20 * MS;

        launch(2 * i + 1, at + MS, 3 * MS);
        launch_nothing(2 * i + 2, at + 2 * MS);
        phase(EVENT_PHASE_FORWARD, at, at + 3 * MS);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 20 * MS}, i | (uint64_t)1 << 48);
    }
    struct replay_answer answer = ask(run);

    assert_true(answer.table.steps >= 3);
    assert_true(isnan(answer.table.launched_ns[EVENT_PHASE_FORWARD]));
    answer_free(&answer.head);
}

/* The newest is what is missing: all of one phase, and little of the step. */
static void a_phase_whose_work_did_not_come_is_not_told_as_none(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        int64_t at = (int64_t)i * 200 * MS;

        for (uint64_t j = 0; j < 60; j++)
            launch(100 * i + j + 1, at + (int64_t)j * MS, MS / 2);
        launch_nothing(100 * i + 99, at + 70 * MS);
        phase(EVENT_PHASE_FORWARD, at, at + 65 * MS);
        phase(EVENT_PHASE_OPTIMIZER, at + 65 * MS, at + 75 * MS);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 200 * MS}, i | (uint64_t)1 << 48);
    }
    struct replay_answer answer = ask(run);

    assert_true(answer.table.steps >= 3);
    assert_true(isnan(answer.table.launched_ns[EVENT_PHASE_OPTIMIZER]));
    answer_free(&answer.head);
}

static void where_phases_are_not_told_nothing_was_launched_in_them(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        int64_t at = (int64_t)i * 20 * MS;

        launch(i + 1, at + MS, 3 * MS);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0),
                        (const int64_t[2]){at, at + 20 * MS}, i | (uint64_t)1 << 48);
    }
    struct replay_answer answer = ask(run);

    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        assert_true(isnan(answer.table.launched_ns[i]));
    answer_free(&answer.head);
}

/* Steps 0 to 3 are recorded, step 4 is not; where that ends. */
static int64_t until_an_unrecorded_step(void)
{
    int64_t at = 0;

    for (uint64_t i = 0; i < 4; i++)
        step_with_a_kernel(i, &at, MS);
    kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, 0, 0xf),
                    (const int64_t[2]){at, at + 9 * MS}, 4 | (uint64_t)1 << 48);
    return at + 9 * MS;
}

/* The device was busy with what was launched while nothing was recorded. */
static void a_step_that_begins_unknown_is_not_replayed(void **state)
{
    int64_t at = until_an_unrecorded_step();

    (void)state;
    launch(100, at + MS, 2 * MS);
    at += 9 * MS;
    kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                    (const int64_t[2]){at - 9 * MS, at}, 5 | (uint64_t)1 << 48);
    for (uint64_t i = 6; i < 8; i++)
        step_with_a_kernel(i, &at, MS);
    struct replay_answer answer =
        ask((struct window){.kind = WINDOW_STEPS, .a = 5, .b = 5});

    assert_int_equal(answer.table.steps, 0);
    answer_free(&answer.head);
    answer = ask((struct window){.kind = WINDOW_STEPS, .a = 5, .b = 6});
    assert_int_equal(answer.table.steps, 1);
    assert_int_equal(answer.number, 6);
    answer_free(&answer.head);
}

/* All of it: the device was more than a step behind. */
static void a_step_that_is_all_backlog_is_not_replayed(void **state)
{
    int64_t at = until_an_unrecorded_step();

    (void)state;
    launch_late(100, at + MS, 20 * MS, 2 * MS);
    for (uint64_t i = 5; i < 9; i++, at += 9 * MS)
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 9 * MS}, i | (uint64_t)1 << 48);
    step_with_a_kernel(9, &at, MS);
    struct replay_answer answer =
        ask((struct window){.kind = WINDOW_STEPS, .a = 5, .b = 6});

    assert_int_equal(answer.table.steps, 0);
    answer_free(&answer.head);
    answer = ask((struct window){.kind = WINDOW_STEPS, .a = 5, .b = 9});
    assert_int_equal(answer.table.steps, 1);
    answer_free(&answer.head);
}

/* What was replayed while the run goes on, of which all that came is settled. */
static uint32_t replayed_live(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct replay_answer answer;

    gpu_settle(&process->gpu, process->steps.last_end_ns);
    assert_int_equal(replay_query(store, &whose, &answer), 0);
    answer_free(&answer.head);
    return answer.table.steps;
}

/* A stray tensor came to another device, or a checkpoint; nobody says that it rests. */
static void
a_device_that_worked_once_keeps_no_later_step_from_being_replayed(void **state)
{
    struct event kernel[2] = {
        {.time = (uint64_t)MS,
         .value = (uint64_t)MS,
         .meta = kernel_step_named(process, "fill", EVENT_KERNEL, EVENT_DEVICE(1, 1)),
         .aux = 9999},
        {.time = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};
    int64_t at = 0;
    uint64_t number = 0;

    (void)state;
    process_fold(process, KERNEL_STEP_THREAD, kernel, 2);
    while (at < GPU_SILENT_NS / 2)
        step_with_a_kernel(number++, &at, 100 * MS);
    assert_int_equal(replayed_live(), 0);
    while (at < GPU_SILENT_NS + 200 * MS)
        step_with_a_kernel(number++, &at, 100 * MS);
    assert_int_equal(replayed_live(), REPLAY_STEPS_MAX);
}

/* The only device may run what lasts so long. */
static void a_device_alone_is_never_taken_to_rest(void **state)
{
    int64_t at = 0;

    (void)state;
    step_with_a_kernel(0, &at, MS);
    for (uint64_t i = 1; at < 2 * GPU_SILENT_NS; i++, at += 100 * MS) {
        kernel_step_put(process, 0,
                        kernel_step_named(process, "aten::mm", EVENT_CPU_OP, 0),
                        (const int64_t[2]){at, at + 90 * MS}, 0);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){at, at + 100 * MS}, i | (uint64_t)1 << 48);
    }
    assert_int_equal(replayed_live(), 0);
}

/* Steps of other lengths, each of which gains all that its device computes less. */
static void lengths_of_steps_do_not_make_what_they_gain_uncertain(void **state)
{
    (void)state;
    for (uint64_t i = 0, at = 0; i < 40; i++) {
        int64_t length = (int64_t)(2 + i % 9) * MS;

        launch(i + 1, (int64_t)at + MS, length);
        kernel_step_put(
            process, KERNEL_STEP_THREAD,
            kernel_step_named(process, "cudaDeviceSynchronize", EVENT_SYNC, 1),
            (const int64_t[2]){(int64_t)at + 2 * MS,
                               (int64_t)at + 3 * MS + length + 8000},
            0);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){(int64_t)at, (int64_t)at + 4 * MS + length},
                        i | (uint64_t)1 << 48);
        at += (uint64_t)(4 * MS + length);
    }
    struct replay_answer answer = ask(run);

    assert_int_equal(answer.table.steps, REPLAY_STEPS_MAX);
    assert_true(answer.table.gained_ns[REPLAY_CUTS - 1] > MS);
    assert_true(answer.table.gain_error >= 0 && answer.table.gain_error < 0.1);
    answer_free(&answer.head);
}

static void without_a_device_nothing_is_known_of_less_work(void **state)
{
    static const struct replay_table none;

    (void)state;
    assert_true(isnan(replay_gain(&none, 1e6)));
}

static void two_steps_have_a_path_and_no_interval(void **state)
{
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 2; i++)
        step_with_a_kernel(i, &at, 4 * MS);
    struct replay_answer answer = ask(run);

    assert_int_equal(answer.table.steps, 2);
    assert_true(answer.part_count > 0);
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++)
        assert_false(answer.table.what_ifs[i].known);
    answer_free(&answer.head);
}

static void steps_that_were_not_recorded_in_full_are_not_replayed(void **state)
{
    (void)state;
    kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, 0, 0),
                    (const int64_t[2]){0, 5 * MS}, (uint64_t)1 << 48);
    struct replay_answer answer = ask(run);

    assert_int_equal(answer.table.steps, 0);
    assert_true(answer.number == NOT_KNOWN);
    assert_string_equal(answer.head.reason,
                        "no step of this window was recorded in full");
    answer_free(&answer.head);
}

static void a_step_of_which_events_were_lost_is_not_replayed(void **state)
{
    int64_t at = 0;

    (void)state;
    process_lose(process, 0, 3);
    step_with_a_kernel(0, &at, MS);
    struct replay_answer answer = ask(run);

    assert_int_equal(answer.table.steps, 0);
    assert_true(strlen(answer.head.reason) > 0);
    answer_free(&answer.head);
}

static void a_step_that_is_partly_forgotten_is_not_replayed(void **state)
{
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        step_with_a_kernel(i, &at, MS);
    struct replay_answer answer =
        ask((struct window){.kind = WINDOW_STEPS, .a = 0, .b = 9});

    assert_int_equal(answer.table.steps, 0);
    assert_true(strlen(answer.head.reason) > 0);
    answer_free(&answer.head);
    answer = ask(run);
    assert_true(answer.table.steps > 0);
    assert_true(answer.duration_ns == 9e6);
    answer_free(&answer.head);
}

static void the_marks_of_a_trace_are_the_events_of_its_paths(void **state)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct trace_request request = {.all_ranks = false};
    struct trace_answer trace;
    struct replay_marks marks;
    uint32_t kernels = 0, ops = 0;
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 6; i++)
        step_with_a_kernel(i, &at, MS);
    gpu_finish(&process->gpu, at);
    assert_int_equal(trace_query(store, &whose, &request, &trace), 0);
    assert_int_equal(replay_marks(&trace, &marks), 0);
    assert_int_equal(marks.steps, 6);
    for (uint32_t i = 0; i < trace.processes[0].block_count; i++) {
        const struct trace_block *block = &trace.processes[0].blocks[i];

        for (uint32_t j = 0; j < block->count; j++) {
            uint8_t kind = EVENT_KIND(block->events[j].meta);
            bool marked = replay_is_marked(&marks, &block->events[j]);

            kernels += marked && kind == EVENT_KERNEL;
            ops += marked && kind == EVENT_CPU_OP;
            assert_false(marked && (kind == EVENT_STEP || kind == EVENT_PHASE));
        }
    }
    assert_int_equal(kernels, 6);
    assert_int_equal(ops, 6);
    replay_marks_free(&marks);
    trace_release(&trace);
}

static void an_unknown_session_is_said(void **state)
{
    struct selection whose = {.rank = SELECT_ANY, .session = "nobody"};
    struct replay_answer answer;

    (void)state;
    assert_int_equal(replay_query(store, &whose, &answer), -ENOENT);
    assert_true(strlen(answer.head.reason) > 0);
    answer_free(&answer.head);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* One of five waits for a second: of so few steps nothing is known well. */
static void no_step_is_longer_without_what_it_did(void **state)
{
    int64_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 5; i++)
        step_with_a_kernel(i, &at, i == 3 ? 1000 * MS : 1 * MS);
    struct replay_answer answer = ask(run);
    const struct replay_what_if_row *row = &answer.table.what_ifs[REPLAY_LAUNCH_FREE];

    /* The wait is there without launches too. */
    assert_true(row->known && row->mean_ns > 190e6 && row->low_ns == 0);
    assert_true(fabs(row->high_ns - answer.table.step_ns) < 1);
    answer_free(&answer.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_median_step_is_shown_with_a_path_that_fills_it),
        TEST(what_a_step_would_take_is_the_mean_of_all_that_were_replayed),
        TEST(a_step_in_a_hundred_that_waits_long_is_replayed_too),
        TEST(no_step_is_longer_without_what_it_did),
        TEST(a_question_is_answered_where_it_is_worth_a_sentence),
        TEST(what_is_gained_by_less_work_of_a_device_grows_with_it),
        TEST(work_of_a_device_is_of_the_phase_in_which_it_was_launched),
        TEST(work_of_a_device_that_is_behind_is_of_its_own_step),
        TEST(launches_without_their_work_tell_nothing),
        TEST(a_phase_whose_work_did_not_come_is_not_told_as_none),
        TEST(where_phases_are_not_told_nothing_was_launched_in_them),
        TEST(a_step_that_begins_unknown_is_not_replayed),
        TEST(a_step_that_is_all_backlog_is_not_replayed),
        TEST(a_device_that_worked_once_keeps_no_later_step_from_being_replayed),
        TEST(a_device_alone_is_never_taken_to_rest),
        TEST(lengths_of_steps_do_not_make_what_they_gain_uncertain),
        TEST(without_a_device_nothing_is_known_of_less_work),
        TEST(two_steps_have_a_path_and_no_interval),
        TEST(steps_that_were_not_recorded_in_full_are_not_replayed),
        TEST(a_step_of_which_events_were_lost_is_not_replayed),
        cmocka_unit_test_setup_teardown(a_step_that_is_partly_forgotten_is_not_replayed,
                                        begin_small, end),
        TEST(the_marks_of_a_trace_are_the_events_of_its_paths),
        TEST(an_unknown_session_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
