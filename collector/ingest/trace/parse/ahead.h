/* Events of a block read before their turn, by the thread that reads and scans.
 *
 * What the bytes from one brace on mean is the same whoever looks and whenever, as far as
 * no name is given a number. So the thread guesses where an event begins, reads on from
 * there, and leaves the texts to be interned; the parser takes what was read when it
 * comes to that very brace itself, and interns in the file's order. A wrong guess is
 * never met; behind anything that is no sound event nothing is read ahead.
 */
#ifndef INGEST_TRACE_PARSE_AHEAD_H
#define INGEST_TRACE_PARSE_AHEAD_H

#include "ingest/trace/parse/parser.h"

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

/* The thread's alone. */
struct ahead {
    struct parser parser; /* for its keys and the block that is read */
    struct ahead_run *runs[FEED_BLOCKS];
};

/* NULL when out of memory. */
struct ahead *ahead_new(const struct trace_options *options);
void ahead_free(struct ahead *ahead);

/* As feed_look_ahead: reads what it can of a block that is scanned; NULL when nothing. */
const struct ahead_run *ahead_read(void *user, const struct feed_block *block,
                                   uint32_t room);

/* A text of the event that is being read; false when there is no room. */
bool ahead_note(struct ahead_run *run, const struct ahead_text *text);

/* Does a run of events begin where the parser is? */
ALWAYS_INLINE bool ahead_is_here(const struct parser *parser)
{
    return parser->run != NULL && parser->run->begin == parser->pos;
}

/* Gives the run's events away as if they had been read here. */
void ahead_take(struct parser *parser);

#endif
