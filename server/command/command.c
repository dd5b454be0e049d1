/* What commands share: reading their flags, and what they say. */
#include "command/command.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/terminal.h"

void command_complain(const char *format, ...)
{
    char line[1024] = "trainglass: ";
    size_t length = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    terminal_clean(line);
    line[length] = '\n';
    /* One write: the command's own output may come between two. */
    if (write(STDERR_FILENO, line, length + 1) < 0)
        return; /* nobody listens: nothing else to tell them on */
}

static int end_output(int error)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    error = errno != 0 ? errno : error;
    command_complain("cannot write the answer: %s", strerror(error != 0 ? error : EIO));
    return EXIT_CANNOT_START;
}

int command_print_json(struct cJSON *document)
{
    char *text = document ? cJSON_Print(document) : NULL;
    int error = 0;

    if (text != NULL && puts(text) == EOF)
        error = errno; /* a long text is not held: flushing would not know why */
    if (text == NULL)
        command_complain("out of memory for the answer");
    bool printed = text != NULL;

    cJSON_free(text);
    cJSON_Delete(document);
    return printed ? end_output(error) : EXIT_CANNOT_START;
}

int command_end_output(void)
{
    return end_output(0);
}

bool command_number(const char *flag, const char *text, int64_t low, int64_t high,
                    int64_t *number)
{
    char *end;

    if (text == NULL)
        return true;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && *number >= low &&
        *number <= high)
        return true;
    command_complain("%s %.60s: expected a number from %lld to %lld", flag, text,
                     (long long)low, (long long)high);
    return false;
}

int command_values(const struct invocation *invocation, const char *name,
                   const char *values[COMMAND_REPEATS])
{
    const struct command_flag *flags = invocation->command->flags;
    int count = 0;

    for (int i = 0; i < invocation->repeated_count; i++)
        if (strcmp(flags[invocation->repeated[i].flag].name, name) == 0)
            values[count++] = invocation->repeated[i].value;
    return count;
}
