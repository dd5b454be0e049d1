/* What commands say. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
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

int command_print_json(struct cJSON *document)
{
    char *text = document ? cJSON_Print(document) : NULL;

    if (text != NULL)
        (void)puts(text); /* what went wrong is asked below */
    else
        command_complain("out of memory for the answer");
    cJSON_free(text);
    cJSON_Delete(document);
    return text == NULL ? EXIT_CANNOT_START : command_end_output();
}

int command_end_output(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    command_complain("cannot write the answer: %s", strerror(errno ? errno : EIO));
    return EXIT_CANNOT_START;
}
