/* What `run` and `demo` share. */
#ifndef COMMAND_RUN_H
#define COMMAND_RUN_H

#include <stdbool.h>

#include "command.h"

/* Runs argv with a server beside it; returns the exit code of argv. `name` NULL: the
 * script's. `server` false: record only. */
int run_command(const struct options *options, const char *name, bool server,
                char **argv);

#endif
