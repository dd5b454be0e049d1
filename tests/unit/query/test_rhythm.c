/* Steps folded by hand: which of their extra time is found, and under which cause. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "query/bottlenecks_query.h"
#include "unit/hand.h"
#include "unit/simulated_job.h"

static struct bottlenecks_answer answer;
static uint32_t noise;

static int begin(void **state)
{
    (void)state;
    noise = 1;
    return hand_begin();
}

static int end(void **state)
{
    (void)state;
    bottlenecks_free(&answer);
    store_free(store);
    return 0;
}

/* -0.5 to 0.5 ms, the same in every run. */
static int64_t jitter(void)
{
    noise = noise * 1664525u + 1013904223u;
    return (int64_t)(noise >> 8) * MS / (1 << 24) - MS / 2;
}

/* A step of 10 ms: 1 ms of data, then forward; `data` and `forward` come on top. */
static void step(uint64_t number, uint64_t epoch, int64_t data, int64_t forward)
{
    fold_step(number, epoch, MS + data, 9 * MS + forward + jitter());
}

static const struct rhythm *look(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    return &answer.rhythm;
}

static bool near_ms(double ns, double ms)
{
    return fabs(ns - ms * (double)MS) < 0.1 * (double)MS + 0.02 * ms * (double)MS;
}

static void steady_steps_have_no_extra_time(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400; i++)
        step(100 + i, 1 + i / 50, 0, 0);
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->steps, 400);
    assert_int_equal(rhythm->gc.steps + rhythm->warm_up.steps + rhythm->period.steps +
                         rhythm->drift.steps,
                     0);
    assert_true(rhythm->epoch.ns_per_step < 0.02 * (double)MS);
    assert_true(near_ms(rhythm->rest.ns_per_step, 0));
}

/* A step whose forward and backward grow with the length of its text; `pause` comes on top of
 * forward. */
static void text_step(uint64_t number, double length, int64_t pause)
{
    int64_t forward = (int64_t)((1 + 3 * length) * (double)MS) + pause + jitter() / 4;
    int64_t backward = (int64_t)(6 * length * (double)MS) + jitter() / 4;
    int64_t start = now;

    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_FORWARD), now, forward, 0);
    now += forward;
    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_BACKWARD), now, backward, 0);
    now += backward;
    fold(EVENT_META(0, EVENT_STEP, 0, 0xf), start, now - start,
         number | (uint64_t)1 << 48);
}

/* Lognormal, sigma 0.5: the mean is 13 % over the median. */
static double drawn_length(struct job *job)
{
    return exp(0.5 * job_normal(job));
}

static void
what_forward_and_backward_grow_by_alike_is_the_size_of_the_batch(void **state)
{
    struct job job = {.random = 1};

    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        text_step(100 + i, drawn_length(&job), 0);
    const struct rhythm *rhythm = look();

    assert_true(answer.steps.train.mean_ns - answer.steps.train.p50_ns > 0.9 * MS);
    assert_true(rhythm->sizes.ns_per_step > 0.9 * MS);
    assert_true(fabs(rhythm->rest.ns_per_step) < 0.1 * MS);
    assert_int_equal(rhythm->period_steps, 0);
}

static void a_pause_in_one_phase_stays_one_among_batches_of_different_size(void **state)
{
    struct job job = {.random = 2};

    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        text_step(100 + i, drawn_length(&job), job_uniform(&job) < 0.1 ? 40 * MS : 0);
    const struct rhythm *rhythm = look();

    assert_true(fabs(rhythm->rest.ns_per_step - 4 * MS) < 0.8 * MS);
    assert_int_equal(rhythm->rest.part, EVENT_PHASE_FORWARD);
}

static void too_few_steps_have_no_rhythm(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 19; i++)
        step(100 + i, 1, 0, i % 4 == 0 ? 50 * MS : 0);
    assert_int_equal(look()->steps, 0);
}

static void a_period_is_found_among_strangers(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++)
        step(100 + i, 1, 0, i % 50 == 10 ? 40 * MS : i == 77 || i == 130 ? 30 * MS : 0);
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->period_steps, 50);
    assert_int_equal(rhythm->period.steps, 6);
    assert_int_equal(rhythm->period.part, EVENT_PHASE_FORWARD);
    assert_true(near_ms(rhythm->period.ns_per_step, 40.0 * 6 / 300));
    assert_true(near_ms(rhythm->rest.ns_per_step, 30.0 * 2 / 300));
}

static void longer_hiccups_do_not_hide_a_period(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        bool hiccup = i == 77 || i == 333 || i == 334 || i == 580 || i == 911;

        step(100 + i, 1, i % 50 == 10 ? 40 * MS : 0, hiccup ? 250 * MS : 0);
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->period_steps, 50);
    assert_int_equal(rhythm->period.steps, 20);
    assert_int_equal(rhythm->period.part, EVENT_PHASE_DATA);
    assert_true(near_ms(rhythm->period.ns_per_step, 40.0 * 20 / 1000));
    assert_true(near_ms(rhythm->rest.ns_per_step, 250.0 * 5 / 1000));
}

/* Each size has many: among all of them a period would be found by chance, if anywhere. */
static void slow_steps_of_all_sizes_have_no_period(void **state)
{
    (void)state;
    uint32_t random = 7;

    for (uint64_t i = 0; i < 2000; i++) {
        random = random * 1664525u + 1013904223u;
        uint32_t drawn = random >> 16;
        int64_t size = drawn % 8 == 0 ? (int64_t)(4u << (drawn >> 4) % 7) * MS : 0;

        step(100 + i, 1, 0, size);
    }
    assert_int_equal(look()->period_steps, 0);
}

/* One step in twelve of a crowded machine takes half as long again. */
static void a_machines_hiccups_seldom_have_a_period(void **state)
{
    uint32_t random = 11, found = 0;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 100}};

    (void)state;
    for (uint64_t i = 0; i < 50000; i++) {
        random = random * 1664525u + 1013904223u;
        step(100 + i, 1, 0, (random >> 16) % 12 == 0 ? 5 * MS + jitter() : 0);
        if (i % 100 != 99)
            continue;
        assert_int_equal(
            bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer),
            0);
        found += answer.rhythm.period_steps > 0;
        bottlenecks_free(&answer);
    }
    memset(&answer, 0, sizeof(answer));
    assert_true(found <= 2);
}

static void slow_steps_at_random_distances_have_no_period(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++)
        step(100 + i, 1, 0,
             i == 3 || i == 40 || i == 96 || i == 170 || i == 181 || i == 260 ? 40 * MS
                                                                              : 0);
    assert_int_equal(look()->period_steps, 0);
    assert_true(near_ms(answer.rhythm.rest.ns_per_step, 40.0 * 6 / 300));
}

/* What the keeper asks once a second. */
static const struct rhythm *look_live(void)
{
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_NS, .a = 60 * S}};

    bottlenecks_free(&answer);
    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    return &answer.rhythm;
}

/* Steps of 100 ms; a pause takes 2 s. */
static void slow_job(uint64_t number, bool pause)
{
    fold_step(number, 1, 0, 100 * MS + jitter() + (pause ? 2000 * MS : 0));
}

static void a_pause_in_every_200th_step_is_a_period_once_three_were_seen(void **state)
{
    (void)state;
    uint64_t i = 1000;

    for (; i < 1000 + 2 * 200; i++)
        slow_job(i, i % 200 == 150);
    assert_int_equal(look_live()->period_steps, 0);
    /* From then on it stands, wherever the window lies. */
    for (; i < 5000; i++) {
        slow_job(i, i % 200 == 150);
        if (i < 1551 || i % 10 != 0)
            continue;
        const struct rhythm *rhythm = look_live();

        assert_int_equal(rhythm->period_steps, 200);
        assert_false(rhythm->period_is_rough);
        assert_int_equal(rhythm->period.part, EVENT_PHASE_FORWARD);
        assert_true(near_ms(rhythm->period.ns_per_step, 2000.0 / 200));
        assert_true(rhythm->period.error_ns < 0.1 * rhythm->period.ns_per_step);
        assert_true(rhythm->rest.ns_per_step < 0.5 * (double)MS);
    }
}

/* So does who saves by the clock: at the end of the step in which the minute is over. */
static void a_checkpoint_each_minute_is_seen_beyond_the_window(void **state)
{
    (void)state;
    int64_t saved = 0;

    for (uint64_t i = 1000; i < 4000; i++) {
        bool pause = now - saved > 60 * S;

        if (pause)
            saved = now;
        slow_job(i, pause);
    }
    const struct rhythm *rhythm = look_live();

    assert_true(rhythm->period_is_rough);
    assert_true(rhythm->period_steps >= 575 && rhythm->period_steps <= 590);
    assert_true(near_ms(rhythm->period.ns_per_step, 2000.0 / rhythm->period_steps));
    assert_true(rhythm->period.steps >= 4);
}

static void pauses_at_no_fixed_distance_are_no_period(void **state)
{
    (void)state;
    for (uint64_t i = 1000; i < 3000; i++)
        slow_job(i, i == 1210 || i == 1430 || i == 1900 || i == 2350 || i == 2950);
    assert_int_equal(look_live()->period_steps, 0);
}

static void pauses_that_stopped_long_ago_are_no_period(void **state)
{
    (void)state;
    for (uint64_t i = 1000; i < 2000; i++)
        slow_job(i, i % 200 == 150);
    assert_int_equal(look_live()->period_steps, 200);
    for (uint64_t i = 2000; i < 2600; i++)
        slow_job(i, false);
    assert_int_equal(look_live()->period_steps, 0);
}

static void late_first_batches_are_the_epochs(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        step(100 + i, 1 + (i + 5) / 20, i % 20 == 15 ? 30 * MS : 0, 0);
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->epoch.steps, 10);
    assert_true(rhythm->steps_per_epoch == 20);
    assert_true(near_ms(rhythm->epoch.ns_per_step, 1.5));
    assert_int_equal(rhythm->period_steps, 0); /* it is told once */
}

/* New workers: what they share with the trainer is copied when it writes there. */
static void what_a_late_batch_makes_slow_after_it_is_the_epochs_too(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        bool first = i % 20 == 15;

        step(100 + i, 1 + (i + 5) / 20, first ? 30 * MS : 0, first ? 10 * MS : 0);
    }
    assert_true(near_ms(look()->epoch.ns_per_step, 2));
}

/* Two workers start at once: each of the first steps waits for one of them. */
static void all_of_an_epochs_slow_beginning_is_its_price(void **state)
{
    static const int64_t late[] = {30 * MS, 12 * MS, 0, 8 * MS}; /* no beginning's is 8 */

    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t place = (i + 5) % 20;

        step(100 + i, 1 + (i + 5) / 20, place < 4 ? late[place] : 0,
             place == 1 ? 6 * MS : 0);
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->epoch.steps, 20);
    assert_true(near_ms(rhythm->epoch.ns_per_step, 48.0 / 20));
    assert_true(near_ms(rhythm->epoch.data_ns, 42.0 / 20));
}

static void a_first_step_that_is_slow_for_itself_is_not_late_for_all_of_it(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        bool first = i % 20 == 15;

        step(100 + i, 1 + (i + 5) / 20, first ? 3 * MS : 0, first ? 50 * MS : 0);
    }
    assert_true(near_ms(look()->epoch.ns_per_step, 0.3));
}

/* Two epochs of seven begin late: those are no epochs, and their time is left to others. */
static void late_batches_of_a_few_epochs_are_left_to_other_causes(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 160; i++)
        step(100 + i, 1 + i / 20, i == 40 || i == 120 ? 60 * MS : 0, 0);
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->epoch.steps, 0);
    assert_true(near_ms(rhythm->rest.ns_per_step, 60.0 * 2 / 160));
}

/* Forty epochs that begin well, and then four late ones: they are told, and cost the window
 * what they are of it. */
static void epochs_that_begin_late_only_now_are_told_all_the_same(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 880; i++)
        step(100 + i, 1 + i / 20, i >= 800 && i % 20 == 0 ? 60 * MS : 0, 0);
    const struct rhythm *rhythm = look();

    assert_true(rhythm->epoch.steps >= 4);
    assert_true(rhythm->epoch.ns_per_step > 0.8 * 60.0 * 4 / 880 * (double)MS);
    assert_true(rhythm->epoch.ns_per_step < 1.5 * 60.0 * 4 / 880 * (double)MS);
    assert_true(rhythm->steps_per_epoch == 20);
}

/* torch.profiler makes ten steps longer; their places are known all the same. */
static void steps_of_a_deep_window_are_in_no_rhythm(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        bool deep = i >= 123 && i < 133;
        int64_t data = MS, forward = 9 * MS + jitter();

        forward += i % 50 == 10 ? 40 * MS : deep ? 35 * MS : 0;
        int64_t start = now;

        now = start + data + forward;
        fold(EVENT_META(0, EVENT_STEP, deep ? EVENT_STEP_WINDOW : 0, 0), start,
             now - start, 100 + i);
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->steps, 290);
    assert_int_equal(rhythm->period_steps, 50);
    assert_int_equal(rhythm->period.steps, 6);
    assert_true(near_ms(rhythm->rest.ns_per_step, 0));
}

static void slow_first_steps_are_those_of_the_run_alone(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        step(i, 1, 0, i < 6 ? 50 * MS : 0);
    assert_int_equal(look()->warm_up.steps, 6);
    assert_true(near_ms(answer.rhythm.warm_up.ns_per_step, 3));
}

static void the_same_later_is_no_warm_up(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        step(1000 + i, 1, 0, i < 6 ? 50 * MS : 0);
    assert_int_equal(look()->warm_up.steps, 0);
}

static void collections_count_in_the_step_that_holds_them(void **state)
{
    (void)state;
    /* One before the first step: importing made it. */
    fold(EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0), 0, 500 * MS, 2);
    now = 600 * MS;
    for (uint64_t i = 0; i < 100; i++) {
        if (i % 10 == 5)
            fold(EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0), now + 2 * MS, 20 * MS, 2);
        step(i, 1, 0, i % 10 == 5 ? 20 * MS : 0);
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->gc.steps, 10);
    assert_true(near_ms(rhythm->gc.ns_per_step, 2));
    assert_true(near_ms(rhythm->gc.longer_ns, 2));
    assert_int_equal(rhythm->period_steps, 0);
}

/* Its host was far ahead of a device. */
static void steps_are_no_longer_for_collections_that_something_hides(void **state)
{
    (void)state;
    now = 600 * MS;
    for (uint64_t i = 0; i < 100; i++) {
        if (i % 10 == 5)
            fold(EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0), now + 2 * MS, 20 * MS, 2);
        step(i, 1, 0, i == 45 ? 2 * S : 30 * MS); /* with a checkpoint as well */
    }
    const struct rhythm *rhythm = look();

    assert_true(near_ms(rhythm->gc.ns_per_step, 2));
    assert_true(rhythm->gc.longer_ns < 0.3 * MS);
}

static void collections_of_each_step_lie_in_the_part_that_can_hold_them(void **state)
{
    (void)state;
    now = 600 * MS;
    for (uint64_t i = 0; i < 100; i++) {
        fold(EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0), now + 12 * MS, 20 * MS, 2);
        step(i, 1, i % 3 == 0 ? 8 * MS : 0,
             20 * MS); /* batches are late now and then */
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->gc.steps, 100);
    assert_int_equal(rhythm->gc.part, EVENT_PHASE_FORWARD);
}

static void what_is_left_says_how_much_of_it_is_data(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        bool late = i == 7 || i == 61 || i == 90 || i == 171 || i == 302 || i == 333;
        bool slow = i == 20 || i == 130 || i == 251;

        step(100 + i, 1, late ? 40 * MS : 0, slow ? 30 * MS : 0);
    }
    const struct rhythm *rhythm = look();

    assert_int_equal(rhythm->rest.part, EVENT_PHASE_DATA);
    assert_true(near_ms(rhythm->rest.ns_per_step, (6 * 40.0 + 3 * 30.0) / 400));
    assert_true(near_ms(rhythm->rest.data_ns, 6 * 40.0 / 400));
}

static void steps_that_grow_have_a_trend(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        step(100 + i, 1, 0, (int64_t)i * MS / 20);
    const struct rhythm *rhythm = look();

    assert_true(near_ms(rhythm->drift.ns_per_step, 5));
    assert_true(near_ms(rhythm->first_ns, 10) && near_ms(rhythm->last_ns, 20));
    assert_int_equal(rhythm->drift.part, EVENT_PHASE_FORWARD);
}

/* Of 2,000 steps the newest 250 become slower and slower. */
static void a_steep_trend_is_found_where_only_the_newest_steps_have_it(void **state)
{
    double truth = 0;

    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        int64_t more = i < 1750 ? 0 : (int64_t)(i - 1750) * MS / 5;

        truth += (double)more / 2000;
        step(100 + i, 1, 0, more);
    }
    const struct rhythm *rhythm = look();

    assert_true(rhythm->drift.steps >= 125 && rhythm->drift.steps <= 250);
    assert_true(rhythm->drift.ns_per_step > 0.6 * truth &&
                rhythm->drift.ns_per_step < 1.1 * truth);
    assert_true(near_ms(rhythm->last_ns, 60));
    assert_int_equal(rhythm->drift.part, EVENT_PHASE_FORWARD);
    assert_true(rhythm->rest.ns_per_step < 0.3 * truth); /* it is told once */
}

/* The newest 125 steps, of which 80 rise, are less than two seconds. */
static void a_moment_of_short_steps_is_no_trend(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        step(100 + i, 1, 0, i < 1920 ? 0 : (int64_t)(i - 1920) * MS / 5);
    assert_int_equal(look()->drift.steps, 0);
}

static void steps_that_are_slow_from_some_step_on_have_no_trend(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++)
        step(100 + i, 1, 0, i < 1900 ? 0 : 10 * MS);
    assert_int_equal(look()->drift.steps, 0);
}

/* Each step is slower than the one before by 0.05 ms, but in waves of 20 steps. */
static void a_trend_has_an_interval_that_noise_makes_wider(void **state)
{
    double errors[2];

    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        step(100 + i, 1, 0, (int64_t)i * MS / 20);
    errors[0] = look()->drift.error_ns;
    bottlenecks_free(&answer);
    for (uint64_t i = 0; i < 200; i++)
        step(300 + i, 1, 0, (int64_t)i * MS / 20 + (i / 10 % 2 ? 2 * MS : 0));
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 200}};

    assert_int_equal(
        bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer), 0);
    errors[1] = answer.rhythm.drift.error_ns;
    assert_true(near_ms(answer.rhythm.drift.ns_per_step, 5));
    assert_true(errors[0] > 0 && errors[0] < 0.3 * (double)MS);
    assert_true(errors[1] > 3 * errors[0] && errors[1] < 3 * (double)MS);
}

/* What it walks over grows in a curve, and caches help it for a while. */
static void a_trend_that_bends_is_one(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        double at = (double)i / 100, bend = sin(6.28 * at) + 3 * at * at;

        step(100 + i, 1, 0, (int64_t)((7 * at + bend) * (double)MS));
    }
    const struct rhythm *rhythm = look();

    double off = fabs(rhythm->drift.ns_per_step - 4.5 * (double)MS); /* their mean */

    assert_true(off < rhythm->drift.error_ns);
    assert_true(rhythm->drift.error_ns < 2.5 * (double)MS);
}

/* A machine with other guests: the level walks at random, and no farther than 4 ms. It
 * rises through some of a hundred windows all the same; a test that takes neighbours for
 * independent finds eight. */
static void a_level_that_wanders_seldom_has_a_trend(void **state)
{
    int64_t level = 0;
    uint32_t found = 0;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_LAST_STEPS, .a = 60}};

    (void)state;
    for (uint64_t i = 0; i < 6000; i++) {
        level += 2 * jitter();
        level = level > 4 * MS ? 4 * MS : level < -4 * MS ? -4 * MS : level;
        step(100 + i, 1, 0, level);
        if (i % 60 != 59)
            continue;
        assert_int_equal(
            bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &answer),
            0);
        double least = answer.rhythm.drift.ns_per_step - answer.rhythm.drift.error_ns;

        found += least > 0.05 * answer.steps.train.mean_ns;
        bottlenecks_free(&answer);
    }
    memset(&answer, 0, sizeof(answer));
    assert_true(found <= 2);
}

static void a_level_that_comes_and_goes_is_no_trend(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        step(100 + i, 1, 0, i >= 60 && i < 140 ? 10 * MS : 0);
    assert_int_equal(look()->drift.steps, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steady_steps_have_no_extra_time),
        TEST(what_forward_and_backward_grow_by_alike_is_the_size_of_the_batch),
        TEST(a_pause_in_one_phase_stays_one_among_batches_of_different_size),
        TEST(too_few_steps_have_no_rhythm),
        TEST(a_period_is_found_among_strangers),
        TEST(longer_hiccups_do_not_hide_a_period),
        TEST(slow_steps_of_all_sizes_have_no_period),
        TEST(a_machines_hiccups_seldom_have_a_period),
        TEST(slow_steps_at_random_distances_have_no_period),
        TEST(late_first_batches_are_the_epochs),
        TEST(what_a_late_batch_makes_slow_after_it_is_the_epochs_too),
        TEST(all_of_an_epochs_slow_beginning_is_its_price),
        TEST(a_first_step_that_is_slow_for_itself_is_not_late_for_all_of_it),
        TEST(a_pause_in_every_200th_step_is_a_period_once_three_were_seen),
        TEST(a_checkpoint_each_minute_is_seen_beyond_the_window),
        TEST(pauses_at_no_fixed_distance_are_no_period),
        TEST(pauses_that_stopped_long_ago_are_no_period),
        TEST(late_batches_of_a_few_epochs_are_left_to_other_causes),
        TEST(epochs_that_begin_late_only_now_are_told_all_the_same),
        TEST(steps_of_a_deep_window_are_in_no_rhythm),
        TEST(slow_first_steps_are_those_of_the_run_alone),
        TEST(the_same_later_is_no_warm_up),
        TEST(collections_count_in_the_step_that_holds_them),
        TEST(steps_are_no_longer_for_collections_that_something_hides),
        TEST(collections_of_each_step_lie_in_the_part_that_can_hold_them),
        TEST(what_is_left_says_how_much_of_it_is_data),
        TEST(steps_that_grow_have_a_trend),
        TEST(a_trend_that_bends_is_one),
        TEST(a_steep_trend_is_found_where_only_the_newest_steps_have_it),
        TEST(a_moment_of_short_steps_is_no_trend),
        TEST(steps_that_are_slow_from_some_step_on_have_no_trend),
        TEST(a_trend_has_an_interval_that_noise_makes_wider),
        TEST(a_level_that_wanders_seldom_has_a_trend),
        TEST(a_level_that_comes_and_goes_is_no_trend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
