/* The summary of a steady job, which a test makes ill, and what is found in it. */
#ifndef TESTS_UNIT_STEADY_SUMMARY_H
#define TESTS_UNIT_STEADY_SUMMARY_H

#include "unit/summary.h"

#define GIB (1024.0 * 1024 * 1024)

static inline void set_phases(double data, double forward, double backward,
                              double optimizer)
{
    struct steps_summary *train = &summary.steps.train;
    double phases[EVENT_PHASES] = {data, forward, backward, optimizer};

    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        train->phase_ns[i] = phases[i];
        train->phase_share[i] = phases[i] / train->mean_ns;
    }
    train->other_ns = train->mean_ns - data - forward - backward - optimizer;
}

/* A steady step of 200 ms that nothing is wrong with. */
static inline int begin(void **state)
{
    (void)state;
    struct steps_summary *train = &summary.steps.train;

    memset(&summary, 0, sizeof(summary));
    summary.head.window.first_step = 100;
    summary.head.window.last_step = 299;
    train->count = 200;
    train->mean_ns = train->p50_ns = 200 * MS;
    train->p99_ns = 210 * MS;
    set_phases(2 * MS, 64 * MS, 120 * MS, 8 * MS);
    summary.steps.validation.mean_ns = (double)NAN;
    train->waited_ns = train->waited_error_ns = (double)NAN;
    summary.load.asleep_share = (double)NAN;
    summary.facts = facts;
    summary.memory.host.limit_bytes = 64 * GIB;
    summary.memory.host.used_bytes = 10 * GIB;
    return 0;
}

static inline const struct finding *find(const char *id)
{
    return finding_of(id);
}

static inline void look(void)
{
    findings_free(&findings);
    findings_find(&summary, NULL, &findings);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
