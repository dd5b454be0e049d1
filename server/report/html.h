/* Pieces of the report in HTML. Every text passes html_text(): it is somebody else's. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <cjson/cJSON.h>
#include <stdio.h>

void html_text(FILE *out, const char *text);

/* Head and tail of a long one. */
void html_name(FILE *out, const char *text);

/* A number with its unit as a cell; a dash where it is not known. */
void html_cell(FILE *out, const char *unit, double value, int digits);

/* Three significant digits, but no more than three places. */
int html_places(double value);

/* One row of parts as wide as their share of `whole`, and its key below. Parts without
 * time have no place in the key. */
struct html_part {
    const char *name, *class;
    double ms;
};
void html_bar(FILE *out, const struct html_part *parts, int count, double whole_ms);

/* Sections of the report; nothing where the report has nothing to tell. */
void html_devices(FILE *out, const cJSON *report);
void html_memory(FILE *out, const cJSON *report);
void html_file(FILE *out, const cJSON *report);
void html_ranks(FILE *out, const cJSON *ranks); /* of /api/ranks */
void html_ops(FILE *out, const char *title, const cJSON *list);

#endif
