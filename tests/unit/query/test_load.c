/* What samples of one second say of a window, also of one that is shorter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "query/bottlenecks_query.h"
#include "wire/facts.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

static struct store *store;
static struct session *session;
static struct process *trainer;
static struct bottlenecks_answer answer;

/* A minute of steps of 100 ms. */
static int begin(void **state)
{
    (void)state;
    struct process_identity identity = {.pid = 7, .role = WIRE_ROLE_TRAINER};

    store = store_new(NULL);
    session = state_session(store, "hand");
    trainer = state_process(store, session, &identity);
    if (trainer == NULL)
        return -1;
    for (uint64_t i = 0; i < 600; i++) {
        struct event event = {.time = i * 100 * (uint64_t)MS,
                              .value = 100 * (uint64_t)MS,
                              .meta = EVENT_META(0, EVENT_STEP, 0, 0xf),
                              .aux = i};

        process_fold(trainer, 0, &event, 1);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    bottlenecks_free(&answer);
    store_free(store);
    return 0;
}

/* A sample of the second before it. */
static void sample(struct process *process, int64_t second, double cpu, double delay)
{
    double values[PROCESS_LOADS] = {
        [PROCESS_LOAD_RSS] = 1, [PROCESS_LOAD_CPU] = cpu, [PROCESS_LOAD_DELAY] = delay};

    series_add(&process->rss, second * S, 0, values, PROCESS_LOADS);
}

static void sample_machine(int64_t second, float busy, float steal)
{
    store->host.points[store->host.count++] = (struct host_sample){
        .unix_ns = second * S, .cpu_share = busy, .steal_share = steal};
}

/* Steps of the window, ten a second. */
static const struct load *look(int64_t first, int64_t last)
{
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {WINDOW_STEPS, first, last}};

    bottlenecks_free(&answer);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    return &answer.load;
}

static bool near(double value, double expected)
{
    return fabs(value - expected) < 0.001;
}

static void many_samples_say_at_most_the_end_of_their_interval(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 61; i++)
        sample(trainer, i, 1, i % 2 == 0 ? 0.2 : 0.1);
    const struct load *load = look(0, 599);

    assert_true(near(load->delay_share, 0.15));
    assert_true(near(load->delay_most, load->delay_share + load->delay_error));
    assert_in_range(1000 * load->delay_most, 155, 170);
}

static void what_was_waited_before_the_first_and_after_the_last_step_is_no_share_of_one(
    void **state)
{
    struct event event = {.time = 30 * (uint64_t)S,
                          .value = 100 * (uint64_t)MS,
                          .meta = EVENT_META(0, EVENT_STEP, 0, 0xf)};

    assert_int_equal(end(state), 0);
    struct process_identity identity = {.pid = 7, .role = WIRE_ROLE_TRAINER};

    store = store_new(NULL);
    session = state_session(store, "late");
    trainer = state_process(store, session, &identity);
    assert_non_null(trainer);
    for (uint64_t i = 0; i < 100; i++) {
        event.time = (uint64_t)(30 * S) + i * 100 * (uint64_t)MS;
        event.aux = i;
        process_fold(trainer, 0, &event, 1);
    }
    for (int64_t i = 0; i < 61; i++)
        sample(trainer, i, 1, i <= 30 || i > 40 ? 0.9 : 0.1);
    struct selection whose = {.rank = SELECT_ANY, .window = {WINDOW_RUN, 0, 0}};

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_true(near(answer.load.delay_share, 0.1));
}

static void half_a_second_may_have_all_that_its_second_waited(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 61; i++)
        sample(trainer, i, 1, i == 31 ? 0.1 : 0);
    assert_true(near(look(302, 306)->delay_most, 0.2));
    assert_true(near(look(402, 406)->delay_most, 0));
}

static void a_window_that_no_sample_reaches_may_have_waited_throughout(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 50; i++)
        sample(trainer, i, 1, 0);
    assert_true(near(look(550, 559)->delay_most, 1));
}

/* The same with what its first thread ran. */
static void sample_turns(int64_t second, double run, double delay)
{
    double values[PROCESS_LOADS] = {[PROCESS_LOAD_RSS] = 1,
                                    [PROCESS_LOAD_CPU] = run,
                                    [PROCESS_LOAD_DELAY] = delay,
                                    [PROCESS_LOAD_RUN] = run};

    series_add(&trainer->rss, second * S, 0, values, PROCESS_LOADS);
}

static void a_thread_sleeps_when_it_neither_has_a_core_nor_waits_for_one(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 61; i++)
        sample_turns(i, 0.7, 0.1);
    assert_true(near(look(0, 599)->asleep_share, 0.2));
    assert_true(isnan(look(302, 306)->asleep_share)); /* too short to be told of */
}

static void
a_window_surely_waited_what_samples_saw_that_tell_of_nothing_else(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 61; i++)
        sample(trainer, i, 1, i == 30 || i == 32 ? 0.3 : 0.04);
    assert_true(near(look(300, 329)->delay_least, 0.04));
    /* All that the first of these seconds saw may have been before the window. */
    assert_false(look(295, 304)->delay_least > 0);
    /* Of many samples it is the lower end of their interval. */
    const struct load *load = look(0, 599);

    assert_true(load->delay_least > 0.039 && load->delay_least <= load->delay_share);
}

static void of_a_process_that_is_not_sampled_nothing_is_known(void **state)
{
    (void)state;
    const struct load *load = look(0, 599);

    assert_true(isnan(load->delay_most) && isnan(load->delay_least));
    assert_true(isnan(load->asleep_share));
    assert_true(isnan(load->others_share));
    assert_true(isnan(load->stolen_share));
}

static void
workers_without_a_segment_are_told_of_by_what_was_sampled_of_them(void **state)
{
    (void)state;
    trainer->loaders = calloc(PROCESS_LOADERS, sizeof(*trainer->loaders));
    assert_non_null(trainer->loaders);
    for (uint32_t i = 0; i < 3; i++) { /* the third is of an earlier epoch */
        struct process_loader *loader = &trainer->loaders[i];

        loader->pid = 100 + i;
        loader->seen_ns = i < 2 ? 60 * S : 30 * S;
        for (; loader->count < 61; loader->count++)
            loader->points[loader->count] = (struct process_loader_point){
                (int64_t)loader->count * S, i == 0 ? 0.9F : 0.1F, 0.2F};
    }
    const struct load *load = look(0, 599);

    assert_int_equal(load->workers, 2);
    assert_true(near(load->worker_cpu_share, 0.5));
    assert_true(near(load->worker_cpu_most, 0.9));
    assert_true(near(load->worker_delay, 0.2));
    assert_int_equal(look(300, 349)->workers, 2);
}

static void what_the_job_does_not_use_of_busy_cores_others_do(void **state)
{
    (void)state;
    store->host.core_count = 4;
    for (int64_t i = 0; i < 61; i++) {
        sample(trainer, i, 1, 0);
        sample_machine(i, 0.5F, 0);
    }
    assert_true(near(look(0, 599)->others_share, 0.5));
    assert_true(near(look(0, 599)->stolen_share, 0));
}

static void stolen_time_counts_against_what_cores_were_busy(void **state)
{
    (void)state;
    store->host.core_count = 4;
    for (int64_t i = 0; i < 61; i++)
        sample_machine(i, 0.3F, 0.1F);
    assert_true(near(look(0, 599)->stolen_share, 0.25));
}

static void the_busiest_worker_is_told_beside_the_mean_of_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct process_identity identity = {
            .pid = 20 + i, .parent_pid = 7, .role = WIRE_ROLE_WORKER};
        struct process *worker = state_process(store, session, &identity);

        for (int64_t second = 0; second < 61; second++)
            sample(worker, second, i == 2 ? 0.9 : 0.1, 0.2);
    }
    const struct load *load = look(0, 599);

    assert_int_equal(load->workers, 4);
    assert_true(near(load->worker_cpu_most, 0.9));
    assert_true(near(load->worker_cpu_share, 0.3));
    assert_true(near(load->worker_delay, 0.2));
}

static void say_workers(double workers)
{
    const char *key = FACT_DATALOADER_WORKERS;

    trainer->facts[trainer->fact_count++] =
        (struct process_fact){.key = texts_intern(trainer->texts, key, strlen(key)),
                              .type = WIRE_FACT_NUMBER,
                              .number = workers};
}

/* Of the trainer, alive for these seconds. */
static struct process *work(uint32_t pid, int64_t from, int64_t to, double cpu)
{
    struct process_identity identity = {
        .pid = pid, .parent_pid = 7, .role = WIRE_ROLE_WORKER};
    struct process *worker = state_process(store, session, &identity);

    assert_non_null(worker);
    worker->start_ns = from * S;
    for (int64_t second = from; second <= to; second++)
        sample(worker, second, cpu, 0.2);
    return worker;
}

static void
workers_that_rest_are_not_of_the_loader_that_training_reads_from(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        (void)work(20 + i, 0, 60, i % 2 == 0 ? 0.9 : 0);
    assert_int_equal(look(0, 599)->workers, 4); /* nobody says how many it has */
    say_workers(2);
    const struct load *load = look(0, 599);

    assert_int_equal(load->workers, 2);
    assert_true(near(load->worker_cpu_most, 0.9));
    assert_true(near(load->worker_cpu_share, 0.9));
    trainer->facts[0].number = 0;
    assert_int_equal(look(0, 599)->workers, 0); /* the trainer loads by itself */
    assert_true(isnan(answer.load.worker_cpu_most));
}

static void
workers_that_say_that_they_feed_validation_are_not_the_trainings(void **state)
{
    const char *key = FACT_LOADER_STAGE, *stage = "validate";

    (void)state;
    say_workers(2);
    for (uint32_t i = 0; i < 4; i++) {
        struct process *worker = work(20 + i, 0, 60, i < 2 ? 0.4 : 0.5);

        if (i < 2)
            continue;
        worker->facts[worker->fact_count++] = (struct process_fact){
            .key = texts_intern(worker->texts, key, strlen(key)),
            .type = WIRE_FACT_TEXT,
            .text = texts_intern(worker->texts, stage, strlen(stage))};
    }
    assert_int_equal(look(0, 599)->workers, 2);
    assert_true(near(answer.load.worker_cpu_share, 0.4));
}

static void workers_of_epochs_that_are_over_stay_in_the_mean(void **state)
{
    (void)state;
    say_workers(3);
    for (uint32_t epoch = 0; epoch < 4; epoch++)
        for (uint32_t i = 0; i < 3; i++)
            (void)work(20 + 3 * epoch + i, 15 * epoch, 15 * epoch + 14,
                       i == 0 ? 0.9 : 0.1);
    const struct load *load = look(0, 599);

    assert_int_equal(load->workers, 3);
    assert_true(near(load->worker_cpu_most, 0.9));
    assert_true(near(load->worker_cpu_share, 1.1 / 3));
    assert_true(near(load->worker_cpu_others, (3 * 0.9 + 8 * 0.1) / 11));
}

static void
workers_without_a_segment_that_rest_are_not_of_the_trainings_loader_either(void **state)
{
    (void)state;
    trainer->loaders = calloc(PROCESS_LOADERS, sizeof(*trainer->loaders));
    assert_non_null(trainer->loaders);
    say_workers(2);
    for (uint32_t i = 0; i < 5; i++) {
        struct process_loader *loader = &trainer->loaders[i];

        loader->pid = 100 + i;
        loader->seen_ns = 60 * S;
        for (; loader->count < 61; loader->count++)
            loader->points[loader->count] = (struct process_loader_point){
                (int64_t)loader->count * S, i < 2 ? 0.8F : 0, 0.2F};
    }
    assert_int_equal(look(0, 599)->workers, 2);
    assert_true(near(answer.load.worker_cpu_share, 0.8));
}

/* Thrice as long as the others, and nothing is known of its phases. */
static void slow_step(uint64_t start_ns, uint64_t number)
{
    struct event event = {.time = start_ns,
                          .value = 300 * (uint64_t)MS,
                          .meta = EVENT_META(0, EVENT_STEP, 0, 0),
                          .aux = number};

    process_fold(trainer, 0, &event, 1);
}

static void a_slow_step_of_no_phase_had_no_core_where_its_second_says_so(void **state)
{
    (void)state;
    slow_step(60 * (uint64_t)S, 600);
    slow_step(80 * (uint64_t)S, 601);
    sample(trainer, 60, 1, 0.7);
    sample(trainer, 61, 1, 0.7);
    sample(trainer, 80, 1, 0.1);
    sample(trainer, 81, 1, 0.1);
    (void)look(0, 601);
    assert_int_equal(answer.steps.slow_count, 2);
    assert_string_equal(answer.steps.slow[0].cause, "unknown");
    assert_string_equal(answer.steps.slow[1].cause, "core");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_samples_say_at_most_the_end_of_their_interval),
        TEST(
            what_was_waited_before_the_first_and_after_the_last_step_is_no_share_of_one),
        TEST(half_a_second_may_have_all_that_its_second_waited),
        TEST(a_window_that_no_sample_reaches_may_have_waited_throughout),
        TEST(a_thread_sleeps_when_it_neither_has_a_core_nor_waits_for_one),
        TEST(a_window_surely_waited_what_samples_saw_that_tell_of_nothing_else),
        TEST(of_a_process_that_is_not_sampled_nothing_is_known),
        TEST(workers_without_a_segment_are_told_of_by_what_was_sampled_of_them),
        TEST(what_the_job_does_not_use_of_busy_cores_others_do),
        TEST(stolen_time_counts_against_what_cores_were_busy),
        TEST(the_busiest_worker_is_told_beside_the_mean_of_all),
        TEST(workers_that_rest_are_not_of_the_loader_that_training_reads_from),
        TEST(workers_that_say_that_they_feed_validation_are_not_the_trainings),
        TEST(workers_of_epochs_that_are_over_stay_in_the_mean),
        TEST(
            workers_without_a_segment_that_rest_are_not_of_the_trainings_loader_either),
        TEST(a_slow_step_of_no_phase_had_no_core_where_its_second_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
