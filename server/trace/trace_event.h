/* One event as text: what the parts of the writer share. */
#ifndef TRACE_TRACE_EVENT_H
#define TRACE_TRACE_EVENT_H

#include "trace/trace_text.h"
#include "trace/trace_writer.h"

/* Escaped names by id; a colliding id is escaped anew. */
#define TRACE_NAME_SLOTS 4096u
#define TRACE_NAME_BYTES 96u /* longer ones are not kept */

struct trace_name_slot {
    uint32_t id; /* 0: empty */
    uint32_t size;
    char text[TRACE_NAME_BYTES];
};

struct trace_writer {
    struct trace_text text;
    const struct trace_limits *limits;
    struct trace_totals totals;
    const struct trace_process *process;
    struct trace_name_slot *names;
    struct {
        int64_t pid, tid;
        size_t size; /* 0: none yet */
        char text[80];
    } where;    /* the newest pid and tid: most events share the one before */
    bool first; /* no comma before the next event */
};

/* Phases and ranges cross where one ends inside the other: slices of a track must nest, so
 * phases have their own. No thread has an id as large. */
#define TRACE_PHASES_TRACK INT32_MAX

/* Kinds that have a text. */
bool trace_event_is_written(uint8_t kind);
/* Does its range touch the window? */
bool trace_event_touches(const struct event *event, const struct trace_limits *limits);

/* Where its range ends: start and length are another process's, any number. */
ALWAYS_INLINE int64_t trace_event_end_ns(const struct event *event)
{
    int64_t end_ns;

    return __builtin_add_overflow((int64_t)event->time, (int64_t)event->value, &end_ns)
               ? INT64_MAX
               : end_ns;
}

/* One event with its arrow; `end` is behind the last record that may belong to it. */
void trace_event_write(struct trace_writer *writer, const struct event *event,
                       const struct event *end, uint32_t thread);

/* Room and the comma before anything in the list of events; then, behind its name, the
 * process, the thread and the key of the time. */
void trace_event_begin(struct trace_writer *writer);
void trace_event_where(struct trace_writer *writer, int64_t pid, int64_t tid);

/* Readers in JavaScript reckon in doubles: what touches in ns may then overlap by a
 * rounding, and they nest the next step into this one. Steps and phases touch, so they
 * give way to what follows; a phase may end with its step, and before it. What may stand in
 * a phase gives up as much as it, for where a clock is coarse an op ends in the same tick.
 * Who reads our traces (ingest/file) adds all of this again. */
#define TRACE_STEP_GAP_NS  1
#define TRACE_RANGE_GAP_NS 2

/* What a range of that kind gives up. */
int64_t trace_event_gap_ns(uint8_t kind);

ALWAYS_INLINE int64_t trace_event_shortened_ns(int64_t length_ns, int64_t gap_ns)
{
    return length_ns > gap_ns ? length_ns - gap_ns : 0;
}

#endif
