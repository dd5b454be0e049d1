/* Device time by CPU op, of events folded by hand and asked through the query. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "query/ops_query.h"

#define MS  INT64_C(1000000)
#define US  INT64_C(1000)
#define GPU 1u /* the ring that tells calls and work */
#define ALL (EVENT_STEP_OPS | EVENT_STEP_KERNELS)

static struct store *store;
static struct process *process;
static uint64_t correlation;

static int begin(void **state)
{
    struct process_identity identity = {.pid = 100, .role = WIRE_ROLE_TRAINER};

    (void)state;
    store = store_new(NULL);
    process = state_process(store, state_session(store, "hand"), &identity);
    correlation = 0;
    return process == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static void fold(uint32_t thread, const char *name, uint64_t meta,
                 const int64_t span[2], uint64_t aux)
{
    struct event event = {(uint64_t)span[0], (uint64_t)(span[1] - span[0]),
                          meta | texts_intern(process->texts, name, strlen(name)), aux};

    process_fold(process, thread, &event, 1);
}

#define SPAN(start, end)                                                               \
    (const int64_t[])                                                                  \
    {                                                                                  \
        (start), (end)                                                                 \
    }

static void op(const char *name, const int64_t span[2])
{
    fold(0, name, EVENT_META(0, EVENT_CPU_OP, 0, 0), span, 0);
}

/* A call of the training thread's and its kernel of 2 ms, which begins 1 ms later. */
static void launch(int64_t at_ns, bool call_is_told)
{
    correlation++;
    if (call_is_told)
        fold(GPU, "cudaLaunchKernel", EVENT_META(0, EVENT_LAUNCH, 0, 1),
             SPAN(at_ns, at_ns + 10 * US), correlation);
    fold(GPU, "gemm", EVENT_META(0, EVENT_KERNEL, 0, EVENT_DEVICE(1, 0)),
         SPAN(at_ns + MS, at_ns + 3 * MS), correlation);
}

static void tell(int64_t until_ns)
{
    fold(GPU, "", EVENT_META(0, EVENT_KNOWN, 0, 0), SPAN(until_ns, until_ns),
         WIRE_SOURCE_CUPTI);
}

/* A step of 10 ms with an op in an op, which launches; the source tells when it has ended. */
static void step(int64_t number, uint8_t flags, bool call_is_told)
{
    int64_t t = number * 10 * MS;

    if (flags & EVENT_STEP_OPS) {
        op("aten::mm", SPAN(t + MS, t + MS + 50 * US));
        op("aten::linear", SPAN(t + MS - 20 * US, t + MS + 100 * US));
    }
    fold(0, "", EVENT_META(0, EVENT_STEP, flags, 0), SPAN(t, t + 10 * MS),
         (uint64_t)number);
    if (flags & EVENT_STEP_KERNELS)
        launch(t + MS, call_is_told);
    tell(t + 10 * MS);
}

static struct op_row row(const char *name, struct window window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct op_row found = {.device_total_ns = -1};
    struct ops_answer answer;

    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    for (uint32_t i = 0; i < answer.row_count; i++)
        if (strcmp(answer.rows[i].name, name) == 0)
            found = answer.rows[i];
    answer_free(&answer.head);
    return found;
}

static struct window steps(int64_t first, int64_t last)
{
    return (struct window){.kind = WINDOW_STEPS, .a = first, .b = last};
}

static bool is_unknown(double value)
{
    return isnan(value);
}

static void is_ns(double value, int64_t expected)
{
    assert_false(is_unknown(value));
    assert_int_equal(llround(value), expected);
}

static void an_op_has_the_device_time_that_it_and_its_ops_launched(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        step(n, ALL, true);
    is_ns(row("aten::linear", steps(10, 29)).device_total_ns, 20 * 2 * MS);
    is_ns(row("aten::linear", steps(10, 29)).device_self_ns, 0);
    is_ns(row("aten::mm", steps(10, 29)).device_total_ns, 20 * 2 * MS);
    is_ns(row("aten::mm", steps(10, 29)).device_self_ns, 20 * 2 * MS);
    assert_true(is_unknown(row("cudaLaunchKernel", steps(10, 29)).device_total_ns));
}

static void a_step_of_which_a_launch_was_lost_is_not_counted_as_less(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        step(n, ALL, n % 4 != 0);
    /* Fifteen of twenty stand for all. */
    is_ns(row("aten::mm", steps(10, 29)).device_total_ns, 20 * 2 * MS);
    assert_true(is_unknown(row("aten::mm", steps(12, 12)).device_total_ns));
}

static void steps_that_were_not_recorded_are_stood_for_by_those_that_were(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 80; n++) /* of some only work is known, of some only ops */
        step(n,
             n % 4 == 0   ? ALL
             : n % 4 == 1 ? EVENT_STEP_OPS
             : n % 4 == 2 ? EVENT_STEP_KERNELS
                          : 0,
             true);
    is_ns(row("aten::mm", steps(20, 59)).device_total_ns, 40 * 2 * MS);
}

static void of_an_op_that_outlasts_the_wait_for_it_nothing_is_said(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        step(n, ALL, true);
    fold(0, "epoch", EVENT_META(0, EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0),
         SPAN(100 * MS, 400 * MS), 0);
    assert_true(is_unknown(row("epoch", steps(10, 39)).device_total_ns));
    is_ns(row("aten::mm", steps(10, 29)).device_total_ns, 20 * 2 * MS);
}

/* Of a thread that has ended, or for which there was no room: its ops are not known. */
static void work_whose_caller_is_not_known_makes_its_step_unknown(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++) {
        int64_t t = n * 10 * MS;

        op("aten::mm", SPAN(t + MS, t + MS + 50 * US));
        fold(0, "", EVENT_META(0, EVENT_STEP, ALL, 0), SPAN(t, t + 10 * MS),
             (uint64_t)n);
        fold(GPU, "cudaLaunchKernel", EVENT_META(0, EVENT_LAUNCH, 0, 0),
             SPAN(t + MS, t + MS + 10 * US), ++correlation);
        fold(GPU, "gemm", EVENT_META(0, EVENT_KERNEL, 0, EVENT_DEVICE(1, 0)),
             SPAN(t + 2 * MS, t + 3 * MS), correlation);
        tell(t + 10 * MS);
    }
    assert_true(is_unknown(row("aten::mm", steps(10, 29)).device_total_ns));
}

/* A reader that comes late finds many tellings in one batch. */
static void work_between_two_tellings_of_one_batch_is_that_of_its_step(void **state)
{
    (void)state;
    uint64_t gemm = EVENT_META(texts_intern(process->texts, "gemm", 4), EVENT_KERNEL, 0,
                               EVENT_DEVICE(1, 0));

    for (int64_t n = 0; n < 3; n++)
        step(n, ALL, true);
    for (int64_t n = 3; n < 40; n++) {
        int64_t t = n * 10 * MS;

        op("aten::mm", SPAN(t + MS, t + MS + 50 * US));
        fold(0, "", EVENT_META(0, EVENT_STEP, ALL, 0), SPAN(t, t + 10 * MS),
             (uint64_t)n);
    }
    for (int64_t n = 3; n < 39; n += 2) {
        struct event events[6];

        for (int64_t i = 0; i < 2; i++) {
            int64_t t = (n + i) * 10 * MS;

            correlation++;
            events[3 * i] =
                (struct event){(uint64_t)(t + MS), 10 * US,
                               EVENT_META(0, EVENT_LAUNCH, 0, 1), correlation};
            events[3 * i + 1] =
                (struct event){(uint64_t)(t + 2 * MS), 2 * MS, gemm, correlation};
            events[3 * i + 2] =
                (struct event){(uint64_t)(t + 10 * MS), 0,
                               EVENT_META(0, EVENT_KNOWN, 0, 0), WIRE_SOURCE_CUPTI};
        }
        process_fold(process, GPU, events, 6);
    }
    for (int64_t n = 10; n < 30; n++)
        is_ns(row("aten::mm", steps(n, n)).device_total_ns, 2 * MS);
}

static void a_source_that_tells_nothing_gives_no_op_device_time(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++) {
        op("aten::mm", SPAN(n * 10 * MS, n * 10 * MS + MS));
        fold(0, "", EVENT_META(0, EVENT_STEP, ALL, 0),
             SPAN(n * 10 * MS, (n + 1) * 10 * MS), (uint64_t)n);
        launch(n * 10 * MS, true);
    }
    assert_true(is_unknown(row("aten::mm", steps(10, 29)).device_total_ns));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_op_has_the_device_time_that_it_and_its_ops_launched),
        TEST(a_step_of_which_a_launch_was_lost_is_not_counted_as_less),
        TEST(steps_that_were_not_recorded_are_stood_for_by_those_that_were),
        TEST(of_an_op_that_outlasts_the_wait_for_it_nothing_is_said),
        TEST(work_whose_caller_is_not_known_makes_its_step_unknown),
        TEST(work_between_two_tellings_of_one_batch_is_that_of_its_step),
        TEST(a_source_that_tells_nothing_gives_no_op_device_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
