/* What the probe says that it cost a run, from the segment that the run left. */
#ifndef COMMAND_OWN_FIGURE_H
#define COMMAND_OWN_FIGURE_H

#include <stdbool.h>
#include <stdint.h>

struct own_figure {
    double measured_pct, low_pct, high_pct; /* as /api/overhead has them; NaN unknown */
    double budget_pct;
    uint64_t steps;
};

/* Of the process with the most steps, of all in the folder or of one session (NULL: all);
 * false where none says anything. */
bool own_figure_read(const char *folder, const char *session,
                     struct own_figure *figure);

#endif
