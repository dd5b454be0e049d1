/* From the text of one value to a field of the event. */
#ifndef INGEST_TRACE_PARSE_FIELDS_H
#define INGEST_TRACE_PARSE_FIELDS_H

#include "ingest/trace/parse/parser.h"
#include "ingest/trace/scan/number.h"

/* Where the reading of one event is. */
struct reading {
    struct parser *parser;
    const char *text;
    const uint32_t *at; /* the next entry */
    struct trace_event *event;
    uint32_t unreadable, refused; /* values, names */
    bool bad_time;
    struct ahead_run *run; /* texts are noted in it; NULL: interned at once */
    bool no_room;          /* in `run` */
};

/* A value: what stands between its quotes, from its bracket to its bracket, or where a
 * number begins, whose length is not known. */
struct value {
    const char *text;
    uint32_t length;
    char first;
};

enum field_kind {
    FIELD_NONE,
    FIELD_INT64,
    FIELD_INT32,
    FIELD_UINT32,
    FIELD_REAL,
    FIELD_TRIPLE, /* [1, 2, 3] */
    FIELD_TEXT,
    FIELD_SHAPES, /* a list of lists, as text, when asked for */
    FIELD_STACKS, /* a text, when asked for */
    FIELD_FINISHED,
};

struct field {
    uint8_t kind;
    uint16_t offset;
    uint32_t has; /* bit number */
};

/* By enum trace_key, from KEY_FINISHED on: those of args. */
extern const struct field field_table[];

/* A number ends where a value may end; in quotes, at the closing one. */
ALWAYS_INLINE bool ends_well(const struct value *value, const char *end)
{
    return end != NULL && (value->first == '"' ? end == value->text + value->length
                                               : parser_is_end(*end));
}

/* null, None and "" say that there is no value, which is no mistake. */
ALWAYS_INLINE bool is_nothing(const struct value *value)
{
    return (value->first == '"' && value->length == 0) ||
           memcmp(value->text, "null", 4) == 0 || memcmp(value->text, "None", 4) == 0;
}

ALWAYS_INLINE bool read_integer(struct reading *reading, const struct value *value,
                                int64_t *number)
{
    if (LIKELY(ends_well(value, number_integer(value->text, number))))
        return true;
    reading->unreadable += !is_nothing(value);
    return false;
}

ALWAYS_INLINE bool is_false(const struct value *value)
{
    return memcmp(value->text, "false", 5) == 0 || memcmp(value->text, "False", 5) == 0;
}

ALWAYS_INLINE uint32_t intern(struct reading *reading, const char *text,
                              uint32_t length)
{
    uint32_t id = trace_names_intern(reading->parser->names, text, length);

    reading->refused += id == TRACE_NAMES_OTHER;
    return id;
}

/* Reads the event at `pos`, an opening brace, whose first entry is reading->at; behind it
 * when DONE. *skip is TRACE_SKIPS when nothing is missing. */
enum parser_result event_read(struct reading *reading, uint32_t pos,
                              enum trace_skip *skip);

/* Interns the value of a key that is a text, or notes it in the run. */
void field_text_of_key(struct reading *reading, uint32_t key,
                       const struct value *value);
/* A stream that is no small number. */
void field_stream(struct trace_event *event, const struct value *value);
void field_flow(struct trace_event *event, const struct value *value);
/* Any field that is no whole number; `field` is in field_table. */
void field_rare(struct reading *reading, const struct field *field,
                const struct value *value);

#endif
