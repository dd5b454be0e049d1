/* What the parts of the writer share: text, and one event as text. */
#ifndef TRACE_TRACE_EVENT_H
#define TRACE_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/trace_writer.h"

/* ---- text: numbers and names into one buffer that is given away when full ---- */

/* The longest single event: a name of 4 KiB, every byte of it escaped. */
#define TRACE_EVENT_BYTES (32u * 1024)

struct trace_text {
    char *start, *at, *full; /* full: where an event may no longer begin */
    const struct trace_sink *sink;
    uint64_t given; /* bytes given to the sink */
    bool broken;    /* the sink took no more */
};

/* False without memory. */
bool trace_text_open(struct trace_text *text, const struct trace_sink *sink);
void trace_text_close(struct trace_text *text);
void trace_text_flush(struct trace_text *text);

/* Room for one more event. */
ALWAYS_INLINE void trace_text_begin(struct trace_text *text)
{
    if (UNLIKELY(text->at >= text->full))
        trace_text_flush(text);
}

ALWAYS_INLINE void trace_text_put(struct trace_text *text, const char *bytes,
                                  size_t size)
{
    memcpy(text->at, bytes, size);
    text->at += size;
}

#define TRACE_PUT(text, literal) trace_text_put(text, literal, sizeof(literal) - 1)

/* Decimal digits. */
void trace_text_number(struct trace_text *text, uint64_t number);
void trace_text_signed(struct trace_text *text, int64_t number);

/* A literal, and a number behind it. */
#define TRACE_NUMBER(text, literal, number)                                            \
    (TRACE_PUT(text, literal), trace_text_number(text, number))
#define TRACE_SIGNED(text, literal, number)                                            \
    (TRACE_PUT(text, literal), trace_text_signed(text, number))

/* Nanoseconds as microseconds with three decimals. */
void trace_text_us(struct trace_text *text, int64_t ns);

/* A JSON string, quotes included, of at most about 4 KiB of text. */
void trace_text_string(struct trace_text *text, const char *string);

/* ---- events ---- */

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

/* Calls of the device's runtime; and what runs on the device. */
ALWAYS_INLINE bool trace_event_is_call(uint8_t kind)
{
    return kind == EVENT_SYNC || kind == EVENT_RUNTIME || kind == EVENT_LAUNCH;
}

ALWAYS_INLINE bool trace_event_is_work(uint8_t kind)
{
    return kind == EVENT_KERNEL || kind == EVENT_MEMCPY || kind == EVENT_MEMSET;
}

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
