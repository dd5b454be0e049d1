/* The list of findings of a steady job stays as it is: steps made by hand, judged once a
 * second as a server does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "judge/judge.h"
#include "query/bottlenecks_query.h"
#include "simulated_job.h"
#include "unit/hand.h"

static struct judge *judge;
static struct job job;
static int64_t looked;
static uint64_t number;
static uint32_t changes, seconds, stood; /* of the list; looks; those that had the finding */
static char before[1024];

static int begin(void **state)
{
    (void)state;
    judge = judge_new();
    job = (struct job){.random = 1};
    looked = 0;
    number = 100; /* past the first steps of a run */
    changes = seconds = stood = 0;
    before[0] = '\0';
    return hand_begin() != 0 || judge == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    judge_free(judge);
    store_free(store);
    return 0;
}

/* Ids of the usual answer, in an order of their own: places in the list may change. */
static void list_ids(char list[1024], const char *wanted)
{
    struct selection usual = {.rank = SELECT_ANY};
    struct bottlenecks_request request = {.k = JUDGE_OPS};
    struct bottlenecks_answer answer;
    struct judgement judgement;
    const struct finding_rule *rule;
    size_t length = 0;

    assert_int_equal(bottlenecks_query(store, &usual, &request, &answer), 0);
    judge_findings(judge, NULL, &usual, &answer, &judgement);
    list[0] = '\0';
    for (uint32_t r = 0; (rule = findings_rule(r)) != NULL; r++)
        for (uint32_t i = 0; i < judgement.findings.count && length < 1024; i++)
            if (judgement.findings.list[i].rule == rule)
                length += (size_t)snprintf(list + length, 1024 - length, "%s ",
                                           judgement.findings.list[i].id);
    assert_true(length < 1024);
    stood += strstr(list, wanted) != NULL;
    judgement_free(&judgement);
    bottlenecks_free(&answer);
}

static void look_once_a_second(const char *wanted)
{
    char list[1024];

    if (now - looked < S)
        return;
    looked = now;
    judge_feed(judge, store, NULL);
    list_ids(list, wanted);
    changes += strcmp(list, before) != 0;
    memcpy(before, list, sizeof(before));
    seconds++;
}

static void train(uint64_t steps, double pause_ms)
{
    for (uint64_t i = 0; i < steps; i++, number++) {
        double ms = 100 * (1 + 0.03 * job_normal(&job));

        ms += number % 200 == 150 ? pause_ms : 0;
        fold_step(number, 1 + number / 700, 2 * MS, (int64_t)(ms * (double)MS) - 2 * MS);
        look_once_a_second("periodic-steps");
    }
}

static void validate(uint64_t batches)
{
    for (uint64_t i = 0; i < batches; i++) {
        int64_t ns = (int64_t)(50 * (1 + 0.03 * job_normal(&job)) * (double)MS);

        fold(EVENT_META(0, EVENT_STEP, EVENT_STEP_VALIDATION, 0), now, ns, EVENT_STEP_NONE);
        now += ns;
        look_once_a_second("validation-share");
    }
}

/* 70 s of training, 30 s of validation: some minutes hold none of it, some are half. */
static void validation_once_in_an_epoch_stays_on_the_list(void **state)
{
    (void)state;
    validate(2); /* Lightning's sanity check */
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        train(700, 0);
        validate(600);
    }
    stood = seconds = changes = 0;
    for (uint32_t epoch = 0; epoch < 6; epoch++) {
        for (uint32_t i = 0; i < 700; i++, number++) {
            fold_step(number, 3 + epoch, 2 * MS, 98 * MS);
            look_once_a_second("validation-share");
        }
        validate(600);
    }
    assert_true(seconds > 500);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

static void a_validation_that_is_no_more_leaves_the_list(void **state)
{
    (void)state;
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        train(700, 0);
        validate(600);
    }
    train(100, 0);
    assert_non_null(strstr(before, "validation-share"));
    train(4000, 0);
    assert_null(strstr(before, "validation-share"));
}

/* Every 20 s: the last minute holds two or three of them. */
static void a_pause_that_is_seen_thrice_comes_once_and_stays(void **state)
{
    (void)state;
    train(800, 1500);
    assert_non_null(strstr(before, "periodic-steps"));
    assert_true(changes <= 2); /* none, and this one */
    stood = seconds = changes = 0;
    train(6000, 1500);
    assert_true(seconds > 500);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(validation_once_in_an_epoch_stays_on_the_list),
        TEST(a_validation_that_is_no_more_leaves_the_list),
        TEST(a_pause_that_is_seen_thrice_comes_once_and_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
