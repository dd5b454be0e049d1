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

#include "ingest/trace/parse/ahead_run.h"
#include "ingest/trace/parse/parser.h"

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

/* Does a run of events begin where the parser is? */
ALWAYS_INLINE bool ahead_is_here(const struct parser *parser)
{
    return parser->run != NULL && parser->run->begin == parser->pos;
}

/* Gives the run's events away as if they had been read here. */
void ahead_take(struct parser *parser);

#endif
