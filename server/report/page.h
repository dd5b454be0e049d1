/* What the report's HTML and its Markdown share: text on its way into the page, and the
 * paragraphs that both have. Every text of the report passes page_text(), page_name() or
 * page_sentence(): it is somebody else's. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "wire/attributes.h"

struct page {
    FILE *out;
    bool html;               /* else Markdown */
    struct page_text *texts; /* lent until the next page_put() */
    bool incomplete;         /* memory for a text was missing */
};

/* Prints, and takes back all texts that were lent. */
PRINTF(2, 3) void page_put(struct page *page, const char *format, ...);

/* These lend a text: what they are given, as it stands in the page. "" out of memory. */
PRINTF(2, 3) const char *page_format(struct page *page, const char *format, ...);
const char *page_text(struct page *page, const char *text);
/* Head and tail of a long one. */
const char *page_name(struct page *page, const char *text);
/* Ours, with foreign names in it: what is between backticks is code. */
const char *page_sentence(struct page *page, const char *text);
/* " (95 %: 0.1 to 0.3 %)" of what recording cost; "" without. */
const char *page_interval(struct page *page, const cJSON *report);
/* "3 ms per step" of a finding after `before`. Of one without a price nothing: that is not
 * 0 ms. */
const char *page_cost(struct page *page, const cJSON *finding, const char *before);

/* Findings that are no longer on the list, and why. */
void page_former(struct page *page, const cJSON *report);
void page_what_ifs(struct page *page, const cJSON *report);

/* Sections of the HTML; nothing where the report has nothing to tell. */
void html_devices(struct page *page, const cJSON *report);
void html_memory(struct page *page, const cJSON *report);
void html_file(struct page *page, const cJSON *report);
void html_ranks(struct page *page, const cJSON *ranks); /* of /api/ranks */
void html_ops(struct page *page, const char *title, const cJSON *list);

/* Three significant digits, but no more than three places. */
int html_places(double value);

#endif
