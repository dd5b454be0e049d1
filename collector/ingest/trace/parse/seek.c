/* The way back after damage.
 *
 * Inside of a string every quote has a backslash before it. So bare text of the form
 * {"ph": or ,"displayTimeUnit": is never the inside of an undamaged string, and may be
 * looked for without knowing what is string and what is not.
 */
#include "ingest/trace/parse/parser.h"

/* Longer than any key looked for, with much white space. */
#define LOOK_AHEAD 4096u

static const char *const top_keys[] = {
    "traceEvents",     "schemaVersion",   "deviceProperties",
    "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds",
    "traceName",       "trace_id",        "trainglassEnd",
    "metadata",        "otherData",       "stackFrames",
};

enum look {
    LOOK_NO,
    LOOK_YES,
    LOOK_UNKNOWN, /* the piece ends */
};

/* Is there a quote at `at`, one of the wanted keys, a quote and a colon? */
static enum look is_key(const struct parser *parser, const char *at, bool top)
{
    const char *end = parser->text + parser->length, *key = at + 1;
    uint32_t length = 0;
    bool known = false;

    if (at >= end)
        return LOOK_UNKNOWN;
    if (*at != '"')
        return LOOK_NO;
    while (length <= WORD_BYTES_MAX && key + length < end && key[length] != '"')
        length++;
    if (key + length >= end)
        return LOOK_UNKNOWN;
    for (size_t i = 0; top && i < sizeof(top_keys) / sizeof(top_keys[0]); i++)
        known = known || (strlen(top_keys[i]) == length &&
                          memcmp(top_keys[i], key, length) == 0);
    if (!top) {
        uint32_t found = words_find(&parser->keys, key, length);

        known = found != KEY_NONE && found < KEY_FINISHED;
    }
    if (!known)
        return LOOK_NO;
    at = skip_space(key + length + 1);
    return at >= end ? LOOK_UNKNOWN : *at == ':' ? LOOK_YES : LOOK_NO;
}

/* What stands before text[pos] but for white space; '\0' at the beginning. */
static char before(const struct parser *parser, uint32_t pos)
{
    while (pos > parser->begin && parser_is_space(parser->text[pos - 1]))
        pos--;
    return pos > parser->begin ? parser->text[pos - 1] : '\0';
}

static enum look look_at(const struct parser *parser, uint32_t pos)
{
    const char *at = parser->text + pos;

    if (*at == '{') /* the value of a key, as args are, is no event */
        return before(parser, pos) == ':' ? LOOK_NO
                                          : is_key(parser, skip_space(at + 1), false);
    char behind = before(parser, pos);

    return behind == ',' || behind == '{' ? is_key(parser, at, true) : LOOK_NO;
}

enum parser_result parser_begins_lines(const struct parser *parser, uint32_t pos)
{
    const char *from = parser->text + pos;
    size_t length = parser->length - pos;
    enum look look = is_key(parser, skip_space(from + 1), false);
    const char *phase = memmem(from, length, "\"ph\"", 4);
    const char *list = memmem(from, length, "\"traceEvents\"", 13);

    if (look == LOOK_UNKNOWN)
        return PARSER_MORE;
    return look == LOOK_YES && phase != NULL && (list == NULL || phase < list)
               ? PARSER_DONE
               : PARSER_BAD;
}

bool parser_seek(struct parser *parser)
{
    const char *text = parser->text;
    uint32_t pos = parser->pos;

    for (; pos < parser->length; pos++) {
        if (LIKELY(text[pos] != '{' && text[pos] != '"'))
            continue;
        enum look look = look_at(parser, pos);

        if (look == LOOK_YES) {
            parser_restart(parser, pos);
            parser->state = text[pos] == '{' ? PARSER_EVENTS : PARSER_TOP;
            parser->has_events = parser->has_events || text[pos] == '{';
            return true;
        }
        if (look == LOOK_UNKNOWN && parser->length - pos < LOOK_AHEAD && !parser->last)
            break;
    }
    /* The bytes before are kept, for what stands before a brace. */
    uint32_t kept = pos < parser->length ? pos : parser->length;

    parser->pos = kept > parser->pos + 64 ? kept - 64 : parser->pos;
    if (parser->pos + LOOK_AHEAD < parser->length)
        parser->pos = parser->length - LOOK_AHEAD;
    return false;
}
