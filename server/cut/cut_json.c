/* A JSON value read by its grammar, and written as it is wherever it keeps to it. */
#include "cut/cut_json.h"

#include <string.h>

#include "wire/utf8.h"

#define DEPTH_MAX  512u
#define GROWTH_MAX 6u /* a control character becomes \u001f */

struct cleaner {
    const char *at, *end;
    char *out;
    bool objects[DEPTH_MAX]; /* else an array, by depth */
    uint32_t depth;
};

static void put(struct cleaner *cleaner, const char *text, size_t length)
{
    memcpy(cleaner->out, text, length);
    cleaner->out += length;
}

/* The byte to be read next; '\0' at the end, which is no JSON either. */
static char next_byte(const struct cleaner *cleaner)
{
    return cleaner->at < cleaner->end ? *cleaner->at : '\0';
}

static void blanks(struct cleaner *cleaner)
{
    for (char c = next_byte(cleaner); c == ' ' || c == '\n' || c == '\r' || c == '\t';
         c = next_byte(cleaner)) {
        *cleaner->out++ = c;
        cleaner->at++;
    }
}

static bool is_hexadecimal(const char *text, size_t left)
{
    return left >= 4 && strspn((char[]){text[0], text[1], text[2], text[3], '\0'},
                               "0123456789abcdefABCDEF") == 4;
}

/* A backslash and what it escapes; one that escapes nothing is itself. */
static void escape(struct cleaner *cleaner, const char *end)
{
    size_t left = (size_t)(end - cleaner->at);
    char c = left > 1 ? cleaner->at[1] : '\0';
    size_t length = c == '\0'                                               ? 0
                    : strchr("\"\\/bfnrt", c) != NULL                       ? 2
                    : c == 'u' && is_hexadecimal(cleaner->at + 2, left - 2) ? 6
                                                                            : 0;

    if (length == 0) {
        put(cleaner, "\\\\", 2);
        cleaner->at++;
        return;
    }
    put(cleaner, cleaner->at, length);
    cleaner->at += length;
}

static void odd_byte(struct cleaner *cleaner, const char *end)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*cleaner->at;
    uint32_t code;
    size_t length;

    if (c == '\\') {
        escape(cleaner, end);
        return;
    }
    if (c < 0x20) {
        put(cleaner, "\\u00", 4);
        *cleaner->out++ = digits[c >> 4];
        *cleaner->out++ = digits[c & 15];
        cleaner->at++;
        return;
    }
    length = utf8_decode((const unsigned char *)cleaner->at,
                         (size_t)(end - cleaner->at), &code);
    if (length == 0)
        put(cleaner, "\xef\xbf\xbd", 3);
    else
        put(cleaner, cleaner->at, length);
    cleaner->at += length == 0 ? 1 : length;
}

/* Up to a bare quote or `end`. */
static void inside_string(struct cleaner *cleaner, const char *end)
{
    while (cleaner->at < end && *cleaner->at != '"') {
        const char *from = cleaner->at, *at = from;

        while (at < end && *at >= 0x20 && *at != '"' && *at != '\\')
            at++; /* plain ASCII: others are negative, or large */
        put(cleaner, from, (size_t)(at - from));
        cleaner->at = at;
        if (at < end && *at != '"')
            odd_byte(cleaner, end);
    }
}

static bool string(struct cleaner *cleaner)
{
    if (next_byte(cleaner) != '"')
        return false;
    *cleaner->out++ = *cleaner->at++;
    inside_string(cleaner, cleaner->end);
    if (next_byte(cleaner) != '"')
        return false;
    *cleaner->out++ = *cleaner->at++;
    return true;
}

static size_t digits(const char *text, size_t length)
{
    size_t count = 0;

    while (count < length && text[count] >= '0' && text[count] <= '9')
        count++;
    return count;
}

static bool is_number(const char *text, size_t length)
{
    size_t at = length > 0 && text[0] == '-', count = digits(text + at, length - at);

    if (count == 0 || (count > 1 && text[at] == '0'))
        return false;
    at += count;
    if (at < length && text[at] == '.') {
        count = digits(text + at + 1, length - at - 1);
        if (count == 0)
            return false;
        at += 1 + count;
    }
    if (at < length && (text[at] | 0x20) == 'e') {
        at++;
        at += at < length && (text[at] == '+' || text[at] == '-');
        count = digits(text + at, length - at);
        if (count == 0)
            return false;
        at += count;
    }
    return at == length;
}

/* What the reader takes for a number though JSON has none such, as JSON has it: of "+05."
 * 5. False where it is none. */
static bool odd_number(struct cleaner *cleaner, const char *text, size_t length)
{
    size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
    const char *whole = text + sign, *end = text + length;
    size_t digits_whole = digits(whole, length - sign), digits_part = 0;
    const char *point = whole + digits_whole, *exponent = point;

    if (point < end && *point == '.') {
        digits_part = digits(point + 1, (size_t)(end - point) - 1);
        exponent = point + 1 + digits_part;
    }
    for (; digits_whole > 1 && *whole == '0'; digits_whole--)
        whole++;
    if (digits_whole + digits_part == 0)
        return false;
    char *from = cleaner->out;

    put(cleaner, "-", text[0] == '-');
    put(cleaner, digits_whole > 0 ? whole : "0", digits_whole > 0 ? digits_whole : 1);
    put(cleaner, point, digits_part > 0 ? 1 + digits_part : 0);
    put(cleaner, exponent, (size_t)(end - exponent));
    if (is_number(from, (size_t)(cleaner->out - from)))
        return true;
    cleaner->out = from;
    return false;
}

/* A number or a word. */
static bool scalar(struct cleaner *cleaner)
{
    const char *from = cleaner->at;
    size_t length = 0;

    while (from + length < cleaner->end && from[length] > ' ' &&
           strchr(",:\"[]{}", from[length]) == NULL)
        length++;
    cleaner->at += length;
    if (length == 0)
        return false;
    if (is_number(from, length) || (length == 4 && memcmp(from, "true", 4) == 0) ||
        (length == 5 && memcmp(from, "false", 5) == 0))
        put(cleaner, from, length);
    else if (!odd_number(cleaner, from, length))
        put(cleaner, "null", 4);
    return true;
}

static bool key(struct cleaner *cleaner)
{
    blanks(cleaner);
    if (!string(cleaner))
        return false;
    blanks(cleaner);
    if (next_byte(cleaner) != ':')
        return false;
    *cleaner->out++ = *cleaner->at++;
    blanks(cleaner);
    return true;
}

/* Opens one and goes to its first value; *whole when it has none. */
static bool begin(struct cleaner *cleaner, bool *whole)
{
    bool object = *cleaner->at == '{';

    if (cleaner->depth == DEPTH_MAX)
        return false;
    cleaner->objects[cleaner->depth++] = object;
    *cleaner->out++ = *cleaner->at++;
    blanks(cleaner);
    *whole = next_byte(cleaner) == (object ? '}' : ']');
    if (!*whole)
        return !object || key(cleaner);
    *cleaner->out++ = *cleaner->at++;
    cleaner->depth--;
    return true;
}

/* Behind a value: on to the next one, or out of what ends here. */
static bool go_on(struct cleaner *cleaner, bool *value_follows)
{
    *value_follows = false;
    while (cleaner->depth > 0) {
        bool object = cleaner->objects[cleaner->depth - 1];

        blanks(cleaner);
        if (next_byte(cleaner) == ',') {
            *cleaner->out++ = *cleaner->at++;
            *value_follows = true;
            blanks(cleaner);
            return !object || key(cleaner);
        }
        if (next_byte(cleaner) != (object ? '}' : ']'))
            return false;
        *cleaner->out++ = *cleaner->at++;
        cleaner->depth--;
    }
    return true;
}

static bool value(struct cleaner *cleaner)
{
    bool value_follows = true;

    while (value_follows) {
        char first = next_byte(cleaner);
        bool whole = true;

        if (first == '{' || first == '[') {
            if (!begin(cleaner, &whole))
                return false;
        } else if (!(first == '"' ? string(cleaner) : scalar(cleaner))) {
            return false;
        }
        if (whole && !go_on(cleaner, &value_follows))
            return false;
    }
    return cleaner->at == cleaner->end;
}

bool cut_json_value(struct bytes *out, const char *text, size_t length)
{
    struct cleaner cleaner = {.at = text, .end = text + length};
    char *room = bytes_reserve(out, GROWTH_MAX * length + 8);

    cleaner.out = room;
    if (room == NULL || !value(&cleaner))
        return false;
    out->size += (size_t)(cleaner.out - room);
    return true;
}

bool cut_json_string(struct bytes *out, const char *text, size_t length)
{
    struct cleaner cleaner = {.at = text, .end = text + length};
    char *room = bytes_reserve(out, GROWTH_MAX * length + 8);

    cleaner.out = room;
    if (room == NULL)
        return false;
    *cleaner.out++ = '"';
    inside_string(&cleaner, cleaner.end);
    if (cleaner.at != cleaner.end)
        return false;
    *cleaner.out++ = '"';
    out->size += (size_t)(cleaner.out - room);
    return true;
}
