#include "report/report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool report_format_of(const char *path, enum report_format *format)
{
    static const struct {
        const char *end;
        enum report_format format;
    } ends[] = {
        {".json", REPORT_JSON}, {".md", REPORT_MARKDOWN}, {".html", REPORT_HTML}};
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t size = strlen(ends[i].end);

        if (length <= size || strcmp(path + length - size, ends[i].end) != 0)
            continue;
        *format = ends[i].format;
        return true;
    }
    return false;
}

static int write_json(const cJSON *report, FILE *out)
{
    char *text = cJSON_Print(report);

    if (text == NULL)
        return -ENOMEM;
    fputs(text, out);
    fputc('\n', out);
    free(text);
    return 0;
}

static int write_format(const cJSON *report, enum report_format format, FILE *out)
{
    switch (format) {
    case REPORT_MARKDOWN:
        report_write_markdown(report, out);
        return 0;
    case REPORT_HTML:
        report_write_html(report, out);
        return 0;
    case REPORT_JSON:
        return write_json(report, out);
    }
    return -EINVAL;
}

/* A new file beside `path`, its name in *made; where a device or a pipe is, that itself and
 * *made NULL. Behind a symbolic link the file itself is to be replaced. */
static int open_output(const char *path, char **made, char **final)
{
    struct stat status;
    bool exists = stat(path, &status) == 0;
    int fd;

    *made = *final = NULL;
    if (exists && !S_ISREG(status.st_mode)) {
        fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd >= 0 ? fd : -errno;
    }
    *final = exists ? realpath(path, NULL) : strdup(path);
    if (*final == NULL)
        return -errno;
    if (asprintf(made, "%s.XXXXXX", *final) < 0) {
        *made = NULL;
        return -ENOMEM;
    }
    fd = mkostemp(*made, O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

/* 0 when all of it has left for the disk. */
static int write_all(const cJSON *report, enum report_format format, FILE *out)
{
    int error = write_format(report, format, out);

    errno = 0;
    if (fflush(out) != 0 && error == 0)
        error = errno != 0 ? -errno : -EIO;
    return ferror(out) != 0 && error == 0 ? -EIO : error;
}

int report_write_file(const cJSON *report, enum report_format format, const char *path)
{
    char *made, *final;
    FILE *out = NULL;
    mode_t mask = umask(0);
    int fd, error;

    umask(mask);
    fd = open_output(path, &made, &final);
    error = fd < 0 ? fd : 0;
    if (fd >= 0 && (out = fdopen(fd, "w")) == NULL) {
        error = -errno;
        close(fd);
    }
    if (out != NULL) {
        error = write_all(report, format, out);
        if (error == 0 && made != NULL && fchmod(fd, 0666 & ~mask) != 0)
            error = -errno;
        if (fclose(out) != 0 && error == 0)
            error = -errno;
        if (error == 0 && made != NULL && rename(made, final) != 0)
            error = -errno;
    }
    if (error != 0 && fd >= 0 && made != NULL)
        unlink(made);
    free(made);
    free(final);
    return error;
}
