/* Which of two ranks the other waits for, with its cause and its price, of steps folded
 * by hand. */
#include <math.h>

#include "query/ranks_query.h"
#include "unit/tables.h"
#include "wire/facts.h"

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

/* Rank 1 loads for 30 ms and rank 0 for 5; rank 0 is in forward for that much
 * longer. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_rank_that_others_wait_for_is_found_with_its_cause),
        TEST(what_one_rank_does_in_no_phase_is_a_cause_and_priced_per_step),
        TEST(ranks_are_compared_from_where_the_window_begins),
        TEST(ranks_that_exchange_nothing_do_not_wait_for_the_slower_one),
        TEST(late_batches_are_waited_for_where_weights_are_gathered),
        TEST(ranks_that_wait_in_backward_alone_may_differ_in_the_other_phases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
