/* trainglass: finds the command and hands it a checked invocation. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/arguments.h"
#include "command/places.h"

static int print_config(void)
{
    char *text = options_default_file();
    int failed = text == NULL || fputs(text, stdout) < 0 || fflush(stdout) != 0;

    free(text);
    return failed ? EXIT_CANNOT_START : EXIT_DONE;
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
    error = arguments_parse(&invocation, argc - 2, argv + 2,
                            place_config(config) ? config : NULL, environ);
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
