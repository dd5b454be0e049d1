/* Ranks of a session, compared over the steps that all of them have. */
#ifndef QUERY_RANKS_QUERY_H
#define QUERY_RANKS_QUERY_H

#include "query/answer.h"
#include "wire/event.h"

struct rank_row {
    int32_t rank;
    uint32_t pid;
    const char *host; /* "" or NULL unknown */
    double step_ns;   /* mean */
    double
        own_ns; /* without waiting for others, on the device, in backward or `waits_in` */
    double wait_ns;
    double phase_ns[EVENT_PHASES], other_ns; /* NaN unknown */
    double
        delay_share; /* of the time its first thread waited for a core; NaN unknown */
    double batch_elements; /* of the tensors of its batches, mean so far; NaN unknown */
};

struct ranks_answer {
    struct answer head;
    struct rank_row *rows; /* by rank */
    uint32_t row_count;
    bool comparable;      /* at least two ranks with common steps */
    int32_t slowest;      /* rank; -1 none stands out */
    double slowest_share; /* of the common steps in which it was the slowest */
    double slowest_by_ns; /* its own time over the median of the others' */
    const char
        *slowest_cause; /* data, forward, optimizer, other (in no phase) or, where they
                                  wait on the device, backward: where its excess is
                                  largest; else unknown */
    double slowest_cause_ns; /* that excess over the mean of the others; NaN unknown */
    /* By how much per step it comes later than the last of the others, as far as they
     * really wait for it; half of its 95 % interval. NaN without a slowest. */
    double slowest_price_ns, slowest_error_ns;
    bool waits_on_device; /* they wait in kernels, not in a phase of the host */
    uint32_t waits_in; /* enum event_phase where they do, EVENT_PHASES in none, and on
                             devices */
};

MUST_CHECK int ranks_query(struct store *store, const struct selection *selection,
                           struct ranks_answer *answer);

#endif
