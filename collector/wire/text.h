/* How texts begin and end. */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool text_starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool text_ends(const char *text, const char *with)
{
    size_t length = strlen(text), end = strlen(with);

    return length >= end && strcmp(text + length - end, with) == 0;
}

#endif
