#include "report/report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
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

int report_write_file(const cJSON *report, enum report_format format, const char *path)
{
    char *made;
    FILE *out = NULL;
    mode_t mask = umask(0);
    int fd, error;

    umask(mask);
    if (asprintf(&made, "%s.XXXXXX", path) < 0)
        return -ENOMEM;
    fd = mkostemp(made, O_CLOEXEC);
    error = fd < 0 ? -errno : 0;
    if (fd >= 0 && (out = fdopen(fd, "w")) == NULL) {
        error = -errno;
        close(fd);
    }
    if (out != NULL) {
        error = write_format(report, format, out);
        if (fchmod(fd, 0666 & ~mask) != 0 || fflush(out) != 0 || ferror(out) != 0)
            error = error != 0 ? error : -EIO;
        if (fclose(out) != 0 && error == 0)
            error = -errno;
        if (error == 0 && rename(made, path) != 0)
            error = -errno;
    }
    if (error != 0 && fd >= 0)
        unlink(made);
    free(made);
    return error;
}
