#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "query/what_if.h"

#define MS    1e6
#define JOBS  2000
#define STEPS 200u

static struct bottlenecks_answer summary;
static const struct loading_saves unknown = {(double)NAN, (double)NAN};
static struct gpu_device device;
static uint64_t state = 88172645463325252u;

static double draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static int begin(void **unused)
{
    (void)unused;
    memset(&summary, 0, sizeof(summary));
    summary.steps.train.count = STEPS;
    summary.steps.train.mean_ns = 200 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 40 * MS;
    summary.steps.train.computing_error_ns = 2 * MS;
    summary.gpu.devices = &device;
    device = (struct gpu_device){.device = "cuda:0"};
    return 0;
}

static void without_a_device_the_wait_for_data_is_gone(void **unused)
{
    struct what_if hidden;

    (void)unused;
    assert_true(what_if_data_hidden(&summary, unknown, &hidden));
    assert_true(fabs(hidden.low_ns - 158 * MS) < 1);
    assert_true(fabs(hidden.high_ns - 162 * MS) < 1);
}

static struct loading_saves surely(double ns)
{
    return (struct loading_saves){ns, ns};
}

static void what_taking_a_batch_over_may_cost_widens_the_interval(void **unused)
{
    struct loading_saves saves = {.least_ns = 20 * MS, .most_ns = 30 * MS};
    struct what_if hidden;

    (void)unused;
    assert_true(what_if_told(&summary, saves, REPLAY_DATA_HIDDEN, &hidden));
    assert_true(fabs(hidden.low_ns - 168 * MS) < 1);
    assert_true(fabs(hidden.high_ns - 182 * MS) < 1);
}

/* 10 of the 40 ms are taken over from workers that have the batch ready. */
static void what_no_loader_saves_is_not_promised(void **unused)
{
    struct what_if hidden;

    (void)unused;
    assert_true(what_if_told(&summary, surely(30 * MS), REPLAY_DATA_HIDDEN, &hidden));
    assert_true(fabs(hidden.low_ns - 168 * MS) < 1);
    assert_true(fabs(hidden.high_ns - 172 * MS) < 1);
    assert_false(what_if_told(&summary, surely(5 * MS), REPLAY_DATA_HIDDEN, &hidden));
    assert_false(what_if_told(&summary, surely(0), REPLAY_DATA_HIDDEN, &hidden));
}

static void a_device_that_is_not_used_says_nothing_of_the_wait(void **unused)
{
    struct gpu_device pair[2] = {{.device = "cuda:0"}, {.device = "cuda:1"}};
    struct what_if hidden;

    (void)unused;
    pair[0].idle_ns[GPU_IDLE_PYTHON] = 200 * MS;
    pair[1].use_ns[GPU_COMPUTE] = 160 * MS;
    pair[1].idle_ns[GPU_IDLE_DATA] = 40 * MS;
    summary.gpu.devices = pair;
    summary.gpu.device_count = 2;
    assert_true(what_if_data_hidden(&summary, unknown, &hidden));
    assert_true(fabs(hidden.low_ns - 158 * MS) < 1);
    assert_true(fabs(hidden.high_ns - 162 * MS) < 1);
}

static void a_device_that_is_busy_meanwhile_keeps_its_step(void **unused)
{
    struct what_if hidden;

    (void)unused;
    summary.gpu.device_count = 1;
    device.use_ns[GPU_COMPUTE] = 198 * MS;
    assert_true(what_if_data_hidden(&summary, unknown, &hidden));
    assert_true(fabs(hidden.low_ns - 196 * MS) < 1);
    assert_true(fabs(hidden.high_ns - 202 * MS) < 1);
}

static void what_is_not_known_or_not_worth_it_is_not_said(void **unused)
{
    struct what_if hidden;

    (void)unused;
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = MS;
    assert_false(what_if_data_hidden(&summary, unknown, &hidden));
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = (double)NAN;
    assert_false(what_if_data_hidden(&summary, unknown, &hidden));
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 40 * MS;
    summary.steps.train.computing_error_ns = (double)NAN;
    assert_false(what_if_data_hidden(&summary, unknown, &hidden));
    memset(&summary.steps.train, 0, sizeof(summary.steps.train));
    assert_false(what_if_data_hidden(&summary, unknown, &hidden));
}

/* Means per step of a job; with `data` of 0 the truth of what is asked. */
struct job {
    double data, host, work; /* mean: waits, launches, runs on the device */
    bool waits;              /* for the device at the end of each step */
};

struct told {
    double step, data, busy, idle_data;
};

/* The host launches a step's work at the end of its own part of it; the device takes one
 * step after the other. A gap of the device belongs to data by what the host did in at
 * least half of it. The host runs at most three steps ahead. */
static struct told run(const struct job *job, uint64_t seed)
{
    struct told told = {0, 0, 0, 0};
    double host = 0, ends[STEPS + 3] = {0};

    state = seed;
    for (uint32_t i = 3; i < STEPS + 3; i++) {
        double data = job->data * (0.5 + draw()), from = host;
        double work = job->work * (0.5 + draw());

        data = job->data > 0 ? data : 0;
        host += data + job->host * (0.8 + 0.4 * draw());
        host = host > ends[i - 3] ? host : ends[i - 3];
        double begin = host > ends[i - 1] ? host : ends[i - 1];
        double gap = begin - ends[i - 1];
        double seen = fmin(begin, from + data) - fmax(ends[i - 1], from);

        told.idle_data += gap > 0 && seen >= gap / 2 ? gap / STEPS : 0;
        told.data += data / STEPS;
        told.busy += work / STEPS;
        ends[i] = begin + work;
        host = job->waits && host < ends[i] ? ends[i] : host;
    }
    told.step = fmax(host, ends[STEPS + 2]) / STEPS;
    return told;
}

static void the_truth_of_simulated_jobs_lies_in_the_interval(void **unused)
{
    uint32_t held = 0, asked = 0;

    (void)unused;
    summary.gpu.device_count = 1;
    for (uint64_t i = 1; i <= JOBS; i++) {
        state = i * 6364136223846793005u;
        struct job job = {.data = draw() * 80 * MS,
                          .host = 10 * MS + draw() * 60 * MS,
                          .work = 10 * MS + draw() * 80 * MS,
                          .waits = i % 2 == 0};
        uint64_t seed = state;
        struct told now = run(&job, seed);
        struct what_if hidden;

        summary.steps.train.mean_ns = now.step;
        summary.steps.train.phase_ns[EVENT_PHASE_DATA] = now.data;
        summary.steps.train.computing_error_ns = now.step * 0.02;
        device.use_ns[GPU_COMPUTE] = now.busy;
        device.idle_ns[GPU_IDLE_DATA] = now.idle_data;
        job.data = 0;
        double truth = run(&job, seed).step;

        if (!what_if_data_hidden(&summary, unknown, &hidden))
            continue;
        asked++;
        held += truth >= hidden.low_ns && truth <= hidden.high_ns;
    }
    assert_true(asked > JOBS / 2);
    assert_true(held >= asked * 95 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_device_the_wait_for_data_is_gone, begin),
        cmocka_unit_test_setup(what_no_loader_saves_is_not_promised, begin),
        cmocka_unit_test_setup(what_taking_a_batch_over_may_cost_widens_the_interval,
                               begin),
        cmocka_unit_test_setup(a_device_that_is_not_used_says_nothing_of_the_wait,
                               begin),
        cmocka_unit_test_setup(a_device_that_is_busy_meanwhile_keeps_its_step, begin),
        cmocka_unit_test_setup(what_is_not_known_or_not_worth_it_is_not_said, begin),
        cmocka_unit_test_setup(the_truth_of_simulated_jobs_lies_in_the_interval, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
