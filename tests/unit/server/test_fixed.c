/* "Fixed since" is said of causes that are gone, never of one that noise hides: steps made
 * by hand, judged once a second as a server does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "judge/judge.h"
#include "query/bottlenecks_query.h"
#include "unit/simulated_job.h"
#include "unit/hand.h"

#define STEP_MS   50
#define EVERY     25u /* steps: one is late, */
#define LATE_MS   150 /* by so much: 6 ms a step */
#define SEEDS     2u
#define WINDOW_S  60
#define PATIENT_S 240 /* the former window, the later one, and what noise spoils */

static struct judge *judge;
static struct job job;
static int64_t looked;
static uint64_t number;
static bool ill, noisy;

static int begin(void **state)
{
    (void)state;
    judge = judge_new(NULL);
    looked = 0;
    number = 100; /* past the first steps of a run */
    ill = true;
    noisy = false;
    return hand_begin() != 0 || judge == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    judge_free(judge);
    store_free(store);
    return 0;
}

/* 2 ms of data, the rest forward; others make one step in six late, by anything. */
static void step(void)
{
    double ms = STEP_MS * (1 + 0.03 * job_normal(&job));

    if (ill && number % EVERY == 7)
        ms += LATE_MS;
    if (noisy && job_uniform(&job) < 1.0 / 6)
        ms += 40 + 200 * job_uniform(&job);
    fold_step(number, 1, 2 * MS, (int64_t)(ms * (double)MS) - 2 * MS);
    number++;
}

static struct judgement ask(void)
{
    struct selection usual = {.rank = SELECT_ANY};
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;
    struct judgement judgement;

    assert_int_equal(bottlenecks_query(store, &usual, &request, &answer), 0);
    assert_true(answer.head.live);
    judge_findings(judge, NULL, &usual, &answer, &judgement);
    bottlenecks_free(&answer);
    return judgement;
}

static bool stands(void)
{
    struct judgement judgement = ask();
    bool found = false;

    for (uint32_t i = 0; i < judgement.findings.count; i++)
        found = found || strcmp(judgement.findings.list[i].id, "periodic-steps") == 0;
    judgement_free(&judgement);
    return found;
}

/* The step since which it is said to be fixed; NOT_KNOWN. */
static int64_t fixed_step(void)
{
    struct judgement judgement = ask();
    int64_t found = NOT_KNOWN;

    for (uint32_t i = 0; i < judgement.fixed_count; i++)
        if (strcmp(judgement.fixed[i].id, "periodic-steps") == 0)
            found = judgement.fixed[i].fixed_step;
    judgement_free(&judgement);
    return found;
}

static void train(int64_t seconds)
{
    for (int64_t until = now + seconds * S; now < until; step())
        if (now - looked >= S) {
            looked = now;
            judge_feed(judge, store, NULL);
        }
}

static void a_periodic_cause_that_noise_hides_is_never_fixed(void **state)
{
    uint32_t hidden = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        (void)end(NULL);
        assert_int_equal(begin(NULL), 0);
        job = (struct job){.random = seed};
        train(2 * WINDOW_S);
        assert_true(stands());
        noisy = true;
        for (uint32_t i = 0; i < 30; i++) {
            train(5);
            hidden += !stands();
            assert_true(fixed_step() == NOT_KNOWN);
        }
        noisy = false;
        for (uint32_t i = 0; i < 24; i++) {
            train(5);
            assert_true(fixed_step() == NOT_KNOWN);
        }
        assert_true(stands());
    }
    assert_true(hidden > 0);
}

static void once_the_cause_is_gone_it_is_fixed_since_that_step(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        (void)end(NULL);
        assert_int_equal(begin(NULL), 0);
        job = (struct job){.random = 100 + seed};
        train(2 * WINDOW_S);
        assert_true(stands());
        int64_t cured = (int64_t)number;

        ill = false;
        for (int64_t s = 0; s < PATIENT_S && fixed_step() == NOT_KNOWN; s += 5)
            train(5);
        assert_true(fixed_step() != NOT_KNOWN);
        assert_false(stands());
        /* Within the part of a window that still shows the whole price. */
        assert_in_range(fixed_step(), cured - EVERY, cured + 400);
    }
}

static void
a_cause_that_goes_while_it_is_noisy_is_fixed_once_that_can_be_seen(void **state)
{
    (void)state;
    job = (struct job){.random = 7};
    train(2 * WINDOW_S);
    assert_true(stands());
    noisy = true;
    train(2 * WINDOW_S);
    ill = false;
    train(2 * WINDOW_S);
    assert_true(fixed_step() == NOT_KNOWN);
    noisy = false;
    for (int64_t s = 0; s < PATIENT_S && fixed_step() == NOT_KNOWN; s += 5)
        train(5);
    assert_true(fixed_step() != NOT_KNOWN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_periodic_cause_that_noise_hides_is_never_fixed),
        TEST(once_the_cause_is_gone_it_is_fixed_since_that_step),
        TEST(a_cause_that_goes_while_it_is_noisy_is_fixed_once_that_can_be_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
