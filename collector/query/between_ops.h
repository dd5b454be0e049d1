/* What the training thread does while no op of it is open: it sleeps, or runs other code. */
#ifndef QUERY_BETWEEN_OPS_H
#define QUERY_BETWEEN_OPS_H

#include <stdint.h>

#include "wire/event.h"

/* Of the time of steps whose ops are recorded, from looks at random moments; NaN where
 * there were too few. */
struct between_ops_share {
    double share, error; /* half of its 95 % interval */
};

struct between_ops {
    uint32_t looks;
    /* Of training steps that are looked at, what is in no phase; NaN: none of them is left. */
    double other_share;
    /* Off the CPU. By phase; EVENT_PHASES: in none that was known then. */
    struct between_ops_share asleep[EVENT_PHASES + 1];
    /* Of those: it waited for a thread while another one of the process ran. */
    struct between_ops_share behind[EVENT_PHASES + 1];
    uint32_t runner;         /* that one's tid, the one seen last; 0 none */
    const char *runner_name; /* as the kernel has it; NULL none */
    /* On it or ready for it: in forward, and in no phase that was known then. */
    struct between_ops_share busy_forward, busy_nowhere;
    /* Where in the kernel it was seen asleep most often, of the whole run
     * (/proc/PID/wchan); "" unknown. */
    const char *place[EVENT_PHASES + 1];
};

#endif
