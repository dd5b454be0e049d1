/* trainglass: finds the command and hands it a checked invocation. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/arguments.h"
#include "command/places.h"

/* No file that is opened may become standard input, output or error: what is meant for
 * these would go into it. A command that `run` starts finds them closed, as they were. */
static void hold_standard_descriptors(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null",
                       (i == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

static const struct command *find_command(const char *name)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

int main(int argc, char **argv)
{
    static struct invocation invocation;
    const char *word = argc > 1 ? argv[1] : NULL;
    char config[PLACE_BYTES];
    int error;

    hold_standard_descriptors();
    if (word != NULL && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
        arguments_help();
        return EXIT_DONE;
    }
    if (word != NULL && strcmp(word, "--version") == 0) {
        puts("trainglass " TRAINGLASS_VERSION);
        return EXIT_DONE;
    }
    if (word != NULL && strcmp(word, "--print-config") == 0) {
        options_print_defaults(stdout);
        return command_end_output();
    }
    if (word == NULL) {
        arguments_help();
        return EXIT_USAGE;
    }
    invocation.command = find_command(word);
    if (invocation.command == NULL) {
        command_complain("'%.100s' is no command; `trainglass --help` lists them",
                         word);
        return EXIT_USAGE;
    }
    error = arguments_parse(&invocation, argc - 1, argv + 1,
                            place_find(PLACE_CONFIG, config) ? config : NULL, environ);
    if (error == 1) {
        arguments_help_command(invocation.command);
        return EXIT_DONE;
    }
    if (error != 0) {
        command_complain("%s", invocation.options.error);
        return EXIT_USAGE;
    }
    return invocation.command->run(&invocation);
}
