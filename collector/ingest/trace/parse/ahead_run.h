/* Events of a block that were read before their turn (ahead.h). */
#ifndef INGEST_TRACE_PARSE_AHEAD_RUN_H
#define INGEST_TRACE_PARSE_AHEAD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "ingest/trace/event.h"

/* Of one block: those of real files have some 550 events, with 4 to 6 texts each. */
#define AHEAD_EVENTS 1024u
#define AHEAD_TEXTS  (8 * AHEAD_EVENTS)

/* The value of a key that is a text: where it stands in the block. */
struct ahead_text {
    uint32_t at, length;
    uint16_t event; /* of which it is one */
    uint8_t key;    /* enum trace_key */
    char first;     /* as in struct value */
};

/* Written by the thread before the block is given out, read by the parser after. */
struct ahead_run {
    uint32_t begin, end; /* from the first event's brace to behind the last one's */
    uint32_t entry;      /* of the block's index: the first at or behind `end` */
    uint32_t count, text_count;
    uint32_t unreadable; /* values */
    struct ahead_text texts[AHEAD_TEXTS];
    struct trace_event events[AHEAD_EVENTS]; /* without texts and offset */
};

/* A text of the event that is being read; false when there is no room. */
static inline bool ahead_note(struct ahead_run *run, const struct ahead_text *text)
{
    if (run->text_count == AHEAD_TEXTS)
        return false;
    run->texts[run->text_count] = *text;
    run->texts[run->text_count++].event = (uint16_t)run->count;
    return true;
}

#endif
