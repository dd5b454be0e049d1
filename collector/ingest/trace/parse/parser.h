/* Bytes of JSON to events: a state machine over pieces of text, resumable anywhere.
 *
 * A piece begins where the one before was not yet understood, so that whatever is being
 * read (an event, a key with its value) begins in the piece and is read anew when more
 * of it came. Nothing is kept of a string's inside; damage is met where it happens, as
 * after each string must stand what may stand there.
 */
#ifndef INGEST_TRACE_PARSE_PARSER_H
#define INGEST_TRACE_PARSE_PARSER_H

#include "ingest/trace/feed/feed.h"
#include "ingest/trace/reader.h"
#include "ingest/trace/scan/scan.h"
#include "ingest/trace/scan/words.h"

/* What stands around the events: kept as text, bounded, and the few numbers read. */
struct head {
    struct trace_head seen;
    struct trace_span spans[TRACE_SPANS_MAX];
    size_t bytes;
};

/* Keeps copies of key and value, or counts that it cannot. `span` is cut when its value
 * is only a beginning. */
void head_add(struct head *head, const struct trace_span *span);
void head_close(struct head *head);

/* Of a file without an event, what it is that people take for a trace; NULL where nothing
 * tells. */
const char *head_stranger(const struct trace_head *head,
                          const struct trace_report *report);

enum parser_state {
    PARSER_START,  /* nothing was seen */
    PARSER_TOP,    /* among the keys of the top-level object */
    PARSER_EVENTS, /* in the list of events */
    PARSER_LEAP,   /* inside a value of the top level that is too long to be kept */
    PARSER_SEEK,   /* behind damage: looking for what an event or a key begins with */
    PARSER_END,    /* behind the end */
};

/* A category's spelling in this file. */
struct parser_category {
    uint32_t name;
    uint8_t category;
};

#define PARSER_WORDS_MAX (WORD_SLOTS / 2)

struct parser {
    const char *text; /* the piece: text[begin .. length), zeros behind it */
    uint32_t begin, length, pos;
    uint64_t offset;                /* of text[0] in the file */
    bool last;                      /* nothing follows */
    const struct feed_block *ahead; /* the piece's last bytes, scanned ahead; or NULL */
    const struct ahead_run *run;    /* events in them that are read already; or NULL */

    trace_scan *scan;
    struct trace_scan_state scan_state; /* at `scanned` */
    uint32_t scanned;
    uint32_t window; /* at most so much is scanned next */
    uint32_t
        *index; /* entries of text[.. scanned); behind them some that say `length` */
    uint32_t room, count, next; /* next: first entry at or behind `pos` */

    enum parser_state state;
    uint32_t leap_depth;
    bool leap_in_string;
    bool has_events; /* a list of events was seen */
    bool is_lines;   /* events without a list around them, as in JSON Lines */
    bool is_over;    /* a second document began: nothing more is read */
    bool stopped;    /* by the callback, or out of memory */
    int error;       /* negative errno */

    bool shapes, stacks;
    struct words keys, categories, seen_categories, seen_tokens;
    struct parser_category category_list[PARSER_WORDS_MAX];
    uint32_t category_count, token_count;

    struct trace_names *names;
    struct head *head;
    struct trace_report *report;
    trace_on_batch *on_batch;
    void *user;
    struct trace_event batch[TRACE_BATCH];
    uint32_t batch_count;
};

enum parser_result {
    PARSER_DONE,
    PARSER_MORE, /* the entries end before it does */
    PARSER_BAD,
};

/* The fields not listed are zero: see trace_reader_new(). */
MUST_CHECK int parser_open(struct parser *parser, enum trace_scan_kind scan);
void parser_close(struct parser *parser);

/* A piece of text: bytes[begin .. end), zeros behind them. */
struct parser_piece {
    const char *bytes;
    uint32_t begin, end;
    uint64_t offset; /* of bytes[begin] in the file */
    const struct feed_block *ahead;
    bool last;
};

/* Reads a piece; returns where it is done with it: the bytes from there on begin the next
 * piece. With `last` that is the end. */
uint32_t parser_take(struct parser *parser, const struct parser_piece *piece);

/* ---- between the parts of the parser ---- */

/* More entries behind the known ones; false when all of the piece is scanned. */
bool parser_refill(struct parser *parser);
/* Forgets all entries: the text from `pos` on is outside of strings. */
void parser_restart(struct parser *parser, uint32_t pos);
/* Goes on behind what was read ahead: `pos` is outside of strings, `entry` the first of
 * the block's index at or behind it. */
void parser_go_on(struct parser *parser, uint32_t pos, uint32_t entry);
/* Reads the event at pos, an opening brace and the next entry. DONE: a batch may have
 * been given away; it may also have been skipped for a reason. */
enum parser_result parser_event(struct parser *parser);
/* Moves beyond a nested value that begins at the entry *next. */
enum parser_result parser_nested(const struct parser *parser, uint32_t *next);
void parser_skip(struct parser *parser, enum trace_skip reason, uint32_t pos);
void parser_flush(struct parser *parser);
/* Looks for what an event or a key begins with; false when there is none. */
bool parser_seek(struct parser *parser);
/* Is the document's first brace, at `pos`, that of an event, not of an object around a
 * list of them? MORE: the piece ends before that is known. */
enum parser_result parser_begins_lines(const struct parser *parser, uint32_t pos);

ALWAYS_INLINE bool parser_is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

ALWAYS_INLINE const char *skip_space(const char *at)
{
    while (parser_is_space(*at))
        at++;
    return at;
}

/* What may stand behind a value. */
ALWAYS_INLINE bool parser_is_end(char byte)
{
    return byte == ',' || byte == '}' || byte == ']' || parser_is_space(byte);
}

#endif
