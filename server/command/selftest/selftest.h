/* trainglass selftest overhead: what was measured, for its report. */
#ifndef COMMAND_SELFTEST_H
#define COMMAND_SELFTEST_H

#include "command/command.h"
#include "command/segments/segment_file.h"
#include "command/selftest/pair.h"

struct selftest {
    const struct invocation *invocation;
    char *const *command;
    double budget_pct;
    uint32_t pairs; /* 0: as many as are needed */
    struct pair pair;
    char apart_reason[120]; /* why both did not run at the same time; "" they did */
    enum pair_kind kind;
    double step_ns, wall_s; /* of bare runs, mean over the pairs */
    struct paired_ratios control_ratios, ratios;
    struct paired_estimate control, overhead;
    struct own_figure own[PAIRED_GROUPS_MAX];
    uint32_t own_count; /* watched runs that say what they cost */
};

enum selftest_verdict { SELFTEST_WITHIN, SELFTEST_OVER, SELFTEST_UNDECIDED };

/* Of the interval from outside against the budget. */
enum selftest_verdict selftest_judge(const struct selftest *selftest);

/* Prints it; the exit code. */
int selftest_report(const struct selftest *selftest);

#endif
