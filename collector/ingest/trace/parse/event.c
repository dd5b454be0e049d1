/* One event, from its brace to its brace, along the entries of the scan. */
#include "ingest/trace/parse/fields.h"

/* The value behind a key whose closing quote is before `at`. Nested ones are passed over,
 * `args` but for its brace. False where none stands there, or its end is not known. */
ALWAYS_INLINE bool read_value(struct reading *reading, const char *at, bool is_args,
                              struct value *value)
{
    if (UNLIKELY(*at != ':'))
        at = skip_space(at);
    if (UNLIKELY(*at != ':'))
        return false;
    at++;
    if (*at == ' ')
        at++;
    if (UNLIKELY(parser_is_space(*at)))
        at = skip_space(at);
    value->first = *at;
    value->text = at;
    value->length = 0;
    if (*at == '"') {
        const char *end = reading->text + reading->at[1];

        if (UNLIKELY(reading->text + reading->at[0] != at || !parser_is_end(end[1])))
            return reading->at += 2, false;
        reading->at += 2;
        value->text = at + 1;
        value->length = (uint32_t)(end - at - 1);
        return true;
    }
    if (*at != '{' && *at != '[')
        return true;
    uint32_t next = (uint32_t)(reading->at - reading->parser->index);

    if (UNLIKELY(reading->text + reading->at[0] != at))
        return reading->at++, false;
    if (is_args && *at == '{') {
        reading->at++;
        return true;
    }
    enum parser_result result = parser_nested(reading->parser, &next);

    /* Beyond the known entries when they were too few: see parser_event(). */
    reading->at = reading->parser->index +
                  (result == PARSER_MORE ? reading->parser->count : next);
    value->length = (uint32_t)(reading->text + reading->at[-1] + 1 - at);
    return result == PARSER_DONE;
}

/* ROCm and others write a pointer. */
static bool is_stream_text(const struct field *field, const struct value *value)
{
    return field == &field_table[KEY_STREAM] && value->first == '"' &&
           !is_nothing(value);
}

ALWAYS_INLINE void read_field(struct reading *reading, const struct field *field,
                              const struct value *value)
{
    char *to = (char *)reading->event + field->offset;
    int64_t number;

    if (field->kind > FIELD_UINT32) {
        field_rare(reading, field, value);
        return;
    }
    if (UNLIKELY(!read_integer(reading, value, &number))) {
        if (is_stream_text(field, value)) {
            reading->unreadable--;
            field_stream(reading->event, value);
        }
        return;
    }
    if (field->kind == FIELD_INT64) {
        memcpy(to, &number, sizeof(number));
    } else {
        if (field->kind == FIELD_INT32 ? number != (int32_t)number
                                       : number != (uint32_t)number) {
            if (field == &field_table[KEY_STREAM] && number > 0)
                field_stream(reading->event, value);
            else
                reading->unreadable++;
            return;
        }
        memcpy(to, &number, sizeof(int32_t)); /* the low half stands first */
    }
    reading->event->has |= UINT64_C(1) << field->has;
}

/* Next key, or the brace that ends the object. False when neither stands there. */
ALWAYS_INLINE bool read_key(struct reading *reading, const char **key, uint32_t *length)
{
    const char *at = reading->text + reading->at[0];

    if (*at == '}') {
        *key = NULL;
        reading->at++;
        return true;
    }
    if (UNLIKELY(*at != '"')) {
        reading->at++;
        return false;
    }
    *key = at + 1;
    *length = (uint32_t)(reading->text + reading->at[1] - at - 1);
    reading->at += 2;
    return true;
}

static bool read_args(struct reading *reading)
{
    for (;;) {
        const char *key;
        uint32_t length;
        struct value value;

        if (UNLIKELY(!read_key(reading, &key, &length)))
            return false;
        if (key == NULL)
            return true;
        if (UNLIKELY(!read_value(reading, key + length + 1, false, &value)))
            return false;
        uint32_t known = words_find(&reading->parser->keys, key, length);

        if (known >= KEY_FINISHED)
            read_field(reading, &field_table[known], &value);
    }
}

static void read_time(struct reading *reading, const struct value *value, int64_t *ns,
                      uint64_t has)
{
    reading->event->has &= ~has;
    if (LIKELY(ends_well(value, number_us_to_ns(value->text, ns))))
        reading->event->has |= has;
    else if (!is_nothing(value))
        reading->bad_time = true;
}

/* Of a string of one printable character of ASCII; '\0' of any other value. */
static char letter(const struct value *value)
{
    if (value->first != '"' || value->length != 1)
        return '\0';
    return *value->text > ' ' && *value->text < 0x7f ? *value->text : '\0';
}

static void read_member(struct reading *reading, uint32_t key,
                        const struct value *value)
{
    struct trace_event *event = reading->event;

    switch (key) {
    case KEY_PHASE:
        event->phase = letter(value);
        return;
    case KEY_NAME:
    case KEY_CATEGORY:
    case KEY_PID:
    case KEY_TID:
        field_text_of_key(reading, key, value);
        return;
    case KEY_TIME:
        read_time(reading, value, &event->time_ns, TRACE_HAS_TIME);
        return;
    case KEY_DURATION:
        read_time(reading, value, &event->duration_ns, TRACE_HAS_DURATION);
        return;
    case KEY_ID:
        field_flow(event, value);
        return;
    case KEY_SCOPE:
        event->scope = letter(value);
        return;
    case KEY_BINDING:
        if (letter(value) == 'e')
            event->has |= TRACE_BINDS_ENCLOSING;
        return;
    case KEY_FINISHED:
        if (is_false(value))
            event->has |= TRACE_UNFINISHED;
        return;
    default:
        return;
    }
}

static bool read_members(struct reading *reading)
{
    struct trace_event *event = reading->event;

    for (;;) {
        const char *key;
        uint32_t length;
        struct value value;

        if (UNLIKELY(!read_key(reading, &key, &length)))
            return false;
        if (key == NULL)
            return true;
        uint32_t known = words_find(&reading->parser->keys, key, length);

        if (UNLIKELY(!read_value(reading, key + length + 1, known == KEY_ARGS, &value)))
            return false;
        if (known != KEY_ARGS) {
            read_member(reading, known, &value);
            continue;
        }
        if (value.first != '{')
            continue;
        if (UNLIKELY(!read_args(reading)))
            return false;
        event->args_at = (uint32_t)(value.text - event->text);
        event->args_length =
            (uint32_t)(reading->text + reading->at[-1] + 1 - value.text);
    }
}

/* TRACE_SKIPS when nothing is missing. */
static enum trace_skip what_is_missing(const struct reading *reading)
{
    const struct trace_event *event = reading->event;

    if (event->phase == '\0')
        return TRACE_SKIP_NO_PHASE;
    if (event->phase == 'M')
        return TRACE_SKIPS;
    if (reading->bad_time)
        return TRACE_SKIP_TIME;
    if ((event->has & TRACE_HAS_TIME) == 0)
        return TRACE_SKIP_NO_TIME;
    if (event->phase == 'X' && (event->has & TRACE_HAS_DURATION) == 0)
        return TRACE_SKIP_NO_DURATION;
    return TRACE_SKIPS;
}

/* In pieces that compilers make a few stores of; as a whole they make a slow loop. */
ALWAYS_INLINE void clear(struct trace_event *event)
{
    char *bytes = (char *)event;

    _Static_assert(sizeof(*event) > 192 && sizeof(*event) <= 256, "pieces of 64");
    memset(bytes, 0, 64);
    memset(bytes + 64, 0, 64);
    memset(bytes + 128, 0, 64);
    memset(bytes + 192, 0, sizeof(*event) - 192);
}

enum parser_result event_read(struct reading *reading, uint32_t pos,
                              enum trace_skip *skip)
{
    const struct parser *parser = reading->parser;
    const uint32_t *end = parser->index + parser->count;
    struct trace_event *event = reading->event;

    clear(event);
    event->text = reading->text + pos;
    /* What was met behind the known entries may only have been their end. */
    if (UNLIKELY(!read_members(reading)))
        return reading->at >= end ? PARSER_MORE : PARSER_BAD;
    if (UNLIKELY(reading->at > end))
        return PARSER_MORE;
    *skip = what_is_missing(reading);
    event->length = reading->at[-1] + 1 - pos;
    return PARSER_DONE;
}

enum parser_result parser_event(struct parser *parser)
{
    struct trace_event *event = &parser->batch[parser->batch_count];
    struct reading reading = {
        .parser = parser,
        .text = parser->text,
        .at = parser->index + parser->next + 1,
        .event = event,
    };
    uint32_t pos = parser->pos;
    enum trace_skip skip;
    enum parser_result result = event_read(&reading, pos, &skip);

    if (UNLIKELY(result != PARSER_DONE))
        return result;
    event->offset = parser->offset + pos;
    parser->next = (uint32_t)(reading.at - parser->index);
    parser->pos = pos + event->length;
    parser->report->values_unreadable += reading.unreadable;
    parser->report->names_refused += reading.refused;
    if (UNLIKELY(skip != TRACE_SKIPS))
        parser_skip(parser, skip, pos);
    else if (++parser->batch_count == TRACE_BATCH)
        parser_flush(parser);
    return PARSER_DONE;
}
