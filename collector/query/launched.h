/* What devices did, by the phase of a recorded step in which the host launched it: a device
 * that is behind does it while the host is in another phase, or in a later step. Each kernel,
 * copy and memset counts by itself, beside others too. */
#ifndef QUERY_LAUNCHED_H
#define QUERY_LAUNCHED_H

#include <stdbool.h>

#include "query/trace_query.h"

/* ns[]: by phase, the last of what was launched in none; ns. False where less than
 * LAUNCHED_KNOWN of the step's launches have their work: it has not come, or is not
 * remembered; or where nothing was launched. */
MUST_CHECK bool launched_in(const struct trace_process *process,
                            const struct step_row *row, double ns[EVENT_PHASES + 1]);

#define LAUNCHED_KNOWN 0.95

#endif
