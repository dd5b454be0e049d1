/* The interval against jobs whose truth is known: thousands of simulated runs, with
 * fixed seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "probe/budget/experiment.h"
#include "unit/simulated_job.h"

#define EFFECT_NS 20e3 /* 2 % of a step */

struct trial {
    struct job job;
    uint64_t seed; /* of the draw */
    uint64_t steps;
    unsigned rate;
    double carry_ns;     /* what a recorded step costs the step after it */
    uint64_t stop_after; /* detail costs nothing from this step on; 0: never */
};

struct tally {
    double known, covered, bias_ns, squares, half_width_ns, pairs;
};

/* One job from its first step to its last, folded into the experiment as the governor
 * does it. */
static void trial_run(struct trial *trial, struct experiment_result *result)
{
    struct experiment experiment;
    double sum_ns = 0;
    bool before = false;

    experiment_init(&experiment);
    for (uint64_t step = 0; step < trial->steps; step++) {
        uint64_t block = step / DRAW_BLOCK_STEPS, position = step % DRAW_BLOCK_STEPS;
        enum draw_arm arm = draw_arm(trial->seed, block, trial->rate);
        bool recorded = arm == DRAW_RECORDED;
        bool stopped = trial->stop_after > 0 && step >= trial->stop_after;
        double step_ns = JOB_STEP_NS * job_relative(&trial->job, step) +
                         (recorded && !stopped ? EFFECT_NS : 0) +
                         (before && !stopped ? trial->carry_ns : 0);

        before = recorded;
        sum_ns += position > 0 ? step_ns : 0;
        if (position < DRAW_BLOCK_STEPS - 1)
            continue;
        if (draw_control_share(block) > 0)
            experiment_add(&experiment, &(struct experiment_unit){
                                            .arm = arm,
                                            .step_ns = sum_ns / (DRAW_BLOCK_STEPS - 1),
                                            .predicted_ns = 1000});
        sum_ns = 0;
    }
    experiment_result(&experiment, result);
}

static struct tally trials_run(const struct trial *of, unsigned runs, double truth_ns)
{
    struct tally tally = {.known = 0};

    for (unsigned run = 0; run < runs; run++) {
        struct trial trial = *of;
        struct experiment_result result;

        trial.job.random = run * UINT64_C(1000003) + (uint64_t)of->job.kind + 17;
        trial.seed = trial.job.random ^ UINT64_C(0xabcdef12345);
        trial_run(&trial, &result);
        if (!result.known)
            continue;

        double miss_ns = result.effect_ns - truth_ns;

        tally.known++;
        tally.covered += result.low_ns <= truth_ns && truth_ns <= result.high_ns;
        tally.bias_ns += miss_ns;
        tally.squares += miss_ns * miss_ns;
        tally.half_width_ns += (result.high_ns - result.low_ns) / 2;
        tally.pairs += result.pairs;
    }
    tally.covered /= tally.known;
    tally.bias_ns /= tally.known;
    tally.half_width_ns /= tally.known;
    tally.pairs /= tally.known;
    tally.squares /= tally.known;
    return tally;
}

/* Standard error of the mean miss. */
static double bias_error_ns(const struct tally *tally)
{
    return sqrt(tally->squares / tally->known);
}

static void assert_calibrated(const struct trial *trial, unsigned runs)
{
    struct tally tally = trials_run(trial, runs, EFFECT_NS);

    print_message("job %2d rate 1/%-3u %5.0f pairs  covered %.3f  bias %+.3f %%  "
                  "half width %.2f %% of a step\n",
                  (int)trial->job.kind, 1u << trial->rate, tally.pairs, tally.covered,
                  100 * tally.bias_ns / JOB_STEP_NS,
                  100 * tally.half_width_ns / JOB_STEP_NS);
    assert_true(tally.known >= 0.99 * runs);
    assert_true(tally.covered >= 0.93 && tally.covered <= 0.97);
    assert_true(fabs(tally.bias_ns) <= 3.3 * bias_error_ns(&tally));
}

static void the_interval_covers_the_truth_in_95_of_100_jobs(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        assert_calibrated(
            &(struct trial){.job = {.kind = (enum job_kind)kind}, .steps = 2200}, 1000);
}

static void the_interval_holds_at_low_rates(void **state)
{
    (void)state;
    static const enum job_kind kinds[] = {JOB_NORMAL, JOB_LOG_NORMAL, JOB_STALLS,
                                          JOB_PERIOD_50, JOB_DRIFT};

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        assert_calibrated(
            &(struct trial){.job = {.kind = kinds[i]}, .steps = 3000, .rate = 4}, 800);
}

static void the_interval_holds_when_batches_have_been_folded(void **state)
{
    (void)state;
    static const enum job_kind kinds[] = {JOB_NORMAL, JOB_PERIODS};

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        assert_calibrated(&(struct trial){.job = {.kind = kinds[i]}, .steps = 17000},
                          600);
}

static void without_a_cost_no_cost_is_found(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < JOB_KINDS; kind++) {
        struct trial trial = {
            .job = {.kind = (enum job_kind)kind}, .steps = 3000, .stop_after = 1};
        struct tally tally = trials_run(&trial, 300, 0);

        assert_true(fabs(tally.bias_ns) <= 3.3 * bias_error_ns(&tally));
        assert_true(tally.covered >= 0.925);
    }
}

static void what_a_step_costs_the_next_one_is_counted(void **state)
{
    (void)state;
    for (unsigned rate = 0; rate <= 4; rate += 2) {
        struct trial trial = {.steps = 4000, .rate = rate, .carry_ns = EFFECT_NS / 2};
        struct tally tally = trials_run(&trial, 400, 1.5 * EFFECT_NS);

        assert_true(fabs(tally.bias_ns) <= 3.3 * bias_error_ns(&tally));
    }
}

/* The table in experiment.h. */
static void
the_stated_number_of_pairs_narrows_the_interval_to_one_per_cent(void **state)
{
    (void)state;
    static const struct {
        double spread;
        uint64_t steps;
        double pairs;
        unsigned runs;
    } rows[] = {{0.03, 460, 37, 300}, {0.05, 1550, 102, 300}, {0.1, 37000, 410, 20}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct trial trial = {.job = {.spread = rows[i].spread},
                              .steps = rows[i].steps};
        struct tally tally = trials_run(&trial, rows[i].runs, EFFECT_NS);

        assert_true(tally.half_width_ns < 0.0115 * JOB_STEP_NS);
        assert_true(fabs(tally.pairs / rows[i].pairs - 1) < 0.15);
    }
}

static void the_pairs_needed_are_foretold(void **state)
{
    (void)state;
    struct trial trial = {.steps = 2000};
    struct experiment_result early, late;

    trial.job.random = 5;
    trial_run(&trial, &early);
    double half_width_ns = 0.004 * JOB_STEP_NS;
    double needed = experiment_pairs_needed(&early, half_width_ns);
    assert_true(needed > early.pairs);

    trial = (struct trial){.steps = 60000};
    trial.job.random = 6;
    trial_run(&trial, &late);
    double reached_ns = (late.high_ns - late.low_ns) / 2;
    double ratio = late.pairs / needed * (reached_ns / half_width_ns) *
                   (reached_ns / half_width_ns);
    assert_true(ratio > 0.7 && ratio < 1.4);
}

static void a_job_that_changes_is_followed(void **state)
{
    (void)state;
    struct trial trial = {.steps = 4000000, .stop_after = 100000};
    struct experiment_result result;

    trial.job.random = 9;
    trial_run(&trial, &result);
    assert_true(result.effect_ns < 0.45 * EFFECT_NS);
}

static void too_few_pairs_give_no_interval(void **state)
{
    (void)state;
    struct experiment experiment;
    struct experiment_result result;

    experiment_init(&experiment);
    for (unsigned pairs = 0; pairs < EXPERIMENT_PAIRS_MIN;
         pairs = (unsigned)experiment.pairs) {
        experiment_result(&experiment, &result);
        assert_false(result.known);
        assert_true(experiment_pairs_needed(&result, 1) <= 0);
        experiment_add(&experiment,
                       &(struct experiment_unit){.arm = DRAW_RECORDED, .step_ns = 105});
        experiment_add(&experiment,
                       &(struct experiment_unit){.arm = DRAW_CONTROL, .step_ns = 100});
    }
    experiment_result(&experiment, &result);
    assert_true(result.known);
    assert_true(fabs(result.effect_ns - 5) < 1e-9);
    assert_true(result.low_ns <= 5 && result.high_ns >= 5);
}

static void identical_steps_leave_a_finite_interval(void **state)
{
    (void)state;
    struct experiment experiment;
    struct experiment_result result;

    experiment_init(&experiment);
    for (unsigned i = 0; i < 4000; i++)
        experiment_add(&experiment, &(struct experiment_unit){
                                        .arm = i % 2 ? DRAW_RECORDED : DRAW_CONTROL,
                                        .step_ns = 1e6});
    experiment_result(&experiment, &result);
    assert_true(result.known);
    assert_true(fabs(result.effect_ns) < 1e-6);
    assert_true(result.high_ns > 0 && result.high_ns < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_covers_the_truth_in_95_of_100_jobs),
        cmocka_unit_test(the_interval_holds_at_low_rates),
        cmocka_unit_test(the_interval_holds_when_batches_have_been_folded),
        cmocka_unit_test(without_a_cost_no_cost_is_found),
        cmocka_unit_test(what_a_step_costs_the_next_one_is_counted),
        cmocka_unit_test(
            the_stated_number_of_pairs_narrows_the_interval_to_one_per_cent),
        cmocka_unit_test(the_pairs_needed_are_foretold),
        cmocka_unit_test(a_job_that_changes_is_followed),
        cmocka_unit_test(too_few_pairs_give_no_interval),
        cmocka_unit_test(identical_steps_leave_a_finite_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
