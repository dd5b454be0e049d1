/* Remembered events as a Chrome trace in Kineto's layout, written as a stream.
 *
 *     {"trainglass": {...}, "traceEvents": [ ... ], "trainglassEnd": {...}}
 *
 * Every reader of PyTorch's traces takes it, and our own finds the same tables in it:
 * steps are `ProfilerStep#N` with their phases as arguments, recorded or not; phases
 * carry args.trainglass and are never rows. Times are microseconds since the session's
 * zero, to the nanosecond, in decimal digits: no double ever holds a stamp. Events on the
 * critical path have `"critical": 1` among their arguments, as HolisticTraceAnalysis marks
 * them, where that was asked for.
 */
#ifndef TRACE_TRACE_WRITER_H
#define TRACE_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "query/replay_query.h"
#include "query/trace_query.h"
#include "wire/attributes.h"

#define TRACE_CHUNK_BYTES (256u * 1024)

struct trace_sink {
    /* Takes one piece; false ends the writing. */
    bool (*write)(void *context, const void *data, size_t size);
    void *context;
};

struct trace_limits {
    int64_t from_ns, to_ns; /* events whose range touches [from, to) */
    uint64_t max_bytes;     /* stops before an event would pass it; 0 = none */
    uint32_t one_in;        /* writes one block in so many: estimates; 0 = all */
    const struct replay_marks *critical; /* get args.critical = 1; NULL none */
};

struct trace_totals {
    uint64_t steps, recorded_steps;
    uint64_t events;  /* written, without steps and thread names */
    uint64_t seen;    /* in the window, written or not */
    uint64_t skipped; /* not written: beyond max_bytes, or of an unknown kind */
    uint64_t bytes;
    bool whole; /* the sink took everything */
};

/* `facts` is a JSON object as text. */
struct trace_totals trace_write(const struct trace_answer *answer,
                                const struct trace_limits *limits, const char *facts,
                                const struct trace_sink *sink);

/* Events in the window, counted without writing. */
uint64_t trace_count(const struct trace_answer *answer,
                     const struct trace_limits *limits);

#endif
