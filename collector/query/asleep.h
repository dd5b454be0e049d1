/* How long the training thread is off the CPU while no op of it is open. */
#ifndef QUERY_ASLEEP_H
#define QUERY_ASLEEP_H

#include <stdint.h>

#include "wire/event.h"

/* Shares of the time of steps whose ops are recorded, from looks at random moments; NaN
 * where there were too few. By phase; EVENT_PHASES: in none that was known then. */
struct asleep {
    uint32_t looks;
    double share[EVENT_PHASES + 1];
    double error[EVENT_PHASES + 1]; /* half of its 95 % interval */
    /* Where in the kernel it was seen most often, of the whole run (/proc/PID/wchan); ""
     * unknown. */
    const char *place[EVENT_PHASES + 1];
};

#endif
