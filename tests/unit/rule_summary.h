/* What rules see, made by hand: a steady job on a free machine, and its findings. */
#ifndef RULE_SUMMARY_H
#define RULE_SUMMARY_H

#include "unit/summary.h"

#define MIB (1024.0 * 1024)

/* 500 steady steps of 100 ms on a machine of 8 cores. */
static inline int begin(void **state)
{
    (void)state;
    struct steps_summary *train = &summary.steps.train;
    double phases[EVENT_PHASES] = {1 * MS, 40 * MS, 50 * MS, 6 * MS};

    memset(&summary, 0, sizeof(summary));
    train->count = 500;
    train->mean_ns = train->p50_ns = 100 * MS;
    train->steps_per_s = 10;
    train->other_ns = 3 * MS;
    for (uint32_t i = 0; i < EVENT_PHASES; i++)
        train->phase_ns[i] = phases[i];
    train->waited_ns = train->waited_error_ns = (double)NAN;
    train->taken_ns = train->taken_error_ns = (double)NAN;
    summary.rhythm.steps = 500;
    summary.rhythm.median_ns = 100 * MS;
    summary.rhythm.median_other_ns = 3 * MS;
    summary.load.samples = 50;
    summary.load.core_limit = (double)NAN;
    summary.load.asleep_share = (double)NAN;
    summary.steps.validation.mean_ns = (double)NAN;
    summary.facts = facts;
    return 0;
}

static inline const struct finding *find_as(const struct findings_settings *settings,
                                            const char *id)
{
    findings_free(&findings);
    findings_find(&summary, settings, &findings);
    return finding_of(id);
}

static inline const struct finding *find(const char *id)
{
    return find_as(NULL, id);
}

/* A number of it; NaN where it has none of that key. */
static inline double evidence_of(const struct finding *finding, const char *key)
{
    for (uint32_t i = 0; i < finding->evidence_count; i++)
        if (strcmp(finding->evidence[i].key, key) == 0)
            return finding->evidence[i].number;
    return (double)NAN;
}

static inline bool is_found(const char *id)
{
    return strcmp(find(id)->id, "none") != 0;
}

/* It computes for so long of the 100 ms. */
static inline void give_device(struct gpu_device *device, double busy_ns)
{
    *device = (struct gpu_device){.device = "cuda:0",
                                  .name = "NVIDIA H100",
                                  .compute_first_ns = (double)NAN,
                                  .compute_last_ns = (double)NAN};
    device->use_ns[GPU_COMPUTE] = busy_ns;
    summary.gpu.devices = device;
    summary.gpu.device_count = 1;
}

static inline struct rhythm_extra extra(double ns, uint32_t steps, uint32_t part)
{
    return (struct rhythm_extra){.ns_per_step = ns,
                                 .error_ns = ns / 10,
                                 .data_ns = part == EVENT_PHASE_DATA ? ns : 0,
                                 .steps = steps,
                                 .part = part,
                                 .worst_step = 77,
                                 .worst_ns = 400 * MS};
}

/* A device that computes for 80 of 100 ms. */
static inline struct gpu_device *busy_device(const char *name)
{
    static struct gpu_device device;

    device = (struct gpu_device){.device = "cuda:0", .name = name};
    device.use_ns[GPU_COMPUTE] = 80 * MS;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    return &device;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
