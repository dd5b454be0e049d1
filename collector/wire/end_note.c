#include "wire/end_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char first_line[] = "trainglass-end 1\n";

size_t end_note_format(const struct end_note *note, char *text, size_t size)
{
    int length =
        snprintf(text, size,
                 "%sexit_code %" PRIu32 "\nsignal %" PRIu32 "\noom_kills %" PRIu32
                 "\nmonotonic_ns %" PRIu64 "\nrealtime_ns %" PRIu64 "\n",
                 first_line, note->exit_code, note->signal, note->oom_kills,
                 note->monotonic_ns, note->realtime_ns);

    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

/* `key` and a space at `line`, then digits to its end; false leaves *value alone. */
static bool take(const char *line, size_t length, const char *key, uint64_t *value)
{
    size_t skip = strlen(key);
    uint64_t number = 0;

    if (length < skip + 2 || memcmp(line, key, skip) != 0 || line[skip] != ' ')
        return false;
    for (size_t i = skip + 1; i < length; i++) {
        if (line[i] < '0' || line[i] > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(line[i] - '0');
    }
    *value = number;
    return true;
}

static void take_line(const char *line, size_t length, struct end_note *note)
{
    uint64_t value;

    if (take(line, length, "exit_code", &value) && value <= UINT32_MAX)
        note->exit_code = (uint32_t)value;
    else if (take(line, length, "signal", &value) && value <= UINT32_MAX)
        note->signal = (uint32_t)value;
    else if (take(line, length, "oom_kills", &value) && value <= UINT32_MAX)
        note->oom_kills = (uint32_t)value;
    else if (take(line, length, "monotonic_ns", &value))
        note->monotonic_ns = value;
    else if (take(line, length, "realtime_ns", &value))
        note->realtime_ns = value;
}

bool end_note_parse(const char *text, size_t size, struct end_note *note)
{
    size_t pos = sizeof(first_line) - 1;

    *note = (struct end_note){0};
    if (size < pos || size > END_NOTE_BYTES_MAX || memcmp(text, first_line, pos) != 0)
        return false;
    while (pos < size) {
        const char *end = memchr(text + pos, '\n', size - pos);
        size_t length = end ? (size_t)(end - (text + pos)) : size - pos;

        take_line(text + pos, length, note);
        pos += length + 1;
    }
    return true;
}
