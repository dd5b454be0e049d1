/* What the notes beside the segments have in common: a first line that names the kind and
 * its version, then lines of a key, a space and a value. Unknown lines are skipped.
 * Any bytes may come; pure functions, for any thread. */
#ifndef WIRE_NOTE_H
#define WIRE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

/* Of each line behind the first; no NUL behind it. */
typedef void note_take(void *user, const char *line, size_t length);

/* True when `size` bytes at `text` begin with `first_line` (its newline included). */
MUST_CHECK bool note_parse(const char *text, size_t size, const char *first_line,
                           note_take *take, void *user);

/* What follows `key` and a space up to the line's end; NULL when the line is another. */
const char *note_value(const char *line, size_t length, const char *key);

/* The same as a decimal number; false leaves *value alone. */
bool note_number(const char *line, size_t length, const char *key, uint64_t *value);

#endif
