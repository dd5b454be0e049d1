/* One event, from its brace to its brace, along the entries of the scan. */
#include <stddef.h>

#include "ingest/trace/parser.h"
#include "ingest/trace/scan/number.h"

/* Where the reading of one event is. */
struct reading {
    struct parser *parser;
    const char *text;
    const uint32_t *at; /* the next entry */
    struct trace_event *event;
    uint32_t unreadable, refused; /* values, names */
    bool bad_time;
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

#define BIT(mask) (uint32_t) __builtin_ctzll(mask)
#define FIELD(kind, member, bit)                                                       \
    {                                                                                  \
        kind, offsetof(struct trace_event, member), BIT(bit)                           \
    }
#define TEXT(kind, member)                                                             \
    {                                                                                  \
        kind, offsetof(struct trace_event, member), 63                                 \
    }

static const struct field fields[] = {
    [KEY_FINISHED] = {FIELD_FINISHED, 0, 63},
    [KEY_CORRELATION] = FIELD(FIELD_INT64, correlation, TRACE_HAS_CORRELATION),
    [KEY_EXTERNAL_ID] = FIELD(FIELD_INT64, external_id, TRACE_HAS_EXTERNAL_ID),
    [KEY_DEVICE] = FIELD(FIELD_INT32, device, TRACE_HAS_DEVICE),
    [KEY_STREAM] = FIELD(FIELD_INT32, stream, TRACE_HAS_STREAM),
    [KEY_CONTEXT] = FIELD(FIELD_INT32, context, TRACE_HAS_CONTEXT),
    [KEY_BYTES] = FIELD(FIELD_INT64, bytes, TRACE_HAS_BYTES),
    [KEY_TOTAL_ALLOCATED] =
        FIELD(FIELD_INT64, total_allocated_bytes, TRACE_HAS_TOTAL_ALLOCATED),
    [KEY_TOTAL_RESERVED] =
        FIELD(FIELD_INT64, total_reserved_bytes, TRACE_HAS_TOTAL_RESERVED),
    [KEY_ADDRESS] = FIELD(FIELD_INT64, address, TRACE_HAS_ADDRESS),
    [KEY_DEVICE_TYPE] = FIELD(FIELD_INT32, device_type, TRACE_HAS_DEVICE_TYPE),
    [KEY_DEVICE_ID] = FIELD(FIELD_INT32, device_id, TRACE_HAS_DEVICE_ID),
    [KEY_GRID] = FIELD(FIELD_TRIPLE, grid, TRACE_HAS_GRID),
    [KEY_BLOCK] = FIELD(FIELD_TRIPLE, block, TRACE_HAS_BLOCK),
    [KEY_REGISTERS] = FIELD(FIELD_UINT32, registers, TRACE_HAS_REGISTERS),
    [KEY_SHARED_MEMORY] =
        FIELD(FIELD_UINT32, shared_memory_bytes, TRACE_HAS_SHARED_MEMORY),
    [KEY_OCCUPANCY] = FIELD(FIELD_REAL, occupancy_pct, TRACE_HAS_OCCUPANCY),
    [KEY_SEQUENCE] = FIELD(FIELD_INT64, sequence, TRACE_HAS_SEQUENCE),
    [KEY_FORWARD_THREAD] = FIELD(FIELD_INT64, forward_thread, TRACE_HAS_FORWARD_THREAD),
    [KEY_SHAPES] = TEXT(FIELD_SHAPES, shapes),
    [KEY_TYPES] = TEXT(FIELD_SHAPES, types),
    [KEY_STACK] = TEXT(FIELD_STACKS, stack),
    [KEY_MODULE] = TEXT(FIELD_STACKS, module),
    [KEY_PYTHON_ID] = FIELD(FIELD_INT64, python_id, TRACE_HAS_PYTHON_ID),
    [KEY_PYTHON_PARENT_ID] =
        FIELD(FIELD_INT64, python_parent_id, TRACE_HAS_PYTHON_PARENT_ID),
    [KEY_PYTHON_MODULE_ID] =
        FIELD(FIELD_INT64, python_module_id, TRACE_HAS_PYTHON_MODULE_ID),
    [KEY_COLLECTIVE] = TEXT(FIELD_TEXT, collective),
};

enum parser_result parser_nested(const struct parser *parser, uint32_t *next)
{
    const char *text = parser->text;
    const uint32_t *index = parser->index;
    uint32_t at = *next, depth = 0;

    do {
        char byte = text[index[at++]];

        if (byte == '"') {
            char behind = text[index[at++] + 1];

            if (UNLIKELY(!parser_is_end(behind) && behind != ':'))
                return at >= parser->count ? PARSER_MORE : PARSER_BAD;
        } else if (byte == '[' || byte == '{') {
            depth++;
        } else if (byte == ']' || byte == '}') {
            depth--;
        } else {
            return PARSER_MORE;
        }
    } while (depth > 0);
    *next = at;
    return PARSER_DONE;
}

ALWAYS_INLINE const char *skip_space(const char *at)
{
    while (parser_is_space(*at))
        at++;
    return at;
}

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

    /* Beyond the known entries when they were too few: see failed(). */
    reading->at = reading->parser->index +
                  (result == PARSER_MORE ? reading->parser->count : next);
    value->length = (uint32_t)(reading->text + reading->at[-1] + 1 - at);
    return result == PARSER_DONE;
}

/* A number ends where a value may end; in quotes, at the closing one. */
static bool ends_well(const struct value *value, const char *end)
{
    return end != NULL && (value->first == '"' ? end == value->text + value->length
                                               : parser_is_end(*end));
}

/* null, None and "" say that there is no value, which is no mistake. */
static bool is_nothing(const struct value *value)
{
    return (value->first == '"' && value->length == 0) ||
           memcmp(value->text, "null", 4) == 0 || memcmp(value->text, "None", 4) == 0;
}

static bool read_integer(struct reading *reading, const struct value *value,
                         int64_t *number)
{
    if (LIKELY(ends_well(value, number_integer(value->text, number))))
        return true;
    reading->unreadable += !is_nothing(value);
    return false;
}

static bool read_triple(struct reading *reading, const struct value *value,
                        uint32_t numbers[3])
{
    const char *at = value->text;

    for (int i = 0; i < 3; i++) {
        int64_t number;
        const char *end = number_integer(skip_space(at + 1), &number);

        if (end == NULL || number < 0 || number > UINT32_MAX)
            return reading->unreadable++, false;
        numbers[i] = (uint32_t)number;
        at = skip_space(end);
        if (*at != (i == 2 ? ']' : ','))
            return reading->unreadable++, false;
    }
    return true;
}

ALWAYS_INLINE uint32_t intern(struct reading *reading, const char *text,
                              uint32_t length)
{
    uint32_t id = trace_names_intern(reading->parser->names, text, length);

    reading->refused += id == TRACE_NAMES_OTHER;
    return id;
}

/* Shapes of any white space are one text. */
static uint32_t intern_list(struct reading *reading, const struct value *value)
{
    char dense[TRACE_NAME_BYTES_MAX];
    uint32_t length = 0;

    for (uint32_t i = 0; i < value->length && length < sizeof(dense); i++)
        if (!parser_is_space(value->text[i]))
            dense[length++] = value->text[i];
    return intern(reading, dense, length);
}

static uint32_t intern_value(struct reading *reading, const struct value *value)
{
    uint32_t length = value->length;

    if (value->first != '"' && value->first != '[' && value->first != '{')
        while (!parser_is_end(value->text[length]) && value->text[length] != '\0')
            length++;
    return intern(reading, value->text, length);
}

static uint32_t read_text(struct reading *reading, enum field_kind kind,
                          const struct value *value)
{
    if (kind == FIELD_SHAPES)
        return !reading->parser->shapes ? 0
               : value->first == '['    ? intern_list(reading, value)
                                        : intern_value(reading, value);
    if (kind == FIELD_STACKS && !reading->parser->stacks)
        return 0;
    return intern_value(reading, value);
}

static bool is_false(const struct value *value)
{
    return memcmp(value->text, "false", 5) == 0 || memcmp(value->text, "False", 5) == 0;
}

static void read_rare_field(struct reading *reading, const struct field *field,
                            const struct value *value)
{
    char *to = (char *)reading->event + field->offset;
    double real;

    switch (field->kind) {
    case FIELD_TRIPLE: {
        uint32_t numbers[3];

        if (value->first != '[') {
            reading->unreadable += !is_nothing(value);
            return;
        }
        if (!read_triple(reading, value, numbers))
            return;
        memcpy(to, numbers, sizeof(numbers));
        break;
    }
    case FIELD_REAL: {
        if (!ends_well(value, number_real(value->text, &real))) {
            reading->unreadable += !is_nothing(value);
            return;
        }
        float share = (float)real;

        memcpy(to, &share, sizeof(share));
        break;
    }
    case FIELD_FINISHED:
        if (is_false(value))
            reading->event->has |= TRACE_UNFINISHED;
        return;
    default: {
        uint32_t id = read_text(reading, field->kind, value);

        memcpy(to, &id, sizeof(id));
        return;
    }
    }
    reading->event->has |= UINT64_C(1) << field->has;
}

ALWAYS_INLINE void read_field(struct reading *reading, const struct field *field,
                              const struct value *value)
{
    char *to = (char *)reading->event + field->offset;
    int64_t number;

    if (field->kind > FIELD_UINT32) {
        read_rare_field(reading, field, value);
        return;
    }
    if (!read_integer(reading, value, &number))
        return;
    if (field->kind == FIELD_INT64) {
        memcpy(to, &number, sizeof(number));
    } else {
        if (field->kind == FIELD_INT32 ? number != (int32_t)number
                                       : number != (uint32_t)number) {
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
            read_field(reading, &fields[known], &value);
    }
}

/* A pid or tid: few different ones, most of them short. */
static uint32_t read_token(struct reading *reading, const struct value *value)
{
    struct parser *parser = reading->parser;
    uint32_t length = value->length;

    if (value->first != '"')
        while (!parser_is_end(value->text[length]) && value->text[length] != '\0')
            length++;
    if (length == 0)
        return TRACE_NAMES_NONE;
    uint32_t id = words_find(&parser->seen_tokens, value->text, length);

    if (LIKELY(id != 0))
        return id;
    id = intern(reading, value->text, length);
    if (length <= WORD_BYTES_MAX && parser->token_count < PARSER_WORDS_MAX &&
        id > TRACE_NAMES_OTHER) {
        char word[WORD_BYTES_MAX + 1] = {0};

        memcpy(word, value->text, length);
        if (strlen(word) == length) {
            words_add(&parser->seen_tokens, word, id);
            parser->token_count++;
        }
    }
    return id;
}

static struct parser_category new_category(struct reading *reading,
                                           const struct value *value)
{
    struct parser *parser = reading->parser;
    struct parser_category seen = {intern(reading, value->text, value->length),
                                   TRACE_OTHER};
    char word[WORD_BYTES_MAX + 1] = {0};

    if (value->length == 0 || value->length > WORD_BYTES_MAX)
        return seen;
    for (uint32_t i = 0; i < value->length; i++) {
        char byte = value->text[i];

        word[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte | 0x20) : byte;
    }
    uint32_t known = words_find(&parser->categories, word, value->length);

    seen.category = known != 0 ? (uint8_t)known : TRACE_OTHER;
    memcpy(word, value->text, value->length);
    if (parser->category_count < PARSER_WORDS_MAX && strlen(word) == value->length) {
        parser->category_list[parser->category_count++] = seen;
        words_add(&parser->seen_categories, word, parser->category_count);
    }
    return seen;
}

static void read_category(struct reading *reading, const struct value *value)
{
    struct parser *parser = reading->parser;
    struct trace_event *event = reading->event;
    struct parser_category seen = {0, TRACE_NO_CATEGORY};

    if (value->first == '"' && value->length > 0) {
        uint32_t known =
            words_find(&parser->seen_categories, value->text, value->length);

        seen = LIKELY(known != 0) ? parser->category_list[known - 1]
                                  : new_category(reading, value);
    }
    event->category = seen.category;
    event->category_name = seen.name;
}

/* 18, "18", "0x12"; any other text by a hash of it. */
static void read_flow(struct trace_event *event, const struct value *value)
{
    int64_t number;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    event->has |= TRACE_HAS_FLOW;
    if (ends_well(value, number_integer(value->text, &number))) {
        event->flow = (uint64_t)number;
        return;
    }
    if (value->first != '"') {
        event->has &= ~TRACE_HAS_FLOW;
        return;
    }
    uint64_t hex = 0;
    uint32_t i = value->length > 2 && memcmp(value->text, "0x", 2) == 0 ? 2 : 0;
    bool is_hex = i == 2;

    for (; i < value->length; i++) {
        unsigned char byte = (unsigned char)value->text[i], low = byte | 0x20;
        uint32_t digit = byte >= '0' && byte <= '9' ? byte - '0' + 0u : low - 'a' + 10u;

        is_hex = is_hex && digit < 16 && (digit < 10 || low >= 'a');
        hex = hex << 4 | (digit & 15);
        hash = (hash ^ byte) * UINT64_C(0x100000001b3);
    }
    event->flow = is_hex ? hex : hash;
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

static void read_member(struct reading *reading, uint32_t key,
                        const struct value *value)
{
    struct trace_event *event = reading->event;

    switch (key) {
    case KEY_PHASE:
        event->phase = value->first == '"' && value->length == 1 ? *value->text : '\0';
        return;
    case KEY_NAME:
        event->name = LIKELY(value->first == '"')
                          ? intern(reading, value->text, value->length)
                          : intern_value(reading, value);
        return;
    case KEY_CATEGORY:
        read_category(reading, value);
        return;
    case KEY_PID:
        event->pid = read_token(reading, value);
        return;
    case KEY_TID:
        event->tid = read_token(reading, value);
        return;
    case KEY_TIME:
        read_time(reading, value, &event->time_ns, TRACE_HAS_TIME);
        return;
    case KEY_DURATION:
        read_time(reading, value, &event->duration_ns, TRACE_HAS_DURATION);
        return;
    case KEY_ID:
        read_flow(event, value);
        return;
    case KEY_SCOPE:
        event->scope = value->first == '"' && value->length == 1 ? *value->text : '\0';
        return;
    case KEY_BINDING:
        if (value->first == '"' && value->length == 1 && *value->text == 'e')
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

enum parser_result parser_event(struct parser *parser)
{
    struct trace_event *event = &parser->batch[parser->batch_count];
    struct reading reading = {
        .parser = parser,
        .text = parser->text,
        .at = parser->index + parser->next + 1,
        .event = event,
    };

    clear(event);
    event->text = parser->text + parser->pos;
    event->offset = parser->offset + parser->pos;
    /* What was met behind the known entries may only have been their end. */
    if (UNLIKELY(!read_members(&reading)))
        return reading.at >= parser->index + parser->count ? PARSER_MORE : PARSER_BAD;
    if (UNLIKELY(reading.at > parser->index + parser->count))
        return PARSER_MORE;
    enum trace_skip skip = what_is_missing(&reading);
    uint32_t end = reading.at[-1] + 1, pos = parser->pos;

    event->length = end - pos;
    parser->next = (uint32_t)(reading.at - parser->index);
    parser->pos = end;
    parser->report->values_unreadable += reading.unreadable;
    parser->report->names_refused += reading.refused;
    if (UNLIKELY(skip != TRACE_SKIPS))
        parser_skip(parser, skip, pos);
    else if (++parser->batch_count == TRACE_BATCH)
        parser_flush(parser);
    return PARSER_DONE;
}
