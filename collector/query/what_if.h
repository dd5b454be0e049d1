/* What a step would take if something in it were gone.
 *
 * A step is as long as the longest of its chains: the host's, which waits for the next
 * batch, calls and launches, and each device's, which works or idles. Without its wait
 * for data the host's chain is shorter by all of it, a device's only by what that device
 * idled for it: a queue that is still full hides the rest. So
 *
 *     at least   the host without its wait, and no less than a device is busy
 *     at most    the step without what its devices idled for data
 *
 * Where no device is known the host's chain is all there is, and the two are one. A batch that
 * is there must still be taken over: that part of the wait no loader ends.
 */
#ifndef QUERY_WHAT_IF_H
#define QUERY_WHAT_IF_H

#include <stdbool.h>

#include "query/bottlenecks_query.h"

/* How much of the wait for data a loader that is always ahead would end, per step: between
 * these two, as what it takes to take a ready batch over may be an estimate. NaN: all. */
struct loading_saves {
    double least_ns, most_ns;
};

struct what_if {
    double low_ns, high_ns; /* of the mean step, with the steps' own spread */
    uint32_t replayed;      /* steps that tell it; 0: the phases of all of them do */
};

/* With data loading hidden. False where that says nothing: the wait is not known, is
 * less than WHAT_IF_SHARE of a step, or the steps are too few for an interval. */
MUST_CHECK bool what_if_data_hidden(const struct bottlenecks_answer *summary,
                                    struct loading_saves saves, struct what_if *answer);

/* Do replayed steps (aggregate/replay.h) tell it, who know what waited for what? Of data
 * loading not where no device worked: then the phases of all steps say the same, surer. */
bool what_if_is_replayed(const struct bottlenecks_answer *summary,
                         enum replay_what_if what_if);

/* The same from them; false also where it is not worth a sentence. */
MUST_CHECK bool what_if_replayed(const struct bottlenecks_answer *summary,
                                 enum replay_what_if what_if, struct what_if *answer);

/* Whatever of both tells it. */
MUST_CHECK bool what_if_told(const struct bottlenecks_answer *summary,
                             struct loading_saves saves, enum replay_what_if what_if,
                             struct what_if *answer);

/* A sentence's beginning: "..., a step would take". Static. */
const char *what_if_title(enum replay_what_if what_if);

/* Less is not worth a sentence. */
#define WHAT_IF_SHARE 0.05

#endif
