/* What `run` and `demo` share. */
#ifndef COMMAND_RUN_H
#define COMMAND_RUN_H

#include <stdbool.h>

#include "command/command.h"

struct gate;

struct run_request {
    const struct options *options;
    const char *name;        /* NULL: the script's */
    bool server;             /* false: record only */
    const struct gate *gate; /* what is asked for at the end */
    char **argv;
};

/* Runs argv with a server beside it; returns the exit code of argv, or what the gate
 * makes of it. */
int run_command(const struct run_request *request);

#endif
