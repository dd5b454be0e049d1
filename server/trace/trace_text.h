/* Text of a trace: numbers and names into one buffer that is given away when full. */
#ifndef TRACE_TRACE_TEXT_H
#define TRACE_TRACE_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/trace_writer.h"

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

/* Nanoseconds as microseconds with three decimals. */
void trace_text_us(struct trace_text *text, int64_t ns);

/* A JSON string, quotes included, of at most about 4 KiB of text. */
void trace_text_string(struct trace_text *text, const char *string);

#endif
