/* Which steps of a trace can be replayed, their events to the replay, and what the replayed
 * launched. */
#ifndef QUERY_REPLAY_INSIDE_H
#define QUERY_REPLAY_INSIDE_H

#include "aggregate/replay.h"
#include "query/trace_query.h"

/* The process that was asked about; NULL when the trace has none. */
const struct trace_process *replay_steps_of(const struct trace_answer *trace);

/* All that were recorded as fully as the best of them, whose events are all remembered, and of
 * which all is known that devices did (of a file any, where there is none such), shortest
 * first. The caller frees the list; NULL without memory. */
MUST_CHECK const struct step_row **
replay_steps_list(const struct trace_answer *trace, const struct trace_process *process,
                  uint32_t *count);

/* A step that stands for its neighbours in duration: the mean over picks of `scale` times
 * their durations is that of all steps. */
struct replay_pick {
    const struct step_row *row;
    double scale;
};

/* Up to REPLAY_STEPS_MAX for all of them, shortest first; how many. Each stands for as many
 * steps: it is the one in which half of their time is over, so that a single long step of
 * its neighbours, which has most of their time, is the one that is replayed. */
uint32_t replay_steps_spread(const struct step_row *const *steps, uint32_t count,
                             struct replay_pick picks[]);

bool replay_block_touches(const struct trace_block *block, int64_t from_ns,
                          int64_t to_ns);

/* Gives the replay the step's events; how many were looked at. */
uint64_t replay_steps_feed(struct replay *replay, const struct trace_process *process,
                           const struct step_row *row);

/* Why there is none; process may be NULL. */
const char *replay_steps_why_none(const struct trace_process *process);

/* What devices did, by the phase of a recorded step in which the host launched it: a device
 * that is behind does it while the host is in another phase, or in a later step. Each kernel,
 * copy and memset counts by itself, beside others too.
 *
 * What ran behind the end of the trace is not known: a step counts where in each of its phases
 * LAUNCHED_KNOWN of the launches have their work.
 */
#define LAUNCHED_KNOWN 0.95

/* mean[]: of those picks by phase, the last of what was launched in none; ns per step. NaN
 * where the phase is not known in one of the steps, or no step counts. Reads the events of
 * the picks, and then those of the process since the first of them once: at most
 * REPLAY_READ_MAX, of more nothing is told. */
void launched_mean(const struct trace_process *process,
                   const struct replay_pick picks[], uint32_t count,
                   double mean[EVENT_PHASES + 1]);

#endif
