#include "command/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct options *options;
    enum option_origin origin;
    char error[OPTION_ERROR_BYTES]; /* of the first bad line, without its place */
};

static int take_line(void *user, const char *section, const char *key,
                     const char *value)
{
    struct reading *reading = user;
    int id = options_find(key, strlen(key));

    if (reading->error[0] != '\0')
        return 0;
    if (section[0] != '\0')
        snprintf(reading->error, sizeof(reading->error),
                 "sections such as [%.40s] are not known", section);
    else if (id < 0)
        snprintf(reading->error, sizeof(reading->error),
                 "unknown key '%.60s'; `trainglass --print-config` lists all", key);
    else if (options_set(reading->options, (enum option_id)id, value ? value : "",
                         reading->origin, NULL) != 0)
        snprintf(reading->error, sizeof(reading->error), "%s", reading->options->error);
    return reading->error[0] == '\0';
}

static int refuse(struct options *options, const char *name, int line, const char *why)
{
    snprintf(options->error, sizeof(options->error), "%.200s:%d: %.540s", name, line,
             why);
    return -EINVAL;
}

/* The first line that inih would cut or misread; 0 none. */
static int bad_line(const char *text, size_t size)
{
    size_t length = 0;
    int line = 1;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0' || ++length > CONFIG_LINE_MAX)
            return line;
        if (text[i] == '\n') {
            length = 0;
            line++;
        }
    }
    return 0;
}

int config_read_text(struct options *options, const char *text, size_t size,
                     enum option_origin origin, const char *name)
{
    struct reading reading = {.options = options, .origin = origin};
    int line = bad_line(text, size);
    char *copy;

    if (line != 0)
        return refuse(options, name, line, "a line longer than 190 bytes, or no text");
    copy = strndup(text, size);
    if (copy == NULL)
        return -ENOMEM;
    line = ini_parse_string(copy, take_line, &reading);
    free(copy);
    if (line == 0)
        return 0;
    return refuse(options, name, line,
                  reading.error[0] ? reading.error : "expected `key = value`");
}

int config_read(struct options *options, const char *path, enum option_origin origin)
{
    char *text = malloc(CONFIG_BYTES_MAX + 1);
    FILE *file = fopen(path, "re");
    int error = text == NULL ? -ENOMEM : file == NULL ? -errno : 0;
    size_t size = error == 0 ? fread(text, 1, CONFIG_BYTES_MAX + 1, file) : 0;

    if (error == 0 && ferror(file))
        error = -errno;
    if (error != 0)
        snprintf(options->error, sizeof(options->error), "%.400s: %s", path,
                 strerror(-error));
    else if (size > CONFIG_BYTES_MAX)
        error = refuse(options, path, 1, "longer than 64 KiB");
    else
        error = config_read_text(options, text, size, origin, path);
    if (file != NULL)
        (void)fclose(file);
    free(text);
    return error;
}
