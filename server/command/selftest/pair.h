/* Two runs of a job at the same time, each on one core, that change cores all the time, so
 * that what the machine does meets both alike; one after the other where two cores are not
 * to be had. Whatever is started here has ended when pair_run() returns. */
#ifndef COMMAND_PAIR_H
#define COMMAND_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "command/places.h"
#include "command/selftest/paired_ratio.h"

enum pair_kind {
    PAIR_NOTHING, /* too little of both to compare */
    PAIR_STEPS,   /* ratios of step times were added */
    PAIR_WALL,    /* no steps: the ratio of the runs' wall times was added */
};

struct pair {
    /* Set once. */
    char *const *commands[2]; /* the bare one and the watched one */
    const char *folder;       /* for what the runs leave; absolute */
    int cores[2];
    bool together; /* else both cores are the same, and one runs after the other */
    uint64_t measured_ns; /* of a pair, from where both are warm */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC: nothing is begun after it */
    uint64_t window_ns;   /* between two changes of cores; grows with the steps */
    /* Set for each pair. */
    bool swapped; /* begins on the other's core, or with the watched one */
    /* Of the last pair. */
    double step_ns;   /* of the bare one, median; NaN unknown */
    double wall_s[2]; /* of a run that ended by itself; NaN */
    char reason[400]; /* why pair_run() failed */
};

/* Chooses cores and whether both can run together; the reason why not is written into
 * `why`, "" for none. Returns 0 or -errno. */
MUST_CHECK int pair_open(struct pair *pair, char *why, size_t size);

/* Runs both and adds the ratios of one group. Returns enum pair_kind; -EINTR when we were
 * asked to end, -ETIME after the deadline, else -errno with a reason. */
MUST_CHECK int pair_run(struct pair *pair, struct paired_ratios *ratios);

/* The file of a run's own output, in the folder. */
void pair_output_path(const struct pair *pair, int side, char path[PLACE_BYTES]);

#endif
