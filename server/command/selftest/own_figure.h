/* What the probe says that it cost a run, from the segment that the run left. */
#ifndef COMMAND_OWN_FIGURE_H
#define COMMAND_OWN_FIGURE_H

#include <stdbool.h>

struct own_figure {
    double measured_pct, low_pct, high_pct; /* as /api/overhead has them; NaN unknown */
};

/* Of the process with the most steps; false where none says anything. */
bool own_figure_read(const char *folder, struct own_figure *figure);

#endif
