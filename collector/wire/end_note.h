/* <session>.end: how `trainglass run` saw the command end. A few lines of text beside
 * the segments, written once to a new file that is then renamed:
 *
 *     trainglass-end 1
 *     exit_code 137
 *     signal 9
 *     oom_kills 1
 *     monotonic_ns 8123456789
 *     realtime_ns 1763725000123456789
 *     pid 4711
 *     asked_signal 2
 *
 * Unknown lines are skipped, missing ones are 0.
 */
#ifndef WIRE_END_NOTE_H
#define WIRE_END_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define END_NOTE_BYTES_MAX 512u

struct end_note {
    uint32_t exit_code; /* as a shell shows it: 128 + n for a signal */
    uint32_t signal;    /* that ended the command; 0 none */
    uint32_t oom_kills; /* in the command's cgroup while it ran; 0 none or unknown */
    uint64_t monotonic_ns;
    uint64_t realtime_ns;
    uint32_t pid;          /* of the command itself, as `run` sees it; 0 unknown */
    uint32_t asked_signal; /* INT, TERM or HUP that came to `run` in the minute before the
                              end; 0 none */
};

/* Writes the note; returns its length, 0 when `size` is too small. */
size_t end_note_format(const struct end_note *note, char *text, size_t size);

/* True when `size` bytes at `text` (no NUL needed, any bytes) are a note. */
MUST_CHECK bool end_note_parse(const char *text, size_t size, struct end_note *note);

/* Is the note <id>.end about `session`: the one with this id, or a later training of the same
 * command, <id>.<n>? */
bool end_note_is_about(const char *id, const char *session);

/* The signal by which somebody ended the job as a user asks for it (INT, TERM, HUP); 0
 * none. One that the command did not die of counts where it failed after it. */
uint32_t end_note_stopped_by(const struct end_note *note);

#endif
