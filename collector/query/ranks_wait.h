/* Where a rank waits for the others in a step, and how long; a part of ranks_query.c. */
#ifndef QUERY_RANKS_WAIT_H
#define QUERY_RANKS_WAIT_H

#include "aggregate/process.h"

enum ranks_wait {
    RANKS_WAIT_BACKWARD, /* gradients are exchanged there: who comes first waits longest */
    RANKS_WAIT_ANYWHERE, /* but for data: sharded weights are gathered in forward, and loops
                            of one's own exchange where they like */
    RANKS_WAIT_DEVICE, /* in kernels that communicate, while nothing computes: the host
                            has only ordered them */
};

/* Does any device of the process communicate? */
bool ranks_wait_on_device(const struct process *process);

/* What of the step may be waiting: of this and the exchange itself it is the longer part for
 * who comes first. NaN: not known of this step. */
double ranks_wait_ns(enum ranks_wait where, const struct process *process,
                     const struct step *step);

#endif
