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
#include "judge/replays.h"
#include "query/bottlenecks_query.h"
#include "unit/simulated_job.h"
#include "unit/hand.h"
#include "unit/kernel_step.h"

static struct judge *judge;
static struct job job;
static int64_t looked;
static uint64_t number, period; /* of the next step; of pauses, in steps */
static uint32_t changes, seconds, stood; /* of the list; looks; those that had the finding */
static const char *wanted; /* the finding that is waited for */
static char before[1024];

static int begin(void **state)
{
    (void)state;
    judge = judge_new(NULL);
    job = (struct job){.random = 1};
    looked = 0;
    period = 200;
    number = 100; /* past the first steps of a run */
    changes = seconds = stood = 0;
    before[0] = '\0';
    wanted = "";
    return hand_begin() != 0 || judge == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    judge_free(judge);
    store_free(store);
    return 0;
}

/* What an answer says now. */
static void ask(struct bottlenecks_answer *answer, struct judgement *judgement)
{
    struct selection usual = {.rank = SELECT_ANY};

    assert_int_equal(
        bottlenecks_query(store, &usual, &(struct bottlenecks_request){0}, answer), 0);
    judge_findings(judge, NULL, &usual, answer, judgement);
}

/* Ids of the usual answer, in an order of their own: places in the list may change. */
static void list_ids(char list[1024])
{
    struct bottlenecks_answer answer;
    struct judgement judgement;
    const struct finding_rule *rule;
    size_t length = 0;

    ask(&answer, &judgement);
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

static void look_once_a_second(void)
{
    char list[1024];

    if (now - looked < S)
        return;
    looked = now;
    judge_feed(judge, store, NULL);
    list_ids(list);
    changes += strcmp(list, before) != 0;
    memcpy(before, list, sizeof(before));
    seconds++;
}

static void train(uint64_t steps, double pause_ms)
{
    for (uint64_t i = 0; i < steps; i++, number++) {
        double ms = 100 * (1 + 0.03 * job_normal(&job));

        ms += number % period == period - 50 ? pause_ms : 0;
        fold_step(number, 1 + number / 700, 2 * MS, (int64_t)(ms * (double)MS) - 2 * MS);
        look_once_a_second();
    }
}

static void validate(uint64_t batches)
{
    for (uint64_t i = 0; i < batches; i++) {
        int64_t ns = (int64_t)(50 * (1 + 0.03 * job_normal(&job)) * (double)MS);

        fold(EVENT_META(0, EVENT_STEP, EVENT_STEP_VALIDATION, 0), now, ns, EVENT_STEP_NONE);
        now += ns;
        look_once_a_second();
    }
}

/* 70 s of training, 30 s of validation: some minutes hold none of it, some are half. */
static void validation_once_in_an_epoch_stays_on_the_list(void **state)
{
    (void)state;
    wanted = "validation-share";
    validate(2); /* Lightning's sanity check */
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        train(700, 0);
        validate(600);
    }
    stood = seconds = changes = 0;
    for (uint32_t epoch = 0; epoch < 6; epoch++) {
        for (uint32_t i = 0; i < 700; i++, number++) {
            fold_step(number, 3 + epoch, 2 * MS, 98 * MS);
            look_once_a_second();
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
    wanted = "periodic-steps";
    train(800, 1500);
    assert_non_null(strstr(before, "periodic-steps"));
    assert_true(changes <= 2); /* none, and this one */
    stood = seconds = changes = 0;
    train(6000, 1500);
    assert_true(seconds > 500);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

/* Five or six of them in a minute: few, but at even distances. */
static void a_pause_in_every_100th_step_stands_on_the_list_and_stays(void **state)
{
    (void)state;
    wanted = "periodic-steps";
    period = 100;
    train(800, 450);
    assert_non_null(strstr(before, "periodic-steps"));
    stood = seconds = changes = 0;
    train(6000, 450);
    assert_true(seconds > 500);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

/* Three or four epochs in a minute, of which the first batch is 2 s late. */
static void late_first_batches_of_a_few_epochs_stand_on_the_list(void **state)
{
    (void)state;
    wanted = "epoch-start";
    for (uint32_t i = 0; i < 6000; i++, number++) {
        double ms = 98 * (1 + 0.03 * job_normal(&job));

        if (i == 800)
            stood = seconds = 0;
        fold_step(number, 1 + i / 150, (i % 150 == 0 ? 2000 : 2) * MS,
                  (int64_t)(ms * (double)MS));
        look_once_a_second();
    }
    assert_true(seconds > 500);
    assert_int_equal(stood, seconds);
}

/* 20 s of validation, and 15 s of metrics before and in the middle of it. */
static void epochs_with_gaps(uint32_t count)
{
    for (uint32_t epoch = 0; epoch < count; epoch++) {
        train(600, 0);
        now += 15 * S;
        validate(200);
        now += 15 * S;
        validate(200);
    }
}

static void gaps_between_steps_stay_on_the_list_from_epoch_to_epoch(void **state)
{
    (void)state;
    wanted = "outside-steps";
    epochs_with_gaps(3);
    stood = seconds = changes = 0;
    epochs_with_gaps(6);
    assert_true(seconds > 450);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

static void gaps_that_are_no_more_leave_the_list(void **state)
{
    (void)state;
    wanted = "outside-steps";
    epochs_with_gaps(2);
    train(100, 0);
    assert_non_null(strstr(before, "outside-steps"));
    train(4000, 0);
    assert_null(strstr(before, "outside-steps"));
}

/* Steps that nobody saw are no gap. */
static void steps_that_are_missing_are_no_time_between_steps(void **state)
{
    (void)state;
    wanted = "outside-steps";
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        train(300, 0);
        now += 60 * S;
        number += 600;
        train(300, 0);
        validate(100);
    }
    train(700, 0);
    assert_null(strstr(before, "outside-steps"));
}

/* A checkpoint of 5 s in every 700th step: seldom two in a minute, at times none. */
static void train_and_save(uint32_t epochs, int64_t saving_ns)
{
    uint32_t name = texts_intern(process->texts, "save_checkpoint", 15);

    wanted = "checkpoints";
    for (uint32_t i = 0; i < 700 * epochs; i++, number++) {
        bool saves = i % 700 == 350 && saving_ns > 0;

        if (saves)
            fold(EVENT_META(name, EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0), now + 3 * MS,
                 saving_ns, 0);
        fold_step(number, 1, 2 * MS, 98 * MS + (saves ? saving_ns : 0));
        look_once_a_second();
    }
}

static void checkpoints_once_in_an_epoch_stay_on_the_list(void **state)
{
    (void)state;
    train_and_save(3, 5 * S);
    stood = seconds = changes = 0;
    train_and_save(6, 5 * S);
    assert_true(seconds > 400);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

static void checkpoints_that_are_no_more_leave_the_list(void **state)
{
    (void)state;
    train_and_save(3, 5 * S);
    assert_non_null(strstr(before, "checkpoints"));
    train_and_save(12, 0);
    assert_null(strstr(before, "checkpoints"));
}

/* Half of each step waits for its batch. */
static void wait_for_data(uint64_t steps, int64_t step_ns)
{
    wanted = "data-loading";
    for (uint64_t i = 0; i < steps; i++, number++) {
        fold_step(number, 1, step_ns / 2, step_ns / 2);
        look_once_a_second();
    }
}

static void steps_of_which_a_minute_holds_few_are_judged_by_the_last_twenty(void **state)
{
    (void)state;
    wait_for_data(40, 8 * S);
    assert_non_null(strstr(before, "data-loading"));
    stood = seconds = changes = 0;
    wait_for_data(60, 8 * S);
    assert_int_equal(stood, 60);
    assert_int_equal(changes, 0);
}

static void a_validation_of_two_minutes_leaves_the_list_as_it_is(void **state)
{
    (void)state;
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        wait_for_data(1000, 100 * MS);
        validate(2400);
    }
    wait_for_data(100, 100 * MS);
    stood = seconds = changes = 0;
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        wait_for_data(1000, 100 * MS);
        validate(2400);
    }
    assert_true(seconds > 400);
    assert_int_equal(stood, seconds);
    assert_int_equal(changes, 0);
}

/* Between two looks of the judge somebody asks: steps that come and go in a queue. */
static void what_stands_is_shown_though_an_answer_alone_does_not_show_it(void **state)
{
    (void)state;
    wanted = "step-drift";
    for (uint32_t i = 0; i < 600; i++, number++) {
        fold_step(number, 1, 2 * MS, (98 + (int64_t)i / 5) * MS);
        look_once_a_second();
    }
    assert_non_null(strstr(before, "step-drift"));
    for (uint32_t i = 0; i < 600; i++, number++) /* the same, with nobody who looks */
        fold_step(number, 1, 2 * MS, 98 * MS);
    stood = 0;
    list_ids(before);
    assert_int_equal(stood, 1);
    /* Nor does the first look that finds it no more take it; but soon it is gone. */
    judge_feed(judge, store, NULL);
    list_ids(before);
    assert_int_equal(stood, 2);
    for (uint32_t i = 0; i < 150; i++, number++) {
        fold_step(number, 1, 2 * MS, 98 * MS);
        look_once_a_second();
    }
    assert_null(strstr(before, "step-drift"));
}

/* Some ms behind the launch, so long. */
static void put_kernel(const char *name, int64_t after_ms, int64_t ms)
{
    struct event kernel[2] = {
        {.time = (uint64_t)(now + after_ms * MS),
         .value = (uint64_t)(ms * MS),
         .meta = kernel_step_named(process, name, EVENT_KERNEL, KERNEL_STEP_CUDA0),
         .aux = 2 * number + (after_ms > 2)},
        {.time = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    kernel_step_put(process, KERNEL_STEP_THREAD,
                    kernel_step_named(process, "cudaLaunchKernel", EVENT_LAUNCH, 1),
                    (const int64_t[2]){now + MS, now + MS + 5000}, kernel[0].aux);
    process_fold(process, KERNEL_STEP_THREAD, kernel, 2);
}

/* 60 of 100 ms on the device, and the host waits for the last 4.5 of them: half of what
 * faster products would save, and less than a twentieth of the step. */
static void multiply(uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++, number++) {
        put_kernel("ampere_sgemm_128x64_nn", 2, 18);
        put_kernel("softmax", 20, 42);
        kernel_step_put(process, 0,
                        kernel_step_named(process, "aten::item", EVENT_CPU_OP, 0),
                        (const int64_t[2]){now, now + 57 * MS}, 0);
        kernel_step_put(
            process, KERNEL_STEP_THREAD,
            kernel_step_named(process, "cudaDeviceSynchronize", EVENT_SYNC, 1),
            (const int64_t[2]){now + 57 * MS + MS / 2, now + 62 * MS + 8000}, 0);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                        (const int64_t[2]){now, now + 100 * MS},
                        number | (uint64_t)1 << 48);
        now += 100 * MS;
        look_once_a_second();
    }
}

/* It is looked at more closely than its threshold while it stands. */
static void what_stands_as_a_risk_is_no_price_for_that(void **state)
{
    struct selection usual = {.rank = SELECT_ANY};
    struct bottlenecks_answer answer;
    struct judgement judgement;

    (void)state;
    wanted = "float32-products";
    multiply(400);
    stood = seconds = 0;
    multiply(400);
    assert_int_equal(stood, seconds);
    assert_int_equal(
        bottlenecks_query(store, &usual, &(struct bottlenecks_request){0}, &answer), 0);
    replays_for_rules(NULL, store, &usual, &answer);
    judge_findings(judge, NULL, &usual, &answer, &judgement);
    for (uint32_t i = 0; i < judgement.findings.count; i++)
        if (strcmp(judgement.findings.list[i].id, wanted) == 0)
            assert_true(judgement.findings.list[i].ns_per_step == 0 &&
                        judgement.findings.list[i].claim_count == 0 &&
                        strstr(judgement.findings.list[i].formula,
                               "of which a step would gain 4.5 ms now") != NULL);
    judgement_free(&judgement);
    bottlenecks_free(&answer);
}

/* 8 of 100 ms wait for data, while the device works off what is in its queue. Of 300 steps
 * the first 50 are recorded. */
static void wait_beside_a_queue(uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++, number++) {
        bool recorded = i % 300 < 50;

        if (recorded)
            put_kernel("softmax", 2, 99);
        kernel_step_put(process, 0, EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA),
                        (const int64_t[2]){now, now + 8 * MS}, 0);
        kernel_step_put(
            process, 0, EVENT_META(0, EVENT_STEP, recorded ? KERNEL_STEP_FULL : 0, 0xf),
            (const int64_t[2]){now, now + 100 * MS}, number | (uint64_t)1 << 48);
        now += 100 * MS;
        look_once_a_second();
    }
}

static void
a_wait_that_a_queue_hides_is_hidden_too_where_the_newest_steps_were_not_recorded(
    void **state)
{
    (void)state;
    wanted = "data-loading";
    wait_beside_a_queue(50);
    stood = seconds = 0;
    wait_beside_a_queue(1800);
    assert_true(seconds > 150);
    assert_int_equal(stood, 0);
}

/* It begins when none of the next 25 s is recorded. */
static void a_new_wait_is_not_held_against_what_older_steps_waited(void **state)
{
    (void)state;
    wanted = "data-loading";
    wait_beside_a_queue(650);
    assert_null(strstr(before, wanted));
    stood = seconds = 0;
    for (uint32_t i = 0; i < 100; i++, number++) {
        fold_step(number, 1, 60 * MS, 40 * MS);
        look_once_a_second();
    }
    assert_true(stood > 0);
}

/* Nor later, when the usual window holds more and more of the new ones. */
static void
a_new_wait_stays_on_the_list_though_no_step_tells_of_the_device(void **state)
{
    (void)state;
    wanted = "data-loading";
    wait_beside_a_queue(650);
    assert_null(strstr(before, wanted));
    for (uint32_t i = 0; i < 150; i++, number++) {
        fold_step(number, 1, 90 * MS, 10 * MS);
        look_once_a_second();
    }
    assert_non_null(strstr(before, wanted));
    stood = seconds = 0;
    for (uint32_t i = 0; i < 600; i++, number++) {
        fold_step(number, 1, 90 * MS, 10 * MS);
        look_once_a_second();
    }
    assert_int_equal(stood, seconds);
}

/* Whatever the run did before and after. */
static void a_selection_is_judged_by_its_own_validation(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {WINDOW_STEPS, 1100, 1399}};
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;
    struct findings findings;

    train(1000, 0);
    for (uint32_t i = 0; i < 30; i++) {
        train(10, 0);
        validate(10);
    }
    train(1000, 0);
    assert_int_equal(bottlenecks_query(store, &whose, &request, &answer), 0);
    findings_find(&answer, NULL, &findings);
    assert_true(findings.count > 0);
    assert_string_equal(findings.list[0].id, "validation-share");
    /* 50 ms for each step of 100, half of which is told. */
    assert_true(fabs(findings.list[0].ns_per_step - 25e6) < 1e6);
    findings_free(&findings);
    bottlenecks_free(&answer);
}

/* Steps that vary by 3 %, of which `wait_ms` are for data. */
static void train_and_wait(double ms, double wait_ms)
{
    double varies = 1 + 0.03 * job_normal(&job);

    fold_step(number++, 1, (int64_t)((ms / 100 + wait_ms) * varies * (double)MS),
              (int64_t)(ms * 0.99 * varies * (double)MS));
    look_once_a_second();
}

static void train_for(double length_s, double ms, double wait_ms)
{
    for (int64_t until = now + (int64_t)(length_s * (double)S); now < until;)
        train_and_wait(ms, wait_ms);
}

/* From a job that waits for nothing, until the list says that it does; and back again. */
static void expect_to_stand(double ms, double wait_ms)
{
    uint64_t first, steps;
    int64_t began;

    train_for(80, ms, 0);
    assert_null(strstr(before, wanted));
    began = now;
    first = number;
    while (strstr(before, wanted) == NULL && now - began < 300 * S)
        train_and_wait(ms, wait_ms);
    steps = number - first;
    if (now - began > 10 * S && steps > 30)
        fail_msg("%g ms of %g: %g s, %u steps", wait_ms, ms + wait_ms,
                 (double)(now - began) / (double)S, (unsigned)steps);
    train_for(80, ms, 0);
}

static void a_wait_stands_on_the_list_within_ten_seconds_or_thirty_steps(void **state)
{
    static const double lengths_ms[] = {20, 100, 500, 3000};

    (void)state;
    wanted = "data-loading";
    for (size_t i = 0; i < sizeof(lengths_ms) / sizeof(lengths_ms[0]); i++) {
        expect_to_stand(lengths_ms[i], 0.12 * lengths_ms[i]);
        expect_to_stand(lengths_ms[i], lengths_ms[i]);
    }
}

static double usual_price(const char *id)
{
    struct bottlenecks_answer answer;
    struct judgement judgement;
    double ns = (double)NAN;

    ask(&answer, &judgement);
    for (uint32_t i = 0; i < judgement.findings.count; i++)
        if (strcmp(judgement.findings.list[i].id, id) == 0)
            ns = judgement.findings.list[i].ns_per_step;
    judgement_free(&judgement);
    bottlenecks_free(&answer);
    return ns;
}

static bool is_told_as_fixed(const char *id)
{
    struct bottlenecks_answer answer;
    struct judgement judgement;
    bool told = false;

    ask(&answer, &judgement);
    for (uint32_t i = 0; i < judgement.fixed_count; i++)
        told = told || strcmp(judgement.fixed[i].id, id) == 0;
    judgement_free(&judgement);
    bottlenecks_free(&answer);
    return told;
}

/* 1 ms of phases, then code that is in none. */
static void step_with_code(int64_t between_ns)
{
    int64_t start = now;

    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA), start, MS / 10, 0);
    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_FORWARD), start + MS / 10,
         9 * MS / 10, 0);
    now = start + MS + between_ns;
    fold(EVENT_META(0, EVENT_STEP, 0, 0xf), start, now - start,
         number++ | (uint64_t)1 << 48);
    look_once_a_second();
}

/* Code and, in every 20th step, a pause of 200 ms. */
static void train_with_code(int64_t between_ns, int64_t length_ns)
{
    for (int64_t until = now + length_ns; now < until;)
        step_with_code(between_ns + (number % 20 == 0 ? 200 * MS : 0));
}

static void begin_code_beside_pauses(void)
{
    while (now < 30 * S)
        step_with_code(MS / 20);
    assert_null(strstr(before, "between-steps"));
    train_with_code(4 * MS, 10 * S);
}

static void code_between_steps_is_named_beside_a_pause_within_ten_seconds(void **state)
{
    (void)state;
    begin_code_beside_pauses();
    for (uint32_t i = 0; i < 20; i++) {
        train_with_code(4 * MS, S);
        assert_non_null(strstr(before, "periodic-steps"));
        assert_non_null(strstr(before, "between-steps"));
    }
    /* No price is more than the mean step, which is short while older ones are in the window. */
    train_with_code(4 * MS, 40 * S);
    assert_true(fabs(usual_price("between-steps") - 4e6) < 0.4e6);
}

static void code_between_steps_is_told_as_fixed_beside_a_pause_that_stays(void **state)
{
    (void)state;
    begin_code_beside_pauses();
    train_with_code(4 * MS, 20 * S);
    train_with_code(0, 20 * S);
    assert_null(strstr(before, "between-steps"));
    assert_true(is_told_as_fixed("between-steps"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(validation_once_in_an_epoch_stays_on_the_list),
        TEST(a_validation_that_is_no_more_leaves_the_list),
        TEST(a_pause_that_is_seen_thrice_comes_once_and_stays),
        TEST(a_pause_in_every_100th_step_stands_on_the_list_and_stays),
        TEST(late_first_batches_of_a_few_epochs_stand_on_the_list),
        TEST(gaps_between_steps_stay_on_the_list_from_epoch_to_epoch),
        TEST(gaps_that_are_no_more_leave_the_list),
        TEST(steps_that_are_missing_are_no_time_between_steps),
        TEST(checkpoints_once_in_an_epoch_stay_on_the_list),
        TEST(checkpoints_that_are_no_more_leave_the_list),
        TEST(steps_of_which_a_minute_holds_few_are_judged_by_the_last_twenty),
        TEST(a_validation_of_two_minutes_leaves_the_list_as_it_is),
        TEST(what_stands_is_shown_though_an_answer_alone_does_not_show_it),
        TEST(what_stands_as_a_risk_is_no_price_for_that),
        TEST(
            a_wait_that_a_queue_hides_is_hidden_too_where_the_newest_steps_were_not_recorded),
        TEST(a_new_wait_is_not_held_against_what_older_steps_waited),
        TEST(a_new_wait_stays_on_the_list_though_no_step_tells_of_the_device),
        TEST(a_selection_is_judged_by_its_own_validation),
        TEST(code_between_steps_is_named_beside_a_pause_within_ten_seconds),
        TEST(code_between_steps_is_told_as_fixed_beside_a_pause_that_stays),
        TEST(a_wait_stands_on_the_list_within_ten_seconds_or_thirty_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
