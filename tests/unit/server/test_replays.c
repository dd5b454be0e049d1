/* When steps are replayed, and when what they told is told again. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "judge/replays.h"
#include "unit/hand.h"
#include "unit/kernel_step.h"

static struct replays *replays;
static int64_t clock_ms, step_of_clock_ms; /* that each look at it takes */
static _Atomic uint32_t looks; /* any thread; two for a replay, one for who gets one */

static int64_t look_at_clock(void)
{
    looks++;
    return step_of_clock_ms == 0 ? clock_ms : (clock_ms += step_of_clock_ms);
}

static int begin(void **state)
{
    (void)state;
    step_of_clock_ms = 0;
    replays = replays_new(look_at_clock);
    return replays == NULL ? -1 : hand_begin();
}

static int end(void **state)
{
    (void)state;
    replays_free(replays);
    store_free(store);
    return 0;
}

/* What the newest two did is not known before the next one works. */
static void steps_with_a_kernel(uint64_t first, uint64_t count, int64_t data_ns)
{
    for (uint64_t i = first; i < first + count; i++)
        kernel_step(process, i, &now, data_ns);
}

static struct replay_table ask(struct window window, bool for_rules)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct bottlenecks_answer answer;
    struct replay_table table;

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    if (for_rules)
        replays_for_rules(replays, store, &whose, &answer);
    else
        replays_fill(replays, store, &whose, &answer);
    table = answer.replay;
    bottlenecks_free(&answer);
    return table;
}

static const struct window usual = {.kind = WINDOW_DEFAULT};

/* So long after a replay of the usual window: is it the same that is told? */
static bool is_kept(const struct replay_table *first, int64_t after_ms)
{
    int64_t at_ms = clock_ms;

    clock_ms += after_ms;
    bool kept = ask(usual, true).step_ns == first->step_ns;

    clock_ms = at_ms;
    return kept;
}

static void a_running_job_is_replayed_again_in_half_a_minute(void **state)
{
    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true);

    assert_int_equal(first.steps, REPLAY_STEPS_MAX);
    assert_true(fabs(first.step_ns - 10.0 * MS) < 1 &&
                fabs(first.compute_ns - 6.0 * MS) < 1);
    steps_with_a_kernel(20, 2, 4 * MS);
    assert_true(is_kept(&first, REPLAYS_AGE_MS - 1));
    /* Another stretch has an entry of its own. */
    assert_true(ask((struct window){.kind = WINDOW_RUN}, true).step_ns > first.step_ns);
    assert_true(is_kept(&first, 0));
    assert_false(is_kept(&first, REPLAYS_AGE_MS));
}

/* So many steps are replayed, and then there are others. */
static void replays_soon(uint64_t first_steps, uint64_t more, int64_t data_ns)
{
    steps_with_a_kernel(0, first_steps, 2 * MS);
    struct replay_table first = ask(usual, true);

    steps_with_a_kernel(first_steps, more, data_ns);
    assert_true(is_kept(&first, REPLAYS_SOON_MS - 1));
    assert_false(is_kept(&first, REPLAYS_SOON_MS));
}

static void it_is_sooner_where_steps_have_become_others(void **state)
{
    (void)state;
    replays_soon(20, 20, 8 * MS);
}

static void it_is_sooner_where_few_steps_were_replayed(void **state)
{
    (void)state;
    replays_soon(5, 3, 4 * MS);
}

static void a_short_stretch_is_replayed_again_when_it_is_over(void **state)
{
    const struct window short_one = {WINDOW_LAST_NS, 10 * S, 0};

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    double first = ask(short_one, true).step_ns;

    steps_with_a_kernel(20, 2, 4 * MS);
    clock_ms += 9999;
    assert_true(ask(short_one, true).step_ns == first);
    clock_ms += 1;
    assert_true(ask(short_one, true).step_ns > first);
}

static void replaying_takes_no_more_than_a_hundredth_of_the_time(void **state)
{
    (void)state;
    step_of_clock_ms = 1000; /* from look to look: as long as a replay takes */
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true);

    step_of_clock_ms = 0;
    steps_with_a_kernel(20, 2, 4 * MS);
    assert_true(is_kept(&first, REPLAYS_AGE_MS));
    assert_true(is_kept(&first, 100 * 1000 - 1));
    assert_false(is_kept(&first, 100 * 1000));
}

/* On a machine that others use a few steps take long as well, and tell nothing. */
static void
after_steps_that_were_too_few_it_rests_no_longer_than_otherwise(void **state)
{
    (void)state;
    step_of_clock_ms = 1000;
    steps_with_a_kernel(0, 4, 2 * MS);
    struct replay_table first = ask(usual, true);

    step_of_clock_ms = 0;
    assert_true(first.steps < REPLAY_STEPS_MIN);
    steps_with_a_kernel(4, 20, 4 * MS);
    assert_true(is_kept(&first, REPLAYS_SOON_MS - 1));
    assert_false(is_kept(&first, REPLAYS_SOON_MS));
}

/* As ranks do, which are asked for in the same order all the time. */
static void of_two_stretches_none_takes_the_time_of_the_other(void **state)
{
    const struct window other = {.kind = WINDOW_RUN};

    (void)state;
    step_of_clock_ms = 1000;
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true), second = ask(other, true);

    step_of_clock_ms = 0;
    steps_with_a_kernel(20, 2, 4 * MS);
    for (int s = 0; s < 199; s++) {
        clock_ms += 1000;
        assert_true(ask(other, true).step_ns == second.step_ns);
        (void)ask(usual, true);
    }
    clock_ms += 2000;
    assert_true(ask(usual, true).step_ns > first.step_ns);
    assert_true(ask(other, true).step_ns > second.step_ns);
}

static void of_a_run_that_ended_its_last_minute_is_known(void **state)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct bottlenecks_answer answer;

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    (void)ask(usual, true);
    process->state = PROCESS_ENDED;
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_false(answer.head.live);
    replays_known(replays, &whose, &answer);
    assert_int_equal(answer.replay.steps, REPLAY_STEPS_MAX);
    bottlenecks_free(&answer);
}

static void the_usual_window_is_replayed_once_under_both_of_its_names(void **state)
{
    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    struct replay_table first = ask(usual, true);

    steps_with_a_kernel(20, 2, 4 * MS);
    assert_true(ask((struct window){WINDOW_LAST_NS, 60 * S, 0}, true).step_ns ==
                first.step_ns);
    assert_true(ask((struct window){WINDOW_LAST_NS, 61 * S, 0}, true).step_ns !=
                first.step_ns);
}

static void who_may_not_wait_is_told_what_is_known(void **state)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct bottlenecks_answer answer;

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer),
            0);
        replays_known(replays, &whose, &answer);
        assert_int_equal(answer.replay.steps, i == 0 ? 0 : REPLAY_STEPS_MAX);
        bottlenecks_free(&answer);
        (void)ask(usual, true);
    }
}

static void query(struct bottlenecks_answer *answer)
{
    struct selection whose = {.rank = SELECT_ANY};

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, answer), 0);
}

/* Threads that are in fill(): their numbers. */
static _Atomic int threads_in[2];

static void *fill(void *answer)
{
    struct selection whose = {.rank = SELECT_ANY};

    threads_in[threads_in[0] != 0] = gettid();
    replays_fill(replays, store, &whose, answer);
    return NULL;
}

/* It waits for a lock, or to be told. */
static bool sleeps(int thread)
{
    char path[64], text[256] = "";

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return false;
    bool read = fgets(text, sizeof(text), file) != NULL;

    fclose(file);
    const char *end = read ? strrchr(text, ')') : NULL;

    return end != NULL && end[1] == ' ' && end[2] == 'S';
}

static void of_two_who_ask_at_once_one_waits_for_the_other(void **state)
{
    struct bottlenecks_answer answers[2];
    pthread_t threads[2];

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    for (int i = 0; i < 2; i++)
        query(&answers[i]);
    looks = 0;
    pthread_rwlock_wrlock(&store->lock); /* who replays reads the steps, and waits */
    for (int i = 0; i < 2; i++) {
        threads_in[i] = 0;
        assert_int_equal(pthread_create(&threads[i], NULL, fill, &answers[i]), 0);
        while (threads_in[i] == 0 || !sleeps(threads_in[i]))
            sched_yield();
    }
    assert_int_equal(looks, 1); /* the second waits for the first, not for the steps */
    pthread_rwlock_unlock(&store->lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(looks, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(answers[i].replay.steps, REPLAY_STEPS_MAX);
        bottlenecks_free(&answers[i]);
    }
}

/* While its last minute is replayed it ends: all of it is replayed then. */
static void who_asks_of_a_run_that_ends_meanwhile_gets_all_of_it(void **state)
{
    struct bottlenecks_answer answers[2];
    pthread_t threads[2];

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    for (int i = 0; i < 2; i++) {
        query(&answers[i]);
        process->state = PROCESS_ENDED;
    }
    assert_true(answers[0].head.live && !answers[1].head.live);
    looks = 0;
    pthread_rwlock_wrlock(&store->lock);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill, &answers[i]), 0);
    while (looks < 2)
        sched_yield();
    pthread_rwlock_unlock(&store->lock);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(answers[i].replay.steps, REPLAY_STEPS_MAX);
        bottlenecks_free(&answers[i]);
    }
    assert_int_equal(looks, 4);
}

static void *fill_run(void *answer)
{
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    replays_fill(replays, store, &whose, answer);
    return NULL;
}

/* Until all of it is replayed: what was told goes on to be. */
static void while_a_run_that_ended_is_replayed_its_last_minute_is_known(void **state)
{
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct bottlenecks_answer answer, known;
    pthread_t thread;

    (void)state;
    steps_with_a_kernel(0, 20, 2 * MS);
    (void)ask(whose.window, true);
    process->state = PROCESS_ENDED;
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &known), 0);
    looks = 0;
    pthread_rwlock_wrlock(&store->lock); /* who replays reads the steps, and waits */
    assert_int_equal(pthread_create(&thread, NULL, fill_run, &answer), 0);
    while (looks == 0)
        sched_yield();
    replays_known(replays, &whose, &known);
    pthread_rwlock_unlock(&store->lock);
    pthread_join(thread, NULL);
    assert_int_equal(known.replay.steps, REPLAY_STEPS_MAX);
    bottlenecks_free(&answer);
    bottlenecks_free(&known);
}

static void without_a_device_rules_ask_for_no_replay(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        kernel_step_put(process, 0,
                        kernel_step_named(process, "aten::mm", EVENT_CPU_OP, 0),
                        (const int64_t[2]){now, now + MS}, 0);
        kernel_step_put(process, 0,
                        EVENT_META(0, EVENT_STEP, EVENT_STEP_OPS, 0xf),
                        (const int64_t[2]){now, now + 2 * MS}, i | UINT64_C(1) << 48);
        now += 2 * MS;
    }
    assert_int_equal(ask(usual, true).steps, 0);
    assert_int_equal(ask(usual, false).steps, REPLAY_STEPS_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_running_job_is_replayed_again_in_half_a_minute),
        TEST(it_is_sooner_where_steps_have_become_others),
        TEST(it_is_sooner_where_few_steps_were_replayed),
        TEST(a_short_stretch_is_replayed_again_when_it_is_over),
        TEST(replaying_takes_no_more_than_a_hundredth_of_the_time),
        TEST(after_steps_that_were_too_few_it_rests_no_longer_than_otherwise),
        TEST(of_two_stretches_none_takes_the_time_of_the_other),
        TEST(of_a_run_that_ended_its_last_minute_is_known),
        TEST(the_usual_window_is_replayed_once_under_both_of_its_names),
        TEST(who_may_not_wait_is_told_what_is_known),
        TEST(of_two_who_ask_at_once_one_waits_for_the_other),
        TEST(who_asks_of_a_run_that_ends_meanwhile_gets_all_of_it),
        TEST(while_a_run_that_ended_is_replayed_its_last_minute_is_known),
        TEST(without_a_device_rules_ask_for_no_replay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
