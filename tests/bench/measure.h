/* For benchmarks: a figure is a ratio of two costs of the same run, with its interval.
 *
 * Many short rounds of both are taken in turns, each well below a time slice, so that
 * whatever the machine does meanwhile meets both or is a few rounds' bad luck. The ratio is the median of the rounds' ratios, its interval the order statistics
 * that hold the median with 95 %. Printed as one line of JSON; the verdict is `missed`
 * when the whole interval lies beyond the mark, `undecided` when it is wide and reaches
 * over it, else `hit`.
 */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H

#include <stdint.h>

#define MEASURE_ROUNDS 401

/* Runs `events` of something and returns how long that took, in ns. */
typedef double measure_run(uint64_t events, void *context);

struct measure {
    const char *name;
    measure_run *run, *reference;
    void *context;
    uint64_t events; /* in a round */
    double mark;     /* the ratio must not be above it */
};

/* Measures and prints. 0; 1 when the mark was missed. */
int measure(const struct measure *measure);

/* The median of many values and the order statistics that hold it with 95 %. */
struct measure_middle {
    double value, low, high;
};

/* Sorts the values. */
struct measure_middle measure_middle(double *values, unsigned count);

/* Whether an interval lies on the right side of its mark: below it, or `at_least` it. */
const char *measure_verdict(struct measure_middle middle, double mark, int at_least);

/* CLOCK_MONOTONIC, ns. */
double measure_now_ns(void);

/* A folder of its own in shared memory for this run, in TRAINGLASS_DIR, removed at
 * exit. Returns its path. */
const char *measure_directory(void);

#endif
