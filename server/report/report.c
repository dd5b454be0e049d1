#include "report/report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cut/output_file.h"

bool report_format_named(const char *name, enum report_format *format)
{
    static const char *const names[] = {
        [REPORT_JSON] = "json", [REPORT_MARKDOWN] = "md", [REPORT_HTML] = "html"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        *format = (enum report_format)i;
        return true;
    }
    return false;
}

bool report_format_of(const char *path, enum report_format *format)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL && dot != path && report_format_named(dot + 1, format);
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

int report_render(const cJSON *report, enum report_format format, char **text,
                  size_t *size)
{
    FILE *out = open_memstream(text, size);
    int error = 0;

    if (out == NULL)
        return -ENOMEM;
    if (format == REPORT_MARKDOWN)
        error = report_write_markdown(report, out);
    else if (format == REPORT_HTML)
        error = report_write_html(report, out);
    else
        error = write_json(report, out);
    bool lost = ferror(out) != 0;

    return (fclose(out) != 0 || lost) && error == 0 ? -ENOMEM : error;
}

int report_write_file(const cJSON *report, enum report_format format, const char *path)
{
    struct output_file output;
    char *text = NULL;
    size_t size = 0;
    /* No report is for standard output: that is a file of this name. */
    int error = output_file_open_plain(&output, strcmp(path, "-") == 0 ? "./-" : path);

    if (error == 0)
        error = report_render(report, format, &text, &size);
    if (error == 0) {
        output_file_write(&output, text, size);
        error = output_file_finish(&output);
    }
    if (error == 0)
        error = output_file_keep(&output);
    output_file_close(&output);
    free(text);
    return error;
}
