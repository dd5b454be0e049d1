/* What devices did, by the phase of a recorded step in which the host launched it: a device
 * that is behind does it while the host is in another phase, or in a later step. Each kernel,
 * copy and memset counts by itself, beside others too.
 *
 * What ran behind the end of the trace is not known: a step counts where in each of its phases
 * LAUNCHED_KNOWN of the launches have their work.
 */
#ifndef QUERY_LAUNCHED_H
#define QUERY_LAUNCHED_H

#include "query/replay_steps.h"

#define LAUNCHED_KNOWN 0.95

/* mean[]: of those picks by phase, the last of what was launched in none; ns per step. NaN
 * where the phase is not known in one of the steps, or no step counts. Reads the events of
 * the picks, and then those of the process since the first of them once: at most
 * REPLAY_READ_MAX, of more nothing is told. */
void launched_mean(const struct trace_process *process,
                   const struct replay_pick picks[], uint32_t count,
                   double mean[EVENT_PHASES + 1]);

#endif
