/* When the steps of a run began, as it tells itself: the timer of the Python package, which
 * `selftest` injects, writes all updates of torch's optimizers to a mapped file
 * (step_times/sitecustomize.py); or the job keeps a contract of two files:
 *
 *     $STEPS_OUT.pid   made as soon as it is warm
 *     $STEPS_OUT       written when SIGTERM ends it: int64 CLOCK_MONOTONIC nanoseconds */
#ifndef COMMAND_STEP_TIMES_H
#define COMMAND_STEP_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

struct step_times {
    uint64_t *begins; /* ascending; NULL none */
    uint32_t count;
};

/* Sets the environment of a run, in its process: its files lie in `folder`. */
void step_times_export(const char *folder, int side);

/* So many steps for so long, or the job says so. */
bool step_times_are_warm(const char *folder, int side, uint32_t steps, uint64_t ns);

/* Reads what is there, 0 to ... steps; -errno. step_times_free() in any case. */
MUST_CHECK int step_times_read(struct step_times *times, const char *folder, int side);
void step_times_free(struct step_times *times);

struct step_lengths {
    double median_ns, mean_ns; /* NaN where there are too few steps */
};

/* Of the steps that lie wholly between two changes of cores; the mean is without those that
 * the machine disturbed. */
struct step_lengths step_times_between(const struct step_times *times, uint64_t from_ns,
                                       uint64_t to_ns);

#endif
