/* Where an op ran: the steps of the window that hold it, and how long it took in each. */
#ifndef QUERY_WHERE_QUERY_H
#define QUERY_WHERE_QUERY_H

#include "query/trace_query.h"

#define WHERE_STEPS_MAX 10000u

struct where_step {
    int64_t number;
    int64_t end_ns; /* of the step */
    double total_ns;
    uint64_t count;
};

struct where_answer {
    struct trace_answer trace; /* what was looked through; holds the memory */
    struct where_step *steps;  /* by number; the newest WHERE_STEPS_MAX */
    uint32_t count;
};

/* `name` as /api/ops writes it. Only remembered events are found. where_free() is owed
 * whatever is returned. */
MUST_CHECK int where_query(struct store *store, const struct selection *selection,
                           const char *name, struct where_answer *answer);
void where_free(struct where_answer *answer);

#endif
