#include "ingest/trace/args.h"

#include <string.h>

#include "ingest/trace/scan/number.h"
#include "ingest/trace/scan/text.h"

/* What is longer is no number. */
#define NUMBER_BYTES_MAX 64

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Behind the string whose opening quote is at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : end;
}

/* Behind the value that begins at `at`. */
static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
        } else {
            bool closes = *at == ']' || *at == '}';

            if (depth == 0 && (closes || *at == ',' || is_space(*at)))
                return at;
            depth += *at == '[' || *at == '{';
            depth -= closes;
            at++;
        }
        if (depth == 0 && (at[-1] == '"' || at[-1] == ']' || at[-1] == '}'))
            return at;
    }
    return end;
}

static const char *skip_between(const char *at, const char *end)
{
    while (at < end && (is_space(*at) || *at == ',' || *at == ':'))
        at++;
    return at;
}

bool trace_args_find(const struct trace_event *event, const char *key,
                     const char **value, size_t *length)
{
    size_t wanted = strlen(key);
    bool found = false;

    if (event->args_length == 0) /* then there may be no text */
        return false;
    const char *at = event->text + event->args_at + 1;
    const char *end = event->text + event->args_at + event->args_length;

    while ((at = skip_between(at, end)) < end && *at == '"') {
        const char *name = at + 1, *behind = skip_string(at, end);
        const char *from = skip_between(behind, end);

        at = skip_value(from, end);
        if ((size_t)(behind - name) != wanted + 1 || memcmp(name, key, wanted) != 0)
            continue;
        *value = from;
        *length = (size_t)(at - from);
        found = true;
    }
    return found;
}

/* A copy of the value without quotes, with zeros behind. */
static bool copy_number(const struct trace_event *event, const char *key, char *copy)
{
    const char *value;
    size_t length;

    if (!trace_args_find(event, key, &value, &length) || length == 0)
        return false;
    if (*value == '"' && length >= 2) {
        value++;
        length -= 2;
    }
    if (length > NUMBER_BYTES_MAX)
        return false;
    memcpy(copy, value, length);
    return true;
}

bool trace_args_integer(const struct trace_event *event, const char *key,
                        int64_t *value)
{
    char copy[NUMBER_BYTES_MAX + 16] = {0};
    const char *end =
        copy_number(event, key, copy) ? number_integer(copy, value) : NULL;

    return end != NULL && *end == '\0';
}

uint64_t trace_args_count(const struct trace_event *event, const char *key)
{
    int64_t number;

    return trace_args_integer(event, key, &number) && number > 0 ? (uint64_t)number : 0;
}

bool trace_args_true(const struct trace_event *event, const char *key)
{
    const char *value;
    size_t length;

    return trace_args_find(event, key, &value, &length) &&
           ((length == 4 && strncasecmp(value, "true", 4) == 0) ||
            (length == 1 && *value == '1') ||
            (length == 6 && strncasecmp(value, "\"true\"", 6) == 0));
}

void trace_args_text(const struct trace_event *event, const char *key, char *text,
                     size_t size)
{
    const char *value;
    size_t length;

    text[0] = '\0';
    if (trace_args_find(event, key, &value, &length) && length >= 2 && *value == '"')
        (void)text_unescape(value + 1, length - 2, text, size);
}
