/* Training jobs made of random numbers: step durations with known distributions, the
 * same in every run of a test. */
#ifndef SIMULATED_JOB_H
#define SIMULATED_JOB_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define JOB_STEP_NS 1e6 /* an ordinary step */

enum job_kind {
    JOB_NORMAL,      /* spread 5 % */
    JOB_LOG_NORMAL,  /* spread 30 %, skewed */
    JOB_STALLS,      /* 2 % of the steps stall, Pareto with infinite variance */
    JOB_PARETO,      /* every step Pareto, infinite variance */
    JOB_BIMODAL,     /* 30 % of the steps take 1.6 times as long */
    JOB_PERIOD_2,    /* every second step waits for its data */
    JOB_PERIOD_4,    /* accumulation: every 4th step takes twice as long */
    JOB_PERIOD_50,   /* logging: every 50th step takes 3 times as long */
    JOB_PERIOD_100,  /* validation: every 100th step takes 10 times as long */
    JOB_PERIODS,     /* all three at once */
    JOB_DRIFT,       /* steps grow by their own length in 2,000 steps */
    JOB_RANDOM_WALK, /* steps wander */
    JOB_CORRELATED,  /* autoregressive, 0.95 from step to step */
    JOB_BURSTS,      /* 200 slower steps in every 1,000 */
    JOB_WARM_UP,     /* starts 4 times slower, settles in some hundred steps */
    JOB_KINDS,
};

struct job {
    enum job_kind kind;
    double spread; /* of JOB_NORMAL, share of a step; 0: 5 % */
    uint64_t random;
    double walk, correlated;
    bool has_normal; /* one that was drawn with another */
    double normal;
};

static inline double job_uniform(struct job *job)
{
    uint64_t value = job->random += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */

    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    value ^= value >> 31;
    return ((double)(value >> 11) + 0.5) / 9007199254740992.0;
}

/* The polar method of Marsaglia, whose second number is kept. */
static inline double job_normal(struct job *job)
{
    double x, y, square;

    if (job->has_normal) {
        job->has_normal = false;
        return job->normal;
    }
    do {
        x = 2 * job_uniform(job) - 1;
        y = 2 * job_uniform(job) - 1;
        square = x * x + y * y;
    } while (square >= 1);

    double factor = sqrt(-2 * log(square) / square);

    job->has_normal = true;
    job->normal = y * factor;
    return x * factor;
}

/* Duration of step `number` in units of an ordinary step; call it once per step. */
static inline double job_relative(struct job *job, uint64_t number)
{
    double noise = 1 + 0.03 * job_normal(job);

    switch (job->kind) {
    case JOB_NORMAL:
        return 1 + (job->spread > 0 ? job->spread : 0.05) * job_normal(job);
    case JOB_LOG_NORMAL:
        return exp(0.3 * job_normal(job));
    case JOB_STALLS:
        return job_uniform(job) < 0.02 ? noise + 0.5 * pow(job_uniform(job), -1 / 1.2)
                                       : noise;
    case JOB_PARETO:
        return pow(job_uniform(job), -1 / 1.5);
    case JOB_BIMODAL:
        return noise * (job_uniform(job) < 0.3 ? 1.6 : 1);
    case JOB_PERIOD_2:
        return 1 + (job_uniform(job) < 0.1 ? 0.5 : 0.1) * job_normal(job) +
               (number % 2 == 0 ? 1.7 : 0);
    case JOB_PERIOD_4:
        return noise * (number % 4 == 3 ? 2 : 1);
    case JOB_PERIOD_50:
        return noise * (number % 50 == 0 ? 3 : 1);
    case JOB_PERIOD_100:
        return noise * (number % 100 == 0 ? 10 : 1);
    case JOB_PERIODS:
        return noise * (number % 4 == 3 ? 2 : 1) * (number % 50 == 0 ? 3 : 1) *
               (number % 100 == 0 ? 3 : 1);
    case JOB_DRIFT:
        return noise + (double)number / 2000;
    case JOB_RANDOM_WALK:
        job->walk += 0.01 * job_normal(job);
        return noise + fabs(job->walk);
    case JOB_CORRELATED:
        job->correlated = 0.95 * job->correlated + 0.05 * job_normal(job);
        return noise + 0.3 * fabs(job->correlated);
    case JOB_BURSTS:
        return noise * (number / 200 % 5 == 0 ? 1.5 : 1);
    case JOB_WARM_UP:
        return noise * (1 + 3 * exp(-(double)number / 100));
    case JOB_KINDS:
        break;
    }
    return noise;
}

#endif
