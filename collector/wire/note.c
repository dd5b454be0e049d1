#include "wire/note.h"

#include <string.h>

const char *note_value(const char *line, size_t length, const char *key)
{
    size_t skip = strlen(key);

    return length > skip + 1 && memcmp(line, key, skip) == 0 && line[skip] == ' '
               ? line + skip + 1
               : NULL;
}

bool note_number(const char *line, size_t length, const char *key, uint64_t *value)
{
    const char *digits = note_value(line, length, key);
    uint64_t number = 0;

    if (digits == NULL)
        return false;
    for (; digits < line + length; digits++) {
        if (*digits < '0' || *digits > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*digits - '0');
    }
    *value = number;
    return true;
}

bool note_parse(const char *text, size_t size, const char *first_line, note_take *take,
                void *user)
{
    size_t pos = strlen(first_line);

    if (size < pos || memcmp(text, first_line, pos) != 0)
        return false;
    while (pos < size) {
        const char *end = memchr(text + pos, '\n', size - pos);
        size_t length = end ? (size_t)(end - (text + pos)) : size - pos;

        take(user, text + pos, length);
        pos += length + 1;
    }
    return true;
}
