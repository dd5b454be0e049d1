/* Recorded steps replayed (aggregate/replay.h): the critical path of one, and what a step
 * would take if something in it were gone.
 *
 * Of the window's steps that were recorded whole, whose events are all remembered, and of
 * which all is known that devices did (of a file any, where there is none such), up to
 * REPLAY_STEPS_MAX are replayed: spread over their durations, shortest to longest, for
 * waits for data come in a few long steps that the median alone would not show. Each stands
 * for its neighbours in duration, in proportion to their time. The mean over them and its
 * 95 % interval are the answer; the path is that of the median one.
 *
 * Events are read outside of the store's lock, from counted references.
 */
#ifndef QUERY_REPLAY_QUERY_H
#define QUERY_REPLAY_QUERY_H

#include "aggregate/replay.h"
#include "query/answer.h"

struct trace_answer;

#define REPLAY_STEPS_MAX  16u
#define REPLAY_STEPS_MIN  3u         /* fewer have no interval that says anything */
#define REPLAY_READ_MAX   (1u << 22) /* events read for one answer: about 0.2 s */
#define REPLAY_PIECES_MAX 600u       /* of the path; short neighbours become one */
#define REPLAY_SHARES_MAX 25u

struct replay_what_if_row {
    bool known;
    double mean_ns, low_ns, high_ns; /* of the step; the mean's 95 % interval */
};

/* What rules and answers read. All zero: nothing was replayed. */
struct replay_table {
    uint32_t steps;    /* that were replayed */
    bool devices;      /* a device worked in them */
    double step_ns;    /* their mean, as recorded */
    double unknown_ns; /* mean of their waits that nothing explains */
    /* Mean of what a device computes. 0: it is not known what a step gains by less of it, for
     * no device computes, most steps have no call that waits, or too much waits for what is
     * not recorded. */
    double compute_ns;
    double gained_ns[REPLAY_CUTS]; /* by a step with kernels shorter by replay_cuts */
    /* Half of the 95 % interval of the share that steps gain of what their devices compute,
     * as of half of it; in parts of that share. NaN of fewer than REPLAY_STEPS_MIN. */
    double gain_error;
    /* Mean of the devices' work that was launched in each phase, and in none of them
     * (query/launched.c), whenever it ran. NaN where that is not known. */
    double launched_ns[EVENT_PHASES + 1];
    struct replay_what_if_row what_ifs[REPLAY_WHAT_IFS];
};

/* By how much a step would be shorter if its device computed `ns` less, as if each kernel
 * took its part of that: at most `ns`. NaN where that is not known. */
double replay_gain(const struct replay_table *table, double ns);

struct replay_part { /* of the path, for drawing */
    int64_t start_ns, end_ns;
    enum replay_kind kind; /* of the longest piece in it */
    const char *name;      /* likewise; "" nothing recorded */
    const char *where;     /* thread, or device and stream */
    uint32_t pieces;
};

struct replay_share { /* of the path: what is alike together, longest first */
    enum replay_kind kind;
    const char *name;
    double ns;
    uint64_t count;
};

struct replay_answer {
    struct answer head; /* reason: why nothing could be replayed */
    struct replay_table table;
    /* One step; number is NOT_KNOWN where none was replayed: */
    int64_t number, start_ns;
    double duration_ns, kind_ns[REPLAY_KINDS], unknown_ns;
    double what_if_ns[REPLAY_WHAT_IFS]; /* of it; NaN: not asked */
    struct replay_part *parts;
    uint32_t part_count;
    struct replay_share *shares;
    uint32_t share_count;
    double other_ns; /* of shares that are not listed */
};

/* answer_free(&answer->head) is owed. */
MUST_CHECK int replay_query(struct store *store, const struct selection *selection,
                            struct replay_answer *answer);

/* Its table alone; all zero where nothing could be replayed. */
struct replay_table replay_query_table(struct store *store,
                                       const struct selection *selection);

/* Events on the critical path of the steps of a trace that can be replayed, as addresses
 * in its blocks, ascending. */
struct replay_marks {
    const struct event **events;
    uint32_t count;
    uint32_t steps;
};

MUST_CHECK int replay_marks(const struct trace_answer *trace,
                            struct replay_marks *marks);
void replay_marks_free(struct replay_marks *marks);
bool replay_is_marked(const struct replay_marks *marks, const struct event *event);

#endif
