/* The document around the events: keys at both ends, the list, and the way back into it
 * after damage. */
#include <errno.h>
#include <stdio.h>

#include "ingest/trace/parse/ahead.h"

/* A key and value of the top level that are not whole within so many bytes are too long
 * to be kept. */
#define ITEM_BYTES_MAX (TRACE_SPAN_BYTES_MAX + 4096)

void parser_skip(struct parser *parser, enum trace_skip reason, uint32_t pos)
{
    struct trace_report *report = parser->report;

    if (report->skipped[reason]++ == 0)
        report->first_offset[reason] = parser->offset + pos;
}

void parser_flush(struct parser *parser)
{
    uint32_t count = parser->batch_count;

    parser->batch_count = 0;
    if (count == 0 || parser->stopped)
        return;
    parser->report->events += count;
    if (!parser->on_batch(parser->user, parser->batch, count)) {
        parser->stopped = true;
        parser->error = -ECANCELED;
    }
}

static void note(struct parser *parser, const char *what)
{
    unsigned long long at = parser->offset + parser->pos;

    if (parser->report->error[0] == '\0')
        snprintf(parser->report->error, sizeof(parser->report->error),
                 "%s at byte %llu", what, at);
}

/* The byte at which the next item begins, its entry in place where it has one; '\0' when
 * more text is needed. */
static char next_item(struct parser *parser)
{
    const char *text = parser->text;
    uint32_t pos = parser->pos;

    while (text[pos] == ',' || parser_is_space(text[pos]))
        pos++;
    parser->pos = pos;
    if (pos >= parser->length)
        return '\0';
    while (pos >= parser->scanned)
        if (!parser_refill(parser))
            return '\0';
    while (parser->next < parser->count && parser->index[parser->next] < pos)
        parser->next++;
    /* A byte 0 within the text is no end, but damage. */
    return text[pos] == '\0' ? '?' : text[pos];
}

static bool has_entry(const struct parser *parser)
{
    return parser->next < parser->count && parser->index[parser->next] == parser->pos;
}

static void seek_behind(struct parser *parser, uint32_t pos)
{
    parser->pos = pos;
    parser->state = PARSER_SEEK;
}

/* An event that does not end in this piece; false when the next one may help. */
static bool unfinished_event(struct parser *parser)
{
    uint32_t pos = parser->pos;

    if (parser->length - pos > TRACE_EVENT_BYTES_MAX) {
        parser_skip(parser, TRACE_SKIP_LONG, pos);
        seek_behind(parser, pos + 1);
        return true;
    }
    if (!parser->last || parser->stopped)
        return false;
    /* The file may go on behind a quote that was never closed. */
    parser_skip(parser, TRACE_SKIP_CUT, pos);
    seek_behind(parser, pos + 1);
    return true;
}

/* Something else than an event in the list; false when more text is needed. */
static bool step_stranger(struct parser *parser, char first)
{
    uint32_t pos = parser->pos, next = parser->next;
    enum parser_result result = PARSER_BAD;

    if ((first == '[' || first == '"') && has_entry(parser)) {
        result = first == '[' ? parser_nested(parser, &next) : PARSER_DONE;
        if (first == '"') {
            next += 2;
            result = next > parser->count ? PARSER_MORE
                     : parser_is_end(parser->text[parser->index[next - 1] + 1])
                         ? PARSER_DONE
                         : PARSER_BAD;
        }
        if (result == PARSER_DONE)
            parser->pos = parser->index[next - 1] + 1;
    } else if (first == '-' || (first >= '0' && first <= '9') ||
               ((first | 0x20) >= 'a' && (first | 0x20) <= 'z')) {
        while (!parser_is_end(parser->text[pos]) && parser->text[pos] != '\0' &&
               parser->text[pos] != '"')
            pos++;
        result = pos >= parser->length              ? PARSER_MORE
                 : parser_is_end(parser->text[pos]) ? PARSER_DONE
                                                    : PARSER_BAD;
        if (result == PARSER_DONE) {
            parser_skip(parser, TRACE_SKIP_NO_OBJECT, parser->pos);
            parser->pos = pos;
            return true;
        }
    }
    if (result == PARSER_MORE)
        return parser_refill(parser) || unfinished_event(parser);
    parser_skip(parser,
                result == PARSER_DONE ? TRACE_SKIP_NO_OBJECT : TRACE_SKIP_SYNTAX, pos);
    if (result == PARSER_DONE) {
        parser->next = next;
        parser->report->lists += first == '[' ? 1 : 0;
    } else {
        seek_behind(parser, pos + 1);
    }
    return true;
}

static bool step_events(struct parser *parser)
{
    while (!parser->stopped) {
        char first = next_item(parser);

        if (first == '\0')
            return false;
        if (first == ']') {
            parser->pos++;
            parser->state = parser->head->seen.is_array ? PARSER_END : PARSER_TOP;
            return true;
        }
        if (first != '{' || !has_entry(parser))
            return step_stranger(parser, first);
        if (ahead_is_here(parser)) {
            ahead_take(parser);
            continue;
        }
        enum parser_result result = parser_event(parser);

        if (LIKELY(result == PARSER_DONE))
            continue;
        if (result == PARSER_MORE && parser_refill(parser))
            continue;
        if (result == PARSER_MORE)
            return unfinished_event(parser);
        parser_skip(parser, TRACE_SKIP_SYNTAX, parser->pos);
        seek_behind(parser, parser->pos + 1);
        return true;
    }
    return false;
}

static void add_span(struct parser *parser, uint32_t value, uint32_t end, bool cut)
{
    const uint32_t *entry = parser->index + parser->next;
    uint32_t length = end - value;

    if (length > TRACE_SPAN_BYTES_MAX)
        length = TRACE_SPAN_BYTES_MAX;
    head_add(parser->head, &(struct trace_span){
                               .key = parser->text + entry[0] + 1,
                               .key_length = entry[1] - entry[0] - 1,
                               .value = parser->text + value,
                               .length = length,
                               .offset = parser->offset + entry[0],
                               .cut = cut || length < end - value,
                           });
}

/* Where the value that begins at `value` ends; 0 when that is not known. */
static uint32_t value_end(struct parser *parser, uint32_t value, uint32_t *next,
                          enum parser_result *result)
{
    const char *text = parser->text;
    uint32_t end = value;
    char first = text[value];

    if (first == '{' || first == '[') {
        *result = parser_nested(parser, next);
        return *result == PARSER_DONE ? parser->index[*next - 1] + 1 : 0;
    }
    if (first == '"') {
        *next += 2;
        end = *next > parser->count ? parser->length : parser->index[*next - 1] + 1;
    } else {
        while (!parser_is_end(text[end]) && text[end] != '\0' && text[end] != '"')
            end++;
    }
    *result = end >= parser->length                     ? PARSER_MORE
              : parser_is_end(text[end]) && end > value ? PARSER_DONE
                                                        : PARSER_BAD;
    return end;
}

/* A key with its value does not end in this piece. */
static bool unfinished_item(struct parser *parser, uint32_t value)
{
    if (parser_refill(parser))
        return true;
    if (parser->length - parser->pos <= ITEM_BYTES_MAX) {
        if (parser->last)
            parser->pos = parser->length;
        return false;
    }
    if (value == 0 || parser->next + 2 > parser->count) { /* a key without end */
        note(parser, "damaged");
        seek_behind(parser, parser->pos + 1);
        return true;
    }
    add_span(parser, value, parser->length, true);
    parser->state = PARSER_LEAP;
    parser->leap_depth = 0;
    parser->leap_in_string = false;
    parser_restart(parser, value);
    return true;
}

static bool step_item(struct parser *parser)
{
    const char *text = parser->text;
    const uint32_t *entry = parser->index + parser->next;
    uint32_t next = parser->next + 2;

    if (next > parser->count)
        return unfinished_item(parser, 0);
    uint32_t value = entry[1] + 1;

    while (parser_is_space(text[value]))
        value++;
    bool colon = text[value] == ':';

    value += colon;
    while (parser_is_space(text[value]))
        value++;
    if (value >= parser->scanned)
        return unfinished_item(parser, value < parser->length ? value : 0);
    if (colon && text[value] == '[' && entry[1] - entry[0] == sizeof("traceEvents") &&
        memcmp(text + entry[0] + 1, "traceEvents", 11) == 0) {
        parser->pos = value + 1;
        parser->next = next + 1;
        parser->has_events = true;
        parser->state = PARSER_EVENTS;
        return true;
    }
    enum parser_result result = colon ? PARSER_DONE : PARSER_BAD;
    uint32_t end = colon ? value_end(parser, value, &next, &result) : 0;

    if (result == PARSER_MORE)
        return unfinished_item(parser, value);
    if (result == PARSER_BAD) {
        note(parser, "damaged");
        seek_behind(parser, parser->pos + 1);
        return true;
    }
    add_span(parser, value, end, false);
    parser->pos = end;
    parser->next = next;
    return true;
}

static bool step_top(struct parser *parser)
{
    char first = next_item(parser);

    if (first == '\0')
        return false;
    if (first == '"' && has_entry(parser))
        return step_item(parser);
    if (first == '}') {
        parser->pos++;
        parser->state = PARSER_END;
        return true;
    }
    note(parser, "damaged");
    seek_behind(parser, parser->pos);
    return true;
}

/* The inside of a value of the top level, gone through without being kept. */
static bool step_leap(struct parser *parser)
{
    const char *text = parser->text;

    while (parser->next < parser->count) {
        uint32_t at = parser->index[parser->next++];
        bool closes = text[at] == ']' || text[at] == '}';

        if (text[at] == '"') {
            parser->leap_in_string = !parser->leap_in_string;
            closes = !parser->leap_in_string;
            if (closes && at + 1 < parser->length && !parser_is_end(text[at + 1]) &&
                text[at + 1] != ':') {
                parser->pos = at;
                note(parser, "damaged");
                seek_behind(parser, at);
                return true;
            }
        } else if (closes) {
            parser->leap_depth -= parser->leap_depth > 0;
        } else {
            parser->leap_depth++;
        }
        if (closes && parser->leap_depth == 0) {
            parser->pos = at + 1;
            parser->state = PARSER_TOP;
            return true;
        }
    }
    parser->pos = parser->scanned;
    return parser_refill(parser);
}

static bool step_start(struct parser *parser)
{
    const char *text = parser->text;
    static const char mark[] = "\xef\xbb\xbf";

    if (parser->offset + parser->pos == 0 && memcmp(text + parser->pos, mark, 3) == 0)
        parser->pos += 3;
    while (parser_is_space(text[parser->pos]))
        parser->pos++;
    if (parser->pos >= parser->length)
        return false;
    if (text[parser->pos] == '{') {
        /* The document's, or that of the first of many events, one on each line. */
        enum parser_result event = parser_begins_lines(parser, parser->pos);

        if (event == PARSER_MORE && !parser->last)
            return false;
        parser->is_lines = parser->has_events = event == PARSER_DONE;
        parser->state = parser->is_lines ? PARSER_EVENTS : PARSER_TOP;
        parser_restart(parser, parser->pos + !parser->is_lines);
        return true;
    }
    parser_restart(parser, parser->pos);
    parser->state = text[parser->pos] == '[' ? PARSER_EVENTS : PARSER_SEEK;
    if (parser->state == PARSER_SEEK)
        note(parser, "neither an object nor a list");
    else
        parser->pos++;
    parser->has_events = parser->head->seen.is_array = parser->state == PARSER_EVENTS;
    return true;
}

static bool step_end(struct parser *parser)
{
    const char *text = parser->text;

    while (parser_is_space(text[parser->pos]))
        parser->pos++;
    if (parser->pos >= parser->length || parser->is_over) {
        parser->pos = parser->length;
        return false;
    }
    enum parser_result event = text[parser->pos] == '{'
                                   ? parser_begins_lines(parser, parser->pos)
                                   : PARSER_BAD;

    if (event == PARSER_MORE && !parser->last)
        return false;
    if (text[parser->pos] == '[' ||
        (text[parser->pos] == '{' && event != PARSER_DONE)) {
        /* Behind a document with events another one is another trace, as where files were
         * joined to one: nothing of it is read. Behind one without events it is the trace. */
        unsigned long long at = parser->offset + parser->pos;

        if (parser->has_events && parser->report->error[0] == '\0')
            snprintf(
                parser->report->error, sizeof(parser->report->error),
                "a second document begins at byte %llu: it is not read, as one file is "
                "one trace; give each a file of its own",
                at);
        parser->is_over = parser->has_events;
        parser->state = parser->has_events ? parser->state : PARSER_START;
        return true;
    }
    note(parser, "something stands behind the end");
    seek_behind(parser, parser->pos);
    return true;
}

static bool step(struct parser *parser)
{
    switch (parser->state) {
    case PARSER_START:
        return step_start(parser);
    case PARSER_TOP:
        return step_top(parser);
    case PARSER_EVENTS:
        return step_events(parser);
    case PARSER_LEAP:
        return step_leap(parser);
    case PARSER_SEEK:
        return parser_seek(parser);
    case PARSER_END:
        return step_end(parser);
    }
    return false;
}

uint32_t parser_take(struct parser *parser, const struct parser_piece *piece)
{
    struct trace_scan_state carried = parser->scan_state;

    parser->text = piece->bytes;
    parser->begin = piece->begin;
    parser->length = piece->end;
    parser->offset = piece->offset - piece->begin; /* may wrap, and wraps back */
    parser->last = piece->last;
    parser->ahead = piece->ahead;
    parser->run = piece->ahead != NULL ? piece->ahead->run : NULL;
    parser_restart(parser, piece->begin);
    if (parser->state == PARSER_LEAP) /* the only state that begins inside of strings */
        parser->scan_state = carried;
    while (!parser->stopped && step(parser))
        ;
    parser_flush(parser); /* the text of the events ends here */
    if (piece->last && parser->is_lines && parser->state == PARSER_EVENTS)
        parser->state = PARSER_END;
    return piece->last ? piece->end : parser->pos;
}
