/* trainglass: finds the command and hands it a checked invocation. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

static int print_config(void)
{
    char *text = options_default_file();

    if (text == NULL)
        return EXIT_CANNOT_START;
    (void)fputs(text, stdout); /* what went wrong is asked below */
    free(text);
    return command_end_output();
}

static const struct command *find_command(const char *name)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static int usage(const char *name)
{
    if (name == NULL) {
        arguments_help();
        return EXIT_USAGE;
    }
    command_complain("'%.100s' is no command; `trainglass --help` lists them", name);
    return EXIT_USAGE;
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
    if (word != NULL && strcmp(word, "--print-config") == 0)
        return print_config();
    invocation.command = word ? find_command(word) : NULL;
    if (invocation.command == NULL)
        return usage(word);
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
