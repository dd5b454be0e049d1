#include "ingest/trace/parse/fields.h"

#include <stddef.h>

#include "ingest/trace/parse/ahead_run.h"
#include "wire/hash.h"

#define BIT(mask) (uint32_t) __builtin_ctzll(mask)
#define FIELD(kind, member, bit)                                                       \
    {                                                                                  \
        kind, offsetof(struct trace_event, member), BIT(bit)                           \
    }
#define TEXT(kind, member)                                                             \
    {                                                                                  \
        kind, offsetof(struct trace_event, member), 63                                 \
    }

const struct field field_table[] = {
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

/* Where nothing bounds it, a value ends where one may end. */
static uint32_t bare_length(const struct value *value)
{
    uint32_t length = value->length;

    while (!parser_is_end(value->text[length]) && value->text[length] != '\0')
        length++;
    return length;
}

static uint32_t field_text(struct reading *reading, const struct value *value)
{
    bool bare = value->first != '"' && value->first != '[' && value->first != '{';

    return intern(reading, value->text, bare ? bare_length(value) : value->length);
}

/* A pid or tid: few different ones, most of them short. */
static uint32_t read_token(struct reading *reading, const struct value *value)
{
    struct parser *parser = reading->parser;
    uint32_t length = value->first == '"' ? value->length : bare_length(value);

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

void field_text_of_key(struct reading *reading, uint32_t key, const struct value *value)
{
    struct trace_event *event = reading->event;

    if (reading->run != NULL) {
        const struct ahead_text text = {.at = (uint32_t)(value->text - reading->text),
                                        .length = value->length,
                                        .key = (uint8_t)key,
                                        .first = value->first};

        reading->no_room = !ahead_note(reading->run, &text) || reading->no_room;
        return;
    }
    switch (key) {
    case KEY_NAME:
        event->name = LIKELY(value->first == '"')
                          ? intern(reading, value->text, value->length)
                          : field_text(reading, value);
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
    default: {
        uint32_t id = field_table[key].kind == FIELD_SHAPES && value->first == '['
                          ? intern_list(reading, value)
                          : field_text(reading, value);

        memcpy((char *)event + field_table[key].offset, &id, sizeof(id));
        return;
    }
    }
}

void field_rare(struct reading *reading, const struct field *field,
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
    default:
        if (field->kind == FIELD_SHAPES   ? reading->parser->shapes
            : field->kind == FIELD_STACKS ? reading->parser->stacks
                                          : true)
            field_text_of_key(reading, (uint32_t)(field - field_table), value);
        return;
    }
    reading->event->has |= UINT64_C(1) << field->has;
}

/* "0x12" as a number; any other text by a hash of it. */
static uint64_t number_of_text(const struct value *value)
{
    uint64_t hex = 0;
    uint32_t i = value->length > 2 && memcmp(value->text, "0x", 2) == 0 ? 2 : 0;
    bool is_hex = i == 2;

    for (; i < value->length; i++) {
        unsigned char byte = (unsigned char)value->text[i], low = byte | 0x20;
        uint32_t digit = byte >= '0' && byte <= '9' ? byte - '0' + 0u : low - 'a' + 10u;

        is_hex = is_hex && digit < 16 && (digit < 10 || low >= 'a');
        hex = hex << 4 | (digit & 15);
    }
    return is_hex ? hex : hash_bytes(HASH_BEGIN, value->text, value->length);
}

/* 18, "18", "0x12". */
void field_flow(struct trace_event *event, const struct value *value)
{
    int64_t number;

    event->has |= TRACE_HAS_FLOW;
    if (ends_well(value, number_integer(value->text, &number)))
        event->flow = (uint64_t)number;
    else if (value->first == '"')
        event->flow = number_of_text(value);
    else
        event->has &= ~TRACE_HAS_FLOW;
}

void field_stream(struct trace_event *event, const struct value *value)
{
    int64_t number;
    uint64_t stream = ends_well(value, number_integer(value->text, &number))
                          ? (uint64_t)number
                          : number_of_text(value);

    event->has |= stream <= INT32_MAX ? TRACE_HAS_STREAM : TRACE_HAS_STREAM_ADDRESS;
    if (stream <= INT32_MAX)
        event->stream = (int32_t)stream;
    else
        event->address = stream;
}
