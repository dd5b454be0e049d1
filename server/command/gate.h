/* What `run` does when its command has ended: the reports, and the verdict of --fail-on.
 *
 * The numbers are the server's own, asked for over HTTP. The command's exit code stands:
 * only a 0 becomes 1, or 128 + n where signal n cut the wait for the numbers short. */
#ifndef COMMAND_GATE_H
#define COMMAND_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"
#include "report/fail_on.h"
#include "report/report.h"

struct gate {
    struct fail_on expressions[COMMAND_REPEATS];
    int count;
    const char *paths[COMMAND_REPEATS]; /* of the reports */
    enum report_format formats[COMMAND_REPEATS];
    int path_count;
};

struct gate_run {
    uint16_t port; /* of the server; 0 there is none */
    const char *token, *session;
    int code; /* of the command */
};

/* The expressions of the command line, how many in *count; false after a line on stderr
 * that says which is wrong and where. */
MUST_CHECK bool gate_read(const struct invocation *invocation, enum fail_on_scale scale,
                          struct fail_on expressions[COMMAND_REPEATS], int *count);

/* Reads the expressions and the reports' names; false after a line on stderr that says
 * what is wrong and where. */
MUST_CHECK bool gate_open(struct gate *gate, const struct invocation *invocation);

bool gate_is_asked(const struct gate *gate);

/* Waits until the server has seen the session's end, writes the reports, says on stderr
 * what each expression came to. Returns the exit code. */
int gate_close(const struct gate *gate, const struct gate_run *run);

#endif
