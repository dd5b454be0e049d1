#ifndef COMMAND_CUT_STEPS_H
#define COMMAND_CUT_STEPS_H

#include <stddef.h>

#include "query/window.h"
#include "wire/attributes.h"

/* From the numbers of steps, as analyze prints them, to ns since the first event, both in a
 * and b of the window. 0, or a negative errno; -ENODATA with a sentence in `error` when there
 * are no such steps. */
MUST_CHECK int cut_steps_find(const char *path, struct window *steps, char *error,
                              size_t size);

#endif
