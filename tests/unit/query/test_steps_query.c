/* What steps took, of events folded by hand: their phases, their slowest, and the
 * stream of them. */
#include <math.h>

#include "aggregate/sum.h"
#include "query/bottlenecks_query.h"
#include "query/steps_query.h"
#include "unit/tables.h"

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
        TEST(a_long_first_step_stands_for_itself_alone),
        TEST(phases_are_unions_and_what_is_outside_is_told),
        TEST(a_wait_for_a_batch_belongs_to_the_step_that_fetched_it),
        TEST(a_spike_survives_decimation_and_its_cause_is_named),
        TEST(a_run_longer_than_the_table_keeps_its_sums),
        TEST(the_stream_gives_each_step_once_and_tells_of_gaps),
        TEST(lengths_that_cannot_be_add_up_to_their_limit),
        TEST(of_jobs_with_a_step_one_that_runs_is_shown_before_a_newer_that_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
