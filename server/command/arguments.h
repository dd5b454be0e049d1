/* The command line, apart from what it does. */
#ifndef COMMAND_ARGUMENTS_H
#define COMMAND_ARGUMENTS_H

#include "command/command.h"

extern const struct command commands[]; /* commands.c; ends with a NULL name */

/* Reads settings (config/trainglass.conf at `config`, --config FILE, environment,
 * flags) and arguments of invocation->command from argv[1..argc), the words after its
 * name. Returns 0; 1 when --help was asked for; -EINVAL with options.error. */
MUST_CHECK int arguments_parse(struct invocation *invocation, int argc, char **argv,
                               const char *config, char *const *environment);

/* Help of all commands, and of one. */
void arguments_help(void);
void arguments_help_command(const struct command *command);

#endif
