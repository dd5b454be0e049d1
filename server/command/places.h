/* Where things are: beside the program, in shared memory, in the user's folders. Every
 * function writes an absolute path of at most PLACE_BYTES into `path` and returns false
 * when there is no such thing. */
#ifndef COMMAND_PLACES_H
#define COMMAND_PLACES_H

#include <stdbool.h>

#include "command/options.h"

#define PLACE_BYTES 1024u

bool place_program(char *path); /* this very file */

enum place {
    PLACE_CONFIG,     /* config/trainglass.conf */
    PLACE_LIBRARY,    /* libtrainglass.so */
    PLACE_PYTHON,     /* folder that PYTHONPATH needs */
    PLACE_STEP_TIMER, /* the same, for `selftest` */
    PLACE_EXAMPLE,    /* the demo's training program */
};
bool place_find(enum place place, char *path); /* what came with the program */

bool place_state(const struct options *options, char *path);     /* need not exist */
bool place_directory(const struct options *options, char *path); /* need not exist */

/* `path` made absolute against the working directory. */
bool place_absolute(const char *path, char *absolute);

/* Makes the folder and those above it, 0700. Returns 0 or -errno. */
MUST_CHECK int place_make(const char *path);

/* Says in one line why jobs cannot record in the folder of segments, if so: the rules are
 * the probe's own. Makes the folder if it is not there. True where they cannot. */
bool place_warn_of_directory(const char *directory);

/* One line on stderr where nothing can be kept in the state folder: which it is, why, and
 * what is lost by it. */
void place_warn_of_state(const struct options *options);

#endif
