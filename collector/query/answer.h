/* What every question and every answer have in common.
 *
 *     struct selection whose = {.rank = SELECT_ANY};
 *     struct steps_answer steps;
 *     int error = steps_query(store, &whose, &request, &steps);
 *     ...
 *     answer_free(&steps.head);
 *
 * A query takes the store's read lock, copies what was asked for and lets go: any
 * thread may ask, nothing in an answer points into the store, and answer_free() is
 * owed whatever the query returned. Queries return 0, or
 *     -ENOENT   no such session or process (head.reason says which)
 *     -EINVAL   a request out of its bounds
 *     -ENOMEM
 * No data is no error: 0, empty lists, and the reason in head.reason.
 *
 * Units: ns and bytes. Stamps are ns since the session's zero. A double that is not
 * known is UNKNOWN, a NaN, an integer that is not known is NOT_KNOWN; never 0. Shares are
 * fractions of 1.
 */
#ifndef QUERY_ANSWER_H
#define QUERY_ANSWER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "query/arena.h"
#include "query/window.h"

struct store;

#define UNKNOWN    ((double)NAN)
#define NOT_KNOWN  INT64_MIN
#define SELECT_ANY (-1)

/* Whose numbers. All zero but rank = SELECT_ANY is the default choice: the newest
 * session that has a step, its lowest rank. */
struct selection {
    char session[64]; /* "" = the newest that has a step */
    int32_t rank;     /* SELECT_ANY = the lowest present */
    uint32_t pid;     /* 0 = by rank */
    struct window window;
};

/* The window as it was found: what is remembered of it. */
struct answer_window {
    int64_t from_ns, to_ns;
    int64_t first_step, last_step; /* NOT_KNOWN when it holds no training step */
    bool complete;    /* false: older parts of what was asked for are forgotten */
    int64_t reach_ns; /* the oldest stamp that this table remembers */
    double span_ns;   /* to - from */
};

struct answer {
    struct arena arena;
    char session[64];
    int32_t rank; /* -1 unknown */
    uint32_t pid;
    int64_t start_unix_ns; /* what stamp 0 is in wall time */
    int64_t now_ns;        /* newest stamp known: the page's right edge */
    uint64_t rev;          /* changes when the selected process has news */
    uint64_t lost_events;  /* of the selected process */
    bool live;             /* its process runs */
    bool from_file;        /* a trace file: all of it was recorded on purpose */
    struct answer_window window;
    uint64_t steps;          /* training steps in the window */
    uint64_t recorded_steps; /* of those, with CPU ops */
    const char *reason;      /* why there is nothing, "" when there is */
};

void answer_free(struct answer *answer);

#endif
