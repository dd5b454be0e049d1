/* How much longer the steps of one run are than those of another that ran at the same
 * time: ratios of windows, in groups of one pair of runs each, their mean and its 95 %
 * interval. What disturbs a window disturbs both runs and drops out of its ratio. */
#ifndef COMMAND_PAIRED_RATIO_H
#define COMMAND_PAIRED_RATIO_H

#include <stdint.h>

#include "wire/attributes.h"

#define PAIRED_RATIOS_MAX 32768u
#define PAIRED_GROUPS_MAX 256u

/* Of one window: log(watched / bare). */
struct paired_ratio {
    double
        typical; /* of the median steps: says whether the machine disturbed one side */
    double mean; /* of the mean steps: has in it what few of them cost */
};

struct paired_ratios {
    struct paired_ratio windows[PAIRED_RATIOS_MAX];
    uint32_t starts[PAIRED_GROUPS_MAX + 1]; /* of each group, and of the open one */
    uint32_t count, group_count;            /* whole groups; what is open lies behind */
};

struct paired_estimate {
    double pct, low_pct, high_pct; /* NaN: unknown; an interval needs two groups */
};

/* Adds one window to the open group; NaN and what has no room is left out. */
void paired_add(struct paired_ratios *ratios, struct paired_ratio window);

/* Ends the open group, which counts when it has a window. Returns how many it had. */
uint32_t paired_end_group(struct paired_ratios *ratios);

/* The ratio of group `group` in per cent above 1. */
double paired_group_pct(const struct paired_ratios *ratios, uint32_t group);

/* The mean over the groups, of each the mean of the half of its windows that is in the middle
 * by what is typical; the interval is a bootstrap over groups and over the windows of each.
 * Draws are the same in every call. -ENOMEM or 0. */
MUST_CHECK int paired_estimate(const struct paired_ratios *ratios,
                               struct paired_estimate *estimate);

#endif
