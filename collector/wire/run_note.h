/* <session>.run: the command that `trainglass run` runs, for whoever waits to see something
 * of it. A few lines of text beside the segments; `run` holds an flock on the file for as
 * long as the command runs, and removes it then:
 *
 *     trainglass-run 1
 *     pid 4391
 *     realtime_ns 1763725000123456789
 *     command python foo.py
 *
 * Unknown lines are skipped, missing ones are 0 and empty.
 */
#ifndef WIRE_RUN_NOTE_H
#define WIRE_RUN_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define RUN_NOTE_BYTES_MAX 512u
#define RUN_NOTE_COMMAND   200u

/* What is said of a command of which nothing was recorded, and what records it. */
#define RUN_NOTE_UNSEEN                                                                \
    "no import of PyTorch, no `trainglass.attach()` and no call of trainglass.h was "  \
    "seen in it"
#define RUN_NOTE_REMEDY                                                                \
    "PyTorch is recorded by itself, any other loop by `trainglass.attach()` with "     \
    "`trainglass.step()`, or by trainglass.h"

struct run_note {
    uint32_t pid; /* of the command, as `run` sees it */
    uint64_t realtime_ns;
    char command
        [RUN_NOTE_COMMAND]; /* its words; cut, any bytes but control characters */
};

/* Writes the note; returns its length, 0 when `size` is too small. */
size_t run_note_format(const struct run_note *note, char *text, size_t size);

/* True when `size` bytes at `text` (no NUL needed, any bytes) are a note. */
MUST_CHECK bool run_note_parse(const char *text, size_t size, struct run_note *note);

/* The words with spaces between them, cut, control characters made visible. */
void run_note_command(struct run_note *note, char *const *argv);

#endif
