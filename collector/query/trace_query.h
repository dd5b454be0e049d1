/* The remembered raw events of a window, to be written as a trace.
 *
 * The blocks of the history are counted references: taken under the lock, formatted
 * outside of it, given back by trace_release(). Times are ns since the session's zero,
 * names are ids of the process's own table.
 */
#ifndef QUERY_TRACE_QUERY_H
#define QUERY_TRACE_QUERY_H

#include "query/answer.h"
#include "query/steps_query.h"
#include "wire/event.h"

struct texts;
struct history_block;

/* A stretch of one thread's events, in the order of their ends; heads and their
 * EVENT_MORE stand together. An EVENT_MORE at the start belongs to nobody. */
struct trace_block {
    struct history_block *block; /* owned reference */
    const struct event *events;
    uint32_t count;
    uint32_t thread;
};

struct trace_thread {
    uint32_t tid;
    const char *name;
    bool tells_steps; /* it trains */
};

struct trace_process {
    uint32_t pid;
    int32_t rank;
    uint32_t role;    /* enum wire_role */
    const char *name; /* of the session's run */
    const char *host;
    struct texts *texts;          /* owned reference: trace_name() */
    struct trace_thread *threads; /* index = trace_block.thread */
    uint32_t thread_count;
    struct trace_block *blocks; /* by thread, then by time */
    uint32_t block_count;
    struct step_row *steps; /* of the window, every one, recorded or not */
    uint32_t step_count;
    uint64_t lost_events;
};

struct trace_request {
    bool all_ranks; /* and their workers; else the selected process and its workers */
};

struct trace_answer {
    struct answer head; /* window: events whose range touches [from, to) */
    struct trace_process *processes;
    uint32_t process_count;
    uint64_t events; /* at most: blocks are cut at the window by the writer */
    bool forgot;     /* older events, of any process, are remembered no more */
};

MUST_CHECK int trace_query(struct store *store, const struct selection *selection,
                           const struct trace_request *request,
                           struct trace_answer *answer);

/* Clean UTF-8, valid until trace_release(); "" for 0 and unknown ids. Any thread. */
const char *trace_name(const struct trace_process *process, uint32_t id);

/* In place of answer_free(). */
void trace_release(struct trace_answer *answer);

#endif
