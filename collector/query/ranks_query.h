/* Ranks of a session, compared over the steps that all of them have. */
#ifndef QUERY_RANKS_QUERY_H
#define QUERY_RANKS_QUERY_H

#include "query/answer.h"
#include "wire/event.h"

struct rank_row {
    int32_t rank;
    uint32_t pid;
    const char *host;
    double step_ns; /* mean */
    double own_ns;  /* without waiting for others in backward */
    double wait_ns;
    double phase_ns[EVENT_PHASES];
};

struct ranks_answer {
    struct answer head;
    struct rank_row *rows; /* by rank */
    uint32_t row_count;
    bool comparable;           /* at least two ranks with common steps */
    int32_t slowest;           /* rank; -1 none stands out */
    double slowest_share;      /* of the common steps in which it was the slowest */
    double slowest_by_ns;      /* its own time over the median of the others' */
    const char *slowest_cause; /* phase with the largest excess, or "unknown" */
};

MUST_CHECK int ranks_query(struct store *store, const struct selection *selection,
                           struct ranks_answer *answer);

#endif
