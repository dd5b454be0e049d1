/* Every n-th step of a run is slow, n from 2 to 8: that is no warm-up, whatever the noise, where
 * the first of them lies, and what comes before. */
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

#define PERIOD_MOST 8u

static struct bottlenecks_answer answer;

/* Steps of 8 ms; every n-th takes `extra_ms` longer, the first `warm_up` ones ever less. */
struct run {
    uint32_t steps, period, at, warm_up;
    double extra_ms, noise; /* noise: deviation, as a share of each part */
};

static double noisy(struct job *job, double ms, double noise)
{
    return ms * (double)MS * (1 + noise * job_normal(job));
}

/* What the warm-up takes longer, in all. */
static double fold_run(const struct run *run, struct job *job)
{
    double warm_up = 0;

    for (uint32_t i = 0; i < run->steps; i++) {
        double ns = noisy(job, 8, run->noise), more = 0;

        if (run->period > 0 && i % run->period == run->at)
            ns += noisy(job, run->extra_ms, run->noise);
        if (i < run->warm_up)
            more = 600 * (double)MS / (1 + i);
        warm_up += more;
        fold_step(i, 1, MS / 2, (int64_t)fmax(ns + more, (double)MS));
    }
    return warm_up;
}

static const struct rhythm *look(const struct run *run, struct job *job,
                                 double *warm_up)
{
    struct selection whole = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    assert_int_equal(hand_begin(), 0);
    *warm_up = fold_run(run, job);
    assert_int_equal(
        bottlenecks_query(store, &whole, &(struct bottlenecks_request){0}, &answer), 0);
    return &answer.rhythm;
}

static void forget(void)
{
    bottlenecks_free(&answer);
    store_free(store);
}

/* Within a fifth. */
static bool is_near(double ns, double truth)
{
    return fabs(ns - truth) <= 0.2 * truth;
}

static void expect(const struct run *run, struct job *job)
{
    double first, places = floor((run->steps - 1 - run->at) / (double)run->period) + 1;
    const struct rhythm *rhythm = look(run, job, &first);
    double truth = run->extra_ms * (double)MS / run->period;
    bool warm = run->warm_up > 0
                    ? rhythm->warm_up.steps > 0 &&
                          is_near(rhythm->warm_up.ns_per_step * run->steps, first)
                    : rhythm->warm_up.ns_per_step < 0.01 * answer.steps.train.mean_ns;

    if (rhythm->period_steps != run->period || !warm ||
        !is_near(rhythm->period.ns_per_step, truth) ||
        rhythm->period.part != EVENT_PHASE_FORWARD)
        fail_msg("%u steps, every %u. from %u, warm-up of %u, noise %g, %g ms: found "
                 "every %u., %g ms (%g), warm-up %u steps %g ms (%g); %g places",
                 run->steps, run->period, run->at, run->warm_up, run->noise,
                 run->extra_ms, rhythm->period_steps, rhythm->period.ns_per_step / 1e6,
                 truth / 1e6, rhythm->warm_up.steps,
                 rhythm->warm_up.ns_per_step * run->steps / 1e6, first / 1e6, places);
    forget();
}

/* Three periods, or four: as many as a file holds. */
static void slow_steps_at_a_short_period_are_a_rhythm_and_no_warm_up(void **state)
{
    static const uint32_t counts[] = {24, 25, 40, 61, 200};
    static const double noises[] = {0, 0.03, 0.1};
    struct job job = {.random = 3};

    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (uint32_t period = 2; period <= PERIOD_MOST; period++)
            for (uint32_t at = 0; at < period; at++)
                for (size_t n = 0; n < sizeof(noises) / sizeof(noises[0]); n++)
                    expect(&(struct run){.steps = counts[c],
                                         .period = period,
                                         .at = at,
                                         .extra_ms = 56,
                                         .noise = noises[n]},
                           &job);
}

static void a_rhythm_of_half_a_step_is_one_too(void **state)
{
    struct job job = {.random = 5};

    (void)state;
    for (uint32_t period = 2; period <= PERIOD_MOST; period++)
        for (uint32_t at = 0; at < period; at++)
            expect(&(struct run){.steps = 120,
                                 .period = period,
                                 .at = at,
                                 .extra_ms = 6,
                                 .noise = 0.05},
                   &job);
}

static void a_warm_up_before_a_rhythm_is_told_beside_it(void **state)
{
    struct job job = {.random = 7};

    (void)state;
    for (uint32_t warm_up = 1; warm_up <= 9; warm_up += 2)
        for (uint32_t period = 2; period <= PERIOD_MOST; period++)
            for (uint32_t at = 0; at < period; at++)
                expect(&(struct run){.steps = 120,
                                     .period = period,
                                     .at = at,
                                     .warm_up = warm_up,
                                     .extra_ms = 40,
                                     .noise = 0.05},
                       &job);
}

static void a_warm_up_without_a_rhythm_is_one_alone(void **state)
{
    struct job job = {.random = 9};
    double first;

    (void)state;
    for (uint32_t warm_up = 1; warm_up <= 9; warm_up++) {
        struct run run = {.steps = 60, .warm_up = warm_up, .noise = 0.1};
        const struct rhythm *rhythm = look(&run, &job, &first);

        assert_int_equal(rhythm->period_steps, 0);
        assert_true(is_near(rhythm->warm_up.ns_per_step * run.steps, first));
        forget();
    }
}

/* Slow ones at random, as many later as at first: nothing warms up. */
static void slow_first_steps_that_come_again_are_no_warm_up(void **state)
{
    struct selection whole = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct job job = {.random = 11};

    (void)state;
    assert_int_equal(hand_begin(), 0);
    for (uint32_t i = 0; i < 60; i++)
        fold_step(i, 1, 0,
                  (int64_t)noisy(&job, i == 0 || i == 3 || i == 31 || i == 50 ? 60 : 8,
                                 0.05));
    assert_int_equal(
        bottlenecks_query(store, &whole, &(struct bottlenecks_request){0}, &answer), 0);
    assert_int_equal(answer.rhythm.warm_up.steps, 0);
    assert_int_equal(answer.rhythm.period_steps, 0);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_steps_at_a_short_period_are_a_rhythm_and_no_warm_up),
        cmocka_unit_test(a_rhythm_of_half_a_step_is_one_too),
        cmocka_unit_test(a_warm_up_before_a_rhythm_is_told_beside_it),
        cmocka_unit_test(a_warm_up_without_a_rhythm_is_one_alone),
        cmocka_unit_test(slow_first_steps_that_come_again_are_no_warm_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
