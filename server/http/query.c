#include "http/query.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-' || c == '.';
}

void query_refuse(struct query *query, const char *field, const char *format, ...)
{
    va_list arguments;
    size_t i = 0;

    if (query->error[0] != '\0')
        return;
    va_start(arguments, format);
    (void)vsnprintf(query->error, sizeof(query->error), format, arguments);
    va_end(arguments);
    /* A foreign key is shown only as far as it is harmless. */
    for (; i < sizeof(query->field) - 1 && is_word(field[i]); i++)
        query->field[i] = field[i];
    query->field[i] = '\0';
}

/* Decodes in place; false on a broken escape or a NUL. */
static bool decode(char *text)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        if (*in == '+') {
            *out++ = ' ';
            continue;
        }
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        const char digits[] = {in[1], in[1] != '\0' ? in[2] : '\0', '\0'};

        if (strspn(digits, "0123456789abcdefABCDEF") != 2 || strcmp(digits, "00") == 0)
            return false;
        *out++ = (char)strtol(digits, NULL, 16);
        in += 2;
    }
    *out = '\0';
    return true;
}

static ptrdiff_t query_find(const struct query *query, const char *key)
{
    for (uint32_t i = 0; i < query->count; i++) {
        if (strcmp(query->parameters[i].key, key) == 0)
            return i;
    }
    return -1;
}

static void query_add(struct query *query, char *pair)
{
    char *value = strchr(pair, '=');

    if (value != NULL)
        *value++ = '\0';
    else
        value = pair + strlen(pair);
    if (!decode(pair) || !decode(value)) {
        query_refuse(query, pair, "broken %%-escape");
    } else if (query_find(query, pair) >= 0) {
        query_refuse(query, pair, "given twice");
    } else if (query->count == QUERY_PARAMETERS_MAX) {
        query_refuse(query, pair, "more than %u parameters", QUERY_PARAMETERS_MAX);
    } else {
        query->parameters[query->count].key = pair;
        query->parameters[query->count++].value = value;
    }
}

void query_parse(struct query *query, const char *raw)
{
    size_t size = raw == NULL ? 0 : strnlen(raw, QUERY_BYTES_MAX + 1);
    char *pair = query->text, *next;

    query->count = 0;
    query->error[0] = query->field[0] = '\0';
    memset(query->parameters, 0, sizeof(query->parameters));
    if (size > QUERY_BYTES_MAX) {
        query_refuse(query, "", "more than %u bytes of parameters", QUERY_BYTES_MAX);
        size = 0;
    }
    if (size > 0)
        memcpy(query->text, raw, size);
    query->text[size] = '\0';
    for (; pair != NULL; pair = next) {
        next = strchr(pair, '&');
        if (next != NULL)
            *next++ = '\0';
        if (*pair != '\0')
            query_add(query, pair);
    }
}

const char *query_text(struct query *query, const char *key)
{
    ptrdiff_t i = query_find(query, key);

    if (i < 0)
        return NULL;
    query->parameters[i].used = true;
    return query->parameters[i].value;
}

/* At most 18 digits and a sign: no overflow is possible. */
static bool parse_number(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-');
    size_t count = strspn(digits, "0123456789");

    *value = strtoll(text, NULL, 10);
    return count > 0 && count <= 18 && digits[count] == '\0';
}

bool query_number(struct query *query, const char *key, int64_t low, int64_t high,
                  int64_t *value)
{
    const char *text = query_text(query, key);
    int64_t number;

    if (text == NULL)
        return false;
    if (!parse_number(text, &number) || number < low || number > high) {
        query_refuse(query, key, "expected an integer from %" PRId64 " to %" PRId64,
                     low, high);
        return false;
    }
    *value = number;
    return true;
}

int query_choice(struct query *query, const char *key, const char *const *choices,
                 int otherwise)
{
    const char *text = query_text(query, key);
    char list[120] = "";
    size_t used = 0;

    if (text == NULL)
        return otherwise;
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0)
            return i;
        used += strlen(choices[i]) + 2;
        if (used >= sizeof(list))
            continue;
        strncat(list, i == 0 ? "" : ", ", sizeof(list) - strlen(list) - 1);
        strncat(list, choices[i], sizeof(list) - strlen(list) - 1);
    }
    query_refuse(query, key, "expected one of: %s", list);
    return otherwise;
}

bool query_flag(struct query *query, const char *key)
{
    static const char *const choices[] = {"0", "1", NULL};

    return query_choice(query, key, choices, 0) == 1;
}

bool query_done(struct query *query)
{
    for (uint32_t i = 0; i < query->count; i++) {
        if (!query->parameters[i].used)
            query_refuse(query, query->parameters[i].key, "unknown parameter");
    }
    return query->error[0] == '\0';
}
