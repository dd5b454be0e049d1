/* The budget in closed loop: simulated jobs whose true cost the governor cannot see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "probe/budget/governor.h"
#include "unit/simulated_job.h"

#define DETAIL  ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))
#define CARRIED ((uint32_t)(RECORDING_PHASES | RECORDING_MEMORY))

struct run {
    struct job job;
    struct governor governor;
    double step_ns;              /* an ordinary step without us */
    double detail_ns;            /* calibrated cost of a recorded one */
    double factor;               /* what it really costs over that */
    double carried_factor;       /* likewise, of what ordinary steps carry; 0: 1 */
    double phases_ns, memory_ns; /* of what ordinary steps carry, calibrated */
    double late[16];             /* detail of the steps before, which comes then; */
    unsigned late_steps;         /* so many later */
    uint64_t number;             /* of the next step */
    /* Over the last run_steps(). */
    double base_ns, cost_ns, steps, recorded, tagged, control, phases, memory;
    unsigned rate_changes;
};

static void run_open(struct run *run, double budget)
{
    governor_init(&run->governor,
                  &(struct governor_options){.budget = budget, .seed = 42});
    governor_set_sources(&run->governor, EVENT_STEP_OPS);
}

static uint32_t run_step(struct run *run)
{
    unsigned rate = run->governor.rate;
    uint32_t flags = governor_next(&run->governor, run->number);
    bool recorded = (flags & DETAIL) != 0;
    double base_ns = run->step_ns * job_relative(&run->job, run->number);
    struct governor_step step = {
        .number = run->number++,
        .flags = flags,
        .phases_ns = flags & RECORDING_PHASES ? run->phases_ns : 0,
        .memory_ns = flags & RECORDING_MEMORY ? run->memory_ns : 0,
        .detail_ns = recorded ? run->detail_ns : 0,
    };
    double detail_ns = step.detail_ns; /* of this step, whenever it is told */

    if (run->late_steps > 0) {
        double *waiting = &run->late[step.number % run->late_steps];

        step.detail_ns = *waiting;
        *waiting = detail_ns;
    }
    double cost_ns =
        run->factor * detail_ns + (run->carried_factor > 0 ? run->carried_factor : 1) *
                                      (step.phases_ns + step.memory_ns);

    step.duration_ns = base_ns + cost_ns;
    governor_step_end(&run->governor, &step);
    run->base_ns += base_ns;
    run->cost_ns += cost_ns;
    run->steps++;
    run->recorded += recorded && !(flags & EVENT_STEP_TAGGED);
    run->tagged += (flags & EVENT_STEP_TAGGED) != 0;
    run->control += (flags & EVENT_STEP_CONTROL) != 0;
    run->phases += (flags & RECORDING_PHASES) != 0;
    run->memory += (flags & RECORDING_MEMORY) != 0;
    run->rate_changes += rate != run->governor.rate;
    return flags;
}

static void run_steps(struct run *run, uint64_t steps)
{
    run->base_ns = run->cost_ns = run->steps = 0;
    run->recorded = run->tagged = run->control = run->phases = run->memory = 0;
    run->rate_changes = 0;
    while (steps-- > 0)
        (void)run_step(run);
}

static double true_pct(const struct run *run)
{
    return 100 * run->cost_ns / run->base_ns;
}

/* ---- the budget ------------------------------------------------------------------ */

static void the_budget_is_kept_and_used(void **state)
{
    (void)state;
    static const double shares[] = {0.001, 0.008, 0.05, 0.25}; /* detail of a step */
    static const double factors[] = {0.5, 0.9, 1.5, 4};

    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        for (unsigned i = 0; i < 16; i++) {
            struct run run = {.job = {.kind = (enum job_kind)kind, .random = i},
                              .step_ns = JOB_STEP_NS,
                              .detail_ns = shares[i / 4] * JOB_STEP_NS,
                              .factor = factors[i % 4],
                              .phases_ns = 0.002 * JOB_STEP_NS};

            run_open(&run, 0.01);
            run_steps(&run, 15000);
            run_steps(&run, 15000);

            /* Where the calibration is wrong by 4 and the job so unsteady that nobody
             * can see it in 30,000 steps, the budget may be missed by as much. */
            bool hidden =
                factors[i % 4] > 2 && (kind == JOB_PARETO || kind == JOB_PERIODS);
            double share = run.recorded / run.steps, used_pct = true_pct(&run);

            assert_true(used_pct <= (hidden ? 2 : 1.15));
            assert_true(share > 0.8 || used_pct > 0.2);
            assert_true(run.rate_changes <= 8);
        }
}

static void the_start_stays_within_the_budget_too(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.25 * JOB_STEP_NS, .factor = 0.9};

    run_open(&run, 0.01);
    run_steps(&run, GOVERNOR_LEARN_STEPS);
    assert_true(run.tagged >= GOVERNOR_LEARN_STEPS);
    run_steps(&run, 1000);
    assert_true(true_pct(&run) <= 1);
    assert_true(run.recorded > 0);
}

static void
the_first_steps_are_recorded_so_that_there_is_something_to_show(void **state)
{
    (void)state;
    struct run quick = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.25 * JOB_STEP_NS, .factor = 1};
    struct run slow = {.step_ns = 1e9, .detail_ns = 0.25e9, .factor = 1};

    run_open(&quick, 0.01);
    run_steps(&quick, 10);
    assert_true(quick.tagged >= 10 && quick.tagged <= 10);

    /* Two seconds are enough: a step that takes one has more to show, and costs more. */
    run_open(&slow, 0.01);
    run_steps(&slow, 10);
    assert_true(slow.tagged >= GOVERNOR_LEARN_STEPS &&
                slow.tagged <= GOVERNOR_LEARN_STEPS);
}

static void the_first_steps_are_not_held_against_those_that_follow(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.1 * JOB_STEP_NS, .factor = 1};
    struct governor_report report;

    run_open(&run, 0.01);
    run_steps(&run, 20);
    for (unsigned i = 0; i < 1000; i++) {
        (void)run_step(&run);
        assert_int_not_equal(run.governor.rate, DRAW_RATE_NONE);
    }
    governor_report(&run.governor, &report);
    assert_true(report.burst_pct > 0.05); /* but they are shown */
}

static void a_burst_of_noise_does_not_lower_the_rate_for_long(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        struct run runs[2];

        for (unsigned noisy = 0; noisy < 2; noisy++) {
            struct run *run = &runs[noisy];

            *run = (struct run){.step_ns = JOB_STEP_NS,
                                .detail_ns = 0.05 * JOB_STEP_NS,
                                .factor = 1,
                                .job = {.spread = 0.02, .random = i}};
            run->job.kind = noisy ? JOB_PARETO : JOB_NORMAL;
            run_open(run, 0.01);
            run_steps(run, 200);
            run->job.kind = JOB_NORMAL;
            run_steps(run, 2000);
        }
        assert_true(runs[1].recorded > 0.5 * runs[0].recorded);
    }
}

static void auto_goes_on_where_it_was_after_another_level(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.05 * JOB_STEP_NS, .factor = 1};
    struct governor_report before, after;

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    unsigned rate = run.governor.rate;
    governor_report(&run.governor, &before);
    for (unsigned i = 0; i < 20; i++) {
        governor_set_level(&run.governor, WIRE_LEVEL_OFF);
        run_steps(&run, 30);
        governor_set_level(&run.governor, WIRE_LEVEL_AUTO);
        governor_report(&run.governor, &after);
        assert_true(fabs(after.fixed_pct - before.fixed_pct) < 0.01);
        assert_true(after.interval_known);
        run_steps(&run, 30);
    }
    assert_int_equal(run.governor.rate, rate);
}

static void where_nothing_fits_a_few_steps_are_looked_at_now_and_then(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 20 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.01);
    run_steps(&run, 1000);
    run_steps(&run, 200000);
    assert_true(run.recorded <= 0);
    assert_true(run.tagged >= GOVERNOR_BURST_STEPS);
    assert_true(run.tagged * run.detail_ns < 0.001 * run.base_ns);
}

static void the_first_step_of_a_stretch_is_not_compared(void **state)
{
    (void)state;
    struct governor governor;
    struct governor_report report;

    governor_init(&governor, &(struct governor_options){.budget = 1, .seed = 1});
    governor_set_sources(&governor, EVENT_STEP_OPS);
    for (uint64_t number = 0; number < 3000; number++) {
        uint32_t flags = governor_next(&governor, number);

        governor_step_end(
            &governor, &(struct governor_step){.number = number,
                                               .flags = flags | EVENT_STEP_FIRST,
                                               .duration_ns = 1e6,
                                               .detail_ns = flags & DETAIL ? 10 : 0});
    }
    governor_report(&governor, &report);
    assert_int_equal(report.recorded_steps + report.control_steps, 0);
    assert_true(report.recorded_share > 0.3);
}

static void a_smaller_budget_is_obeyed_at_once_and_a_larger_one_used(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.05 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.05);
    run_steps(&run, 5000);
    double before = run.recorded;
    assert_true(before > 2000);

    governor_set_budget(&run.governor, 0.005);
    run_steps(&run, 5000);
    assert_true(true_pct(&run) <= 0.5);
    assert_true(run.recorded > 100);

    governor_set_budget(&run.governor, 0.05);
    run_steps(&run, 5000);
    assert_true(run.recorded > 0.8 * before);
}

static void without_a_budget_nothing_is_recorded(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.001 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0);
    run_steps(&run, 3000);
    assert_true(run.recorded + run.tagged <= 0);
}

static void when_nothing_fits_it_says_so_and_records_nothing(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 20 * JOB_STEP_NS, .factor = 1};
    struct governor_report report;

    run_open(&run, 0.01);
    run_steps(&run, 1000);
    run_steps(&run, 3000);
    governor_report(&run.governor, &report);
    assert_int_equal(report.state, WIRE_GOVERNOR_NOTHING_FITS);
    assert_int_equal(report.rate, DRAW_RATE_NONE);
    assert_true(run.recorded <= 0);
    assert_true(report.interval_known);

    /* The user gives more: it starts by itself. */
    governor_set_budget(&run.governor, 1);
    run_steps(&run, 6000);
    assert_true(run.recorded > 0);
}

static void what_ordinary_steps_carry_yields_to_the_budget(void **state)
{
    (void)state;
    static const struct {
        double phases, memory; /* of a step */
        bool phases_fit, memory_fits;
    } rows[] = {{0.0005, 0.0005, true, true},
                {0.0015, 0.03, true, false},
                {0.05, 0.001, false, false}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run run = {.step_ns = JOB_STEP_NS,
                          .detail_ns = 0.16 * JOB_STEP_NS,
                          .factor = 1.3,
                          .carried_factor = 1.3,
                          .phases_ns = rows[i].phases * JOB_STEP_NS,
                          .memory_ns = rows[i].memory * JOB_STEP_NS};
        struct governor_report report;

        run_open(&run, 0.01);
        run_steps(&run, 3000);
        run_steps(&run, 10000);
        governor_report(&run.governor, &report);
        assert_true(true_pct(&run) <= 1);
        assert_true(run.recorded > 30);
        assert_int_equal(run.phases > 0.5 * run.steps, rows[i].phases_fit);
        assert_int_equal(run.memory > 0.5 * run.steps, rows[i].memory_fits);
        assert_true(fabs(report.phases_share - run.phases / run.steps) < 0.02);
        assert_true(report.low_pct <= 1.1 * true_pct(&run) &&
                    report.high_pct >= 0.9 * true_pct(&run));
    }
}

/* What steps carry costs a tenth of what they may: no noise makes it look dear for long. */
static void noise_takes_no_phases_from_steps_that_can_afford_them(void **state)
{
    (void)state;
    double lost = 0, steps = 0;

    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        for (unsigned i = 0; i < 20; i++) {
            struct run run = {.job = {.kind = (enum job_kind)kind, .random = i},
                              .step_ns = JOB_STEP_NS,
                              .detail_ns = 0.02 * JOB_STEP_NS,
                              .factor = 1,
                              .phases_ns = 0.0005 * JOB_STEP_NS};

            run_open(&run, 0.01);
            run_steps(&run, 10000);
            lost += run.steps - run.phases - run.control;
            steps += run.steps;
        }
    assert_true(lost < 0.001 * steps);
}

static void steps_that_become_longer_get_their_phases_back(void **state)
{
    (void)state;
    struct run run = {.step_ns = JOB_STEP_NS,
                      .detail_ns = 0.1 * JOB_STEP_NS,
                      .factor = 1,
                      .phases_ns = 0.02 * JOB_STEP_NS};

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    run_steps(&run, 1000);
    assert_true(run.phases < 0.3 * run.steps);
    run.step_ns *= 20;
    run_steps(&run, 3000);
    run_steps(&run, 1000);
    assert_true(run.phases > 0.5 * run.steps);
}

static void a_hundred_steps_are_enough_for_a_first_interval(void **state)
{
    (void)state;
    unsigned covered = 0, measured = 0, runs = 200;

    for (unsigned i = 0; i < runs; i++) {
        struct run run = {.job = {.kind = JOB_NORMAL, .spread = 0.02, .random = i},
                          .step_ns = JOB_STEP_NS,
                          .detail_ns = 0.004 * JOB_STEP_NS,
                          .factor = 0.5 + 2.5 * (i % 8) / 7,
                          .carried_factor = 2,
                          .phases_ns = 0.001 * JOB_STEP_NS};
        struct governor_report report;

        run_open(&run, 0.01);
        run.governor.options.seed = i;
        run_steps(&run, 100);
        governor_report(&run.governor, &report);
        assert_true(report.interval_known);
        measured += run.governor.recorded.result.known;
        covered +=
            report.low_pct <= true_pct(&run) && true_pct(&run) <= report.high_pct;
    }
    assert_true(covered >= 0.9 * runs);
    assert_true(measured >= 0.5 * runs);
}

/* ---- the experiment -----------------------------------------------------------------
 */

static void the_figure_that_is_shown_agrees_with_the_truth(void **state)
{
    (void)state;
    static const enum job_kind kinds[] = {JOB_NORMAL, JOB_STALLS, JOB_PERIOD_50,
                                          JOB_CORRELATED};
    unsigned covered = 0, runs = 100;

    for (unsigned i = 0; i < runs; i++) {
        struct run run = {.job = {.kind = kinds[i % 4], .random = 1000 + i},
                          .step_ns = JOB_STEP_NS,
                          .detail_ns = 0.02 * JOB_STEP_NS,
                          .factor = 1.3,
                          .phases_ns = 0.001 * JOB_STEP_NS};
        struct governor_report report;

        run_open(&run, 0.01);
        run_steps(&run, 6000);
        run_steps(&run, 2048);
        governor_report(&run.governor, &report);
        assert_true(report.interval_known);
        assert_true(fabs(report.detail_pct + report.burst_pct + report.fixed_pct -
                         report.measured_pct) < 1e-9);
        assert_true(report.low_pct <= report.measured_pct &&
                    report.measured_pct <= report.high_pct);
        /* The sums reach back one to two times 1,024 steps: a tenth of tolerance. */
        covered += report.low_pct * 0.9 <= true_pct(&run) &&
                   true_pct(&run) <= report.high_pct * 1.1;
    }
    assert_true(covered >= 93);
}

static void the_cost_of_a_recorded_step_is_found_at_every_rate(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 64; i *= 4) {
        struct run run = {.step_ns = JOB_STEP_NS,
                          .detail_ns = 0.004 * JOB_STEP_NS * i,
                          .factor = 1.5};
        struct governor_report report;

        run_open(&run, 0.01);
        run_steps(&run, 60000);
        governor_report(&run.governor, &report);
        assert_int_equal(report.state, WIRE_GOVERNOR_SETTLED);
        assert_int_equal(report.steps_needed, 0);
        double error = (report.high_pct - report.low_pct) / report.detail_pct;
        assert_true(fabs(report.cost_factor - 1.5) <= 1.5 * error);
    }
}

static void the_steps_that_are_still_needed_are_about_those_it_takes(void **state)
{
    (void)state;
    struct run run = {.step_ns = JOB_STEP_NS,
                      .detail_ns = 0.001 * JOB_STEP_NS,
                      .factor = 1,
                      .job = {.spread = 0.05}};
    struct governor_report report;

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    governor_report(&run.governor, &report);
    uint64_t asked_at = run.number, needed = report.steps_needed;
    assert_int_equal(report.state, WIRE_GOVERNOR_MEASURING);
    while (report.state == WIRE_GOVERNOR_MEASURING && run.number < 1000000) {
        (void)run_step(&run);
        governor_report(&run.governor, &report);
    }
    double ratio = (double)(run.number - asked_at) / (double)needed;
    assert_true(ratio > 0.5 && ratio < 2);
}

static void tagged_steps_enter_neither_the_experiment_nor_the_share(void **state)
{
    (void)state;
    struct governor governor;
    struct governor_report report;

    governor_init(&governor, &(struct governor_options){.budget = 0.01, .seed = 1});
    governor_set_sources(&governor, EVENT_STEP_OPS);
    for (uint64_t number = 0; number < 3000; number++) {
        uint32_t flags = governor_next(&governor, number);

        if (flags & DETAIL)
            flags |= EVENT_STEP_TAGGED; /* as in a deep window */
        governor_step_end(
            &governor, &(struct governor_step){.number = number,
                                               .flags = flags,
                                               .duration_ns = 1e6,
                                               .detail_ns = flags & DETAIL ? 10 : 0});
    }
    governor_report(&governor, &report);
    assert_int_equal(report.recorded_steps, 0);
    assert_true(report.control_steps > 0);
    assert_true(report.recorded_share <= 0);
    assert_true(report.detail_pct <= 0 && report.burst_pct > 0);
    assert_int_equal(report.state, WIRE_GOVERNOR_MEASURING);
}

static void a_validation_batch_is_paid_for_and_decides_nothing(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.001 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.01);
    run_steps(&run, 1000);

    struct governor before = run.governor;
    governor_step_end(&run.governor,
                      &(struct governor_step){.number = UINT64_MAX,
                                              .flags = EVENT_STEP_VALIDATION,
                                              .duration_ns = 5e6,
                                              .phases_ns = 1e6});
    assert_true(run.governor.sums.bare_ns > before.sums.bare_ns);
    assert_true(fabs(run.governor.typical_ns - before.typical_ns) < 1e-9);
    assert_int_equal(run.governor.recorded.experiment.pairs,
                     before.recorded.experiment.pairs);
    assert_int_equal(governor_next(&run.governor, run.number),
                     governor_next(&before, run.number));
}

/* ---- ranks
 * ---------------------------------------------------------------------------- */

static void ranks_share_their_control_steps_and_nest_their_recorded_ones(void **state)
{
    (void)state;
    struct run cheap = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.01 * JOB_STEP_NS, .factor = 1};
    struct run dear = {.step_ns = JOB_STEP_NS,
                       .detail_ns = 0.1 * JOB_STEP_NS,
                       .factor = 1,
                       .job = {.random = 99}};
    unsigned controls = 0, both = 0;

    run_open(&cheap, 0.01);
    run_open(&dear, 0.01);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t a = run_step(&cheap), b = run_step(&dear);

        assert_int_equal(a & EVENT_STEP_CONTROL, b & EVENT_STEP_CONTROL);
        controls += (a & EVENT_STEP_CONTROL) != 0;
        if (dear.governor.rate < cheap.governor.rate || (b & EVENT_STEP_TAGGED))
            continue;
        assert_true((b & DETAIL) == 0 || (a & DETAIL) != 0);
        both += (b & DETAIL) != 0;
    }
    assert_true(controls > 400);
    assert_true(both > 100);
}

/* ---- bursts
 * ----------------------------------------------------------------------------- */

static void after_a_slow_step_the_next_ones_are_recorded_and_tagged(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.1 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    assert_true(run.tagged <= GOVERNOR_LEARN_STEPS + GOVERNOR_SHOW_STEPS);
    run.step_ns *= 3;
    (void)run_step(&run);
    run.step_ns /= 3;
    run_steps(&run, 100);
    assert_true(run.tagged + run.recorded >= GOVERNOR_BURST_STEPS);
    assert_true(run.tagged >= 1 && run.tagged <= GOVERNOR_BURST_STEPS);
}

static void what_a_deep_window_takes_is_neither_slow_nor_an_experiment(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.1 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    double typical_ns = run.governor.typical_ns;

    for (int i = 0; i < 50; i++) {
        uint32_t flags = governor_next(&run.governor, run.number);

        governor_step_end(&run.governor,
                          &(struct governor_step){.number = run.number++,
                                                  .flags = flags | EVENT_STEP_WINDOW,
                                                  .duration_ns = 5 * JOB_STEP_NS});
    }
    assert_true(run.governor.typical_ns == typical_ns);
    assert_int_equal(run.governor.burst_left, 0);
    run_steps(&run, 100);
    assert_true(run.tagged < 1);
}

static void steps_that_are_slow_by_design_do_not_eat_the_budget(void **state)
{
    (void)state;
    struct run run = {.step_ns = JOB_STEP_NS,
                      .detail_ns = 0.25 * JOB_STEP_NS,
                      .factor = 1,
                      .job = {.kind = JOB_PERIOD_50}};

    run_open(&run, 0.01);
    run_steps(&run, 5000);
    run_steps(&run, 20000);
    assert_true(run.tagged > 0);
    assert_true(run.tagged * run.detail_ns < 0.0015 * run.base_ns);
    assert_true(true_pct(&run) <= 1);
}

static void a_request_records_so_many_steps_and_no_control_step(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.25 * JOB_STEP_NS, .factor = 1};

    run_open(&run, 0.01);
    run_steps(&run, 600);
    governor_burst(&run.governor, 50);
    run_steps(&run, 600);
    assert_true(run.tagged + run.recorded >= 50 && run.tagged <= 50);
    assert_true(run.control > 160); /* none of them gave way */

    governor_burst(&run.governor, UINT32_MAX);
    assert_int_equal(run.governor.burst_left, GOVERNOR_BURST_STEPS_MAX);
}

/* ---- levels
 * ------------------------------------------------------------------------------ */

static void a_fixed_level_records_every_step_and_has_no_control_group(void **state)
{
    (void)state;
    static const struct {
        enum wire_level level;
        uint32_t flags;
    } rows[] = {
        {WIRE_LEVEL_OFF, 0},
        {WIRE_LEVEL_PHASES, CARRIED},
        {WIRE_LEVEL_OPS, CARRIED | EVENT_STEP_OPS},
        {WIRE_LEVEL_KERNELS, CARRIED | EVENT_STEP_KERNELS},
        {WIRE_LEVEL_ALL, CARRIED | DETAIL},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run run = {
            .step_ns = JOB_STEP_NS, .detail_ns = 0.1 * JOB_STEP_NS, .factor = 1};
        struct governor_report report;

        run_open(&run, 0.01);
        governor_set_sources(&run.governor, DETAIL);
        governor_set_level(&run.governor, rows[i].level);
        for (unsigned step = 0; step < 500; step++)
            assert_int_equal(run_step(&run), rows[i].flags);
        governor_report(&run.governor, &report);
        assert_int_equal(report.state, WIRE_GOVERNOR_FIXED);
        assert_false(report.interval_known);
        double due_pct = rows[i].flags & DETAIL ? 100 * 0.1 / 1.1 : 0;
        assert_true(fabs(report.measured_pct - due_pct) < 0.2);
    }
}

static void the_level_switches_at_run_time_and_the_experiment_goes_on(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.02 * JOB_STEP_NS, .factor = 1};
    struct governor_report before, after;

    run_open(&run, 0.01);
    run_steps(&run, 4001);
    governor_report(&run.governor, &before);
    governor_set_level(&run.governor, WIRE_LEVEL_ALL);
    run_steps(&run, 1000);
    assert_true(run.recorded >= 1000);

    governor_set_level(&run.governor, WIRE_LEVEL_AUTO);
    run_steps(&run, 4000);
    governor_report(&run.governor, &after);
    assert_true(after.interval_known);
    assert_true(after.control_steps > before.control_steps);
    assert_true(true_pct(&run) <= 1);
}

static void new_sources_are_learnt_before_they_are_drawn(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.002 * JOB_STEP_NS, .factor = 1};
    struct governor_report report;

    run_open(&run, 0.01);
    run_steps(&run, 3000);
    governor_set_sources(&run.governor, DETAIL);
    run.detail_ns = 0.3 * JOB_STEP_NS; /* a GPU joins: a recorded step costs far more */
    run_steps(&run, 3000);
    assert_true(true_pct(&run) <= 1);
    assert_true(run.tagged >= GOVERNOR_LEARN_STEPS);
    governor_report(&run.governor, &report);
    assert_true(fabs(report.cost_factor - 1) < 0.5);
}

static void longer_blocks_for_a_gpu_that_runs_behind_keep_the_budget(void **state)
{
    (void)state;
    struct run run = {
        .step_ns = JOB_STEP_NS, .detail_ns = 0.05 * JOB_STEP_NS, .factor = 1.2};
    struct governor_report report;

    governor_init(&run.governor, &(struct governor_options){
                                     .budget = 0.01, .seed = 42, .block_steps = 11});
    governor_set_sources(&run.governor, DETAIL);
    run_steps(&run, 15000);
    run_steps(&run, 15000);
    governor_report(&run.governor, &report);
    assert_true(true_pct(&run) <= 1 && true_pct(&run) > 0.3);
    assert_true(report.interval_known);
    assert_true(fabs(report.cost_factor - 1.2) < 0.3);
}

/* What a GPU did comes when its buffers are read: in steps that recorded nothing. */
static void detail_that_comes_some_steps_later_is_what_recorded_steps_cost(void **state)
{
    (void)state;
    for (unsigned late = 4; late <= 16; late += 4) {
        struct run run = {.step_ns = JOB_STEP_NS,
                          .detail_ns = 0.05 * JOB_STEP_NS,
                          .factor = 1,
                          .phases_ns = 0.0005 * JOB_STEP_NS,
                          .late_steps = late};
        struct governor_report report;

        run_open(&run, 0.01);
        run_steps(&run, 15000);
        run_steps(&run, 15000);
        governor_report(&run.governor, &report);
        assert_true(true_pct(&run) <= 1 && true_pct(&run) > 0.3);
        assert_true(report.low_pct <= true_pct(&run) &&
                    report.high_pct >= 0.8 * true_pct(&run));
        assert_true(fabs(report.measured_pct - true_pct(&run)) < 0.3);
        assert_true(fabs(report.cost_factor - 1) < 0.3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_is_kept_and_used),
        cmocka_unit_test(the_start_stays_within_the_budget_too),
        cmocka_unit_test(
            the_first_steps_are_recorded_so_that_there_is_something_to_show),
        cmocka_unit_test(
            detail_that_comes_some_steps_later_is_what_recorded_steps_cost),
        cmocka_unit_test(the_first_steps_are_not_held_against_those_that_follow),
        cmocka_unit_test(a_burst_of_noise_does_not_lower_the_rate_for_long),
        cmocka_unit_test(auto_goes_on_where_it_was_after_another_level),
        cmocka_unit_test(where_nothing_fits_a_few_steps_are_looked_at_now_and_then),
        cmocka_unit_test(the_first_step_of_a_stretch_is_not_compared),
        cmocka_unit_test(a_smaller_budget_is_obeyed_at_once_and_a_larger_one_used),
        cmocka_unit_test(without_a_budget_nothing_is_recorded),
        cmocka_unit_test(when_nothing_fits_it_says_so_and_records_nothing),
        cmocka_unit_test(what_ordinary_steps_carry_yields_to_the_budget),
        cmocka_unit_test(noise_takes_no_phases_from_steps_that_can_afford_them),
        cmocka_unit_test(steps_that_become_longer_get_their_phases_back),
        cmocka_unit_test(a_hundred_steps_are_enough_for_a_first_interval),
        cmocka_unit_test(the_figure_that_is_shown_agrees_with_the_truth),
        cmocka_unit_test(the_cost_of_a_recorded_step_is_found_at_every_rate),
        cmocka_unit_test(the_steps_that_are_still_needed_are_about_those_it_takes),
        cmocka_unit_test(tagged_steps_enter_neither_the_experiment_nor_the_share),
        cmocka_unit_test(a_validation_batch_is_paid_for_and_decides_nothing),
        cmocka_unit_test(ranks_share_their_control_steps_and_nest_their_recorded_ones),
        cmocka_unit_test(after_a_slow_step_the_next_ones_are_recorded_and_tagged),
        cmocka_unit_test(what_a_deep_window_takes_is_neither_slow_nor_an_experiment),
        cmocka_unit_test(steps_that_are_slow_by_design_do_not_eat_the_budget),
        cmocka_unit_test(a_request_records_so_many_steps_and_no_control_step),
        cmocka_unit_test(a_fixed_level_records_every_step_and_has_no_control_group),
        cmocka_unit_test(the_level_switches_at_run_time_and_the_experiment_goes_on),
        cmocka_unit_test(new_sources_are_learnt_before_they_are_drawn),
        cmocka_unit_test(longer_blocks_for_a_gpu_that_runs_behind_keep_the_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
