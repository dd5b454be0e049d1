#include "wire/run_note.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/note.h"

static const char first_line[] = "trainglass-run 1\n";

size_t run_note_format(const struct run_note *note, char *text, size_t size)
{
    int length =
        snprintf(text, size, "%spid %" PRIu32 "\nrealtime_ns %" PRIu64 "\ncommand %s\n",
                 first_line, note->pid, note->realtime_ns, note->command);

    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

static char visible(char byte)
{
    return (unsigned char)byte < 0x20 || byte == 0x7f ? '?' : byte;
}

void run_note_command(struct run_note *note, char *const *argv)
{
    size_t length = 0;

    for (; *argv != NULL && length + 2 < sizeof(note->command); argv++) {
        if (length > 0)
            note->command[length++] = ' ';
        for (const char *at = *argv; *at != '\0' && length + 1 < sizeof(note->command);
             at++)
            note->command[length++] = visible(*at);
    }
    note->command[length] = '\0';
}

static void take_line(void *user, const char *line, size_t length)
{
    struct run_note *note = user;
    const char *command = note_value(line, length, "command");
    uint64_t value;

    if (note_number(line, length, "pid", &value) && value <= UINT32_MAX)
        note->pid = (uint32_t)value;
    else if (note_number(line, length, "realtime_ns", &value))
        note->realtime_ns = value;
    if (command == NULL)
        return;
    size_t size = (size_t)(line + length - command);

    if (size >= sizeof(note->command))
        size = sizeof(note->command) - 1;
    for (size_t i = 0; i < size; i++)
        note->command[i] = visible(command[i]);
    note->command[size] = '\0';
}

bool run_note_parse(const char *text, size_t size, struct run_note *note)
{
    *note = (struct run_note){0};
    return size <= RUN_NOTE_BYTES_MAX &&
           note_parse(text, size, first_line, take_line, note);
}
