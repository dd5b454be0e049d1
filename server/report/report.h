/* A document of /api/report as something to keep and to read: HTML that stands alone,
 * Markdown for a pull request, or the JSON itself. Its texts are foreign: a name of a
 * job can be anything. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "wire/attributes.h"

struct cJSON;

enum report_format { REPORT_JSON, REPORT_MARKDOWN, REPORT_HTML };

/* "json", "md", "html"; and by that end of a path. */
bool report_format_named(const char *name, enum report_format *format);
bool report_format_of(const char *path, enum report_format *format);

/* The report as it is to be read; free(*text) is owed in any case, NULL before. Returns 0 or
 * -ENOMEM. */
MUST_CHECK int report_render(const struct cJSON *report, enum report_format format,
                             char **text, size_t *size);

/* Writes the file anew, in one piece: it is whole or not there. Returns 0 or -errno. */
MUST_CHECK int report_write_file(const struct cJSON *report, enum report_format format,
                                 const char *path);

/* To an open stream, whose errors the caller looks at; -ENOMEM: some texts are missing. HTML takes several reports as well:
 * {"reports": [...], "ranks": [of /api/ranks ...]}; what goes beyond REPORT_HTML_BYTES is
 * left out, and said. */
#define REPORT_HTML_BYTES 2500000L
int report_write_markdown(const struct cJSON *report, FILE *out);
int report_write_html(const struct cJSON *report, FILE *out);

#endif
