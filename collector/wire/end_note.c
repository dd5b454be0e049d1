#include "wire/end_note.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "wire/note.h"

static const char first_line[] = "trainglass-end 1\n";

size_t end_note_format(const struct end_note *note, char *text, size_t size)
{
    int length =
        snprintf(text, size,
                 "%sexit_code %" PRIu32 "\nsignal %" PRIu32 "\noom_kills %" PRIu32
                 "\nmonotonic_ns %" PRIu64 "\nrealtime_ns %" PRIu64 "\npid %" PRIu32
                 "\nasked_signal %" PRIu32 "\n",
                 first_line, note->exit_code, note->signal, note->oom_kills,
                 note->monotonic_ns, note->realtime_ns, note->pid, note->asked_signal);

    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

static void take_line(void *user, const char *line, size_t length)
{
    struct end_note *note = user;
    uint64_t value;

    if (note_number(line, length, "exit_code", &value) && value <= UINT32_MAX)
        note->exit_code = (uint32_t)value;
    else if (note_number(line, length, "signal", &value) && value <= UINT32_MAX)
        note->signal = (uint32_t)value;
    else if (note_number(line, length, "oom_kills", &value) && value <= UINT32_MAX)
        note->oom_kills = (uint32_t)value;
    else if (note_number(line, length, "monotonic_ns", &value))
        note->monotonic_ns = value;
    else if (note_number(line, length, "realtime_ns", &value))
        note->realtime_ns = value;
    else if (note_number(line, length, "pid", &value) && value <= UINT32_MAX)
        note->pid = (uint32_t)value;
    else if (note_number(line, length, "asked_signal", &value) && value <= UINT32_MAX)
        note->asked_signal = (uint32_t)value;
}

bool end_note_parse(const char *text, size_t size, struct end_note *note)
{
    *note = (struct end_note){0};
    return size <= END_NOTE_BYTES_MAX &&
           note_parse(text, size, first_line, take_line, note);
}

bool end_note_is_about(const char *id, const char *session)
{
    size_t length = strlen(id);

    if (length == 0 || strncmp(session, id, length) != 0)
        return false;
    if (session[length] == '\0')
        return true;
    const char *number = session + length + 1;

    return session[length] == '.' && number[0] != '\0' &&
           number[strspn(number, "0123456789")] == '\0';
}

uint32_t end_note_stopped_by(const struct end_note *note)
{
    uint32_t number = note->signal != 0      ? note->signal
                      : note->exit_code != 0 ? note->asked_signal
                                             : 0;

    return number == SIGHUP || number == SIGINT || number == SIGTERM ? number : 0;
}
