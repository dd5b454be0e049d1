/* What commands say. */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

void command_complain(const char *format, ...)
{
    char line[1024] = "trainglass: ";
    size_t length = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    line[length] = '\n';
    /* One write: the command's own output may come between two. */
    if (write(STDERR_FILENO, line, length + 1) < 0)
        return; /* nobody listens: nothing else to tell them on */
}

int command_print_json(struct cJSON *document)
{
    char *text = document ? cJSON_Print(document) : NULL;
    int failed = text == NULL || puts(text) < 0 || fflush(stdout) != 0;

    cJSON_free(text);
    cJSON_Delete(document);
    return failed ? EXIT_CANNOT_START : EXIT_DONE;
}
