#include "report/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/members.h"

#define NAME_BYTES 200u /* kernels have names of some thousand bytes */

struct page_text {
    struct page_text *next;
    char bytes[];
};

/* NULL out of memory. */
static char *lend(struct page *page, size_t size)
{
    struct page_text *text = malloc(sizeof(*text) + size);

    if (text == NULL) {
        page->incomplete = true;
        return NULL;
    }
    text->next = page->texts;
    page->texts = text;
    return text->bytes;
}

void page_put(struct page *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vfprintf(page->out, format, arguments);
    va_end(arguments);
    for (struct page_text *text = page->texts, *next; text != NULL; text = next) {
        next = text->next;
        free(text);
    }
    page->texts = NULL;
}

const char *page_format(struct page *page, const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = length < 0 ? NULL : lend(page, (size_t)length + 1);
    if (text == NULL)
        return "";
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

/* ---- escapes ---------------------------------------------------------------------------- */

#define ESCAPED_BYTES 7 /* of one character at most: "</code>" */

static char *add_html(char *to, char c)
{
    switch (c) {
    case '&':
        return stpcpy(to, "&amp;");
    case '<':
        return stpcpy(to, "&lt;");
    case '>':
        return stpcpy(to, "&gt;");
    case '"':
        return stpcpy(to, "&quot;");
    case '\'':
        return stpcpy(to, "&#39;");
    default:
        *to = (unsigned char)c < 0x20 ? ' ' : c;
        return to + 1;
    }
}

/* Nothing in it may end a cell, a line or begin a tag; of `code` only the tag. */
static char *add_markdown(char *to, char c, bool code)
{
    if (c == '<')
        return stpcpy(to, "&lt;");
    if (!code && strchr("\\|*_[]#", c) != NULL)
        *to++ = '\\';
    *to = (unsigned char)c < 0x20 ? ' ' : c;
    return to + 1;
}

const char *page_text(struct page *page, const char *text)
{
    char *whole = lend(page, strlen(text) * ESCAPED_BYTES + 1), *to = whole;

    if (whole == NULL)
        return "";
    for (; *text != '\0'; text++)
        to = page->html ? add_html(to, *text) : add_markdown(to, *text, false);
    *to = '\0';
    return whole;
}

const char *page_name(struct page *page, const char *text)
{
    size_t length = strlen(text), head = NAME_BYTES * 3 / 4, tail;

    if (length <= NAME_BYTES)
        return page_text(page, text);
    tail = length - NAME_BYTES / 4;
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80)
        head--;
    while (tail < length && ((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    return page_text(page,
                     page_format(page, "%.*s … %s", (int)head, text, text + tail));
}

/* The backtick that ends the code which begins here; NULL: it is none, or not surely, as
 * where several stand side by side. */
static const char *end_of_code(const char *text, const char *c)
{
    const char *end = *c == '`' ? strchr(c + 1, '`') : NULL;

    return end != NULL && end > c + 1 && end[1] != '`' && (c == text || c[-1] != '`')
               ? end
               : NULL;
}

static char *add_html_sentence(char *to, const char *text)
{
    bool code = false;

    for (; *text != '\0'; text++) {
        if (*text != '`') {
            to = add_html(to, *text);
            continue;
        }
        to = stpcpy(to, code ? "</code>" : "<code>");
        code = !code;
    }
    return code ? stpcpy(to, "</code>") : to;
}

static char *add_markdown_sentence(char *to, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        const char *end = end_of_code(text, c);

        while (end != NULL && c < end)
            to = add_markdown(to, *c++, true);
        to = add_markdown(to, *c, end != NULL);
    }
    return to;
}

const char *page_sentence(struct page *page, const char *text)
{
    char *whole = lend(page, (strlen(text) + 1) * ESCAPED_BYTES + 1), *end;

    if (whole == NULL)
        return "";
    end = page->html ? add_html_sentence(whole, text)
                     : add_markdown_sentence(whole, text);
    *end = '\0';
    return whole;
}

/* ---- what both have ----------------------------------------------------------------------- */

const char *page_interval(struct page *page, const cJSON *report)
{
    const cJSON *ends = MEMBER(report, "overhead", "ci95_pct");

    if (!cJSON_IsArray(ends))
        return "";
    return page_format(page, " (95 %%: %.2g to %.2g %%)",
                       members_number(cJSON_GetArrayItem(ends, 0)),
                       members_number(cJSON_GetArrayItem(ends, 1)));
}

const char *page_cost(struct page *page, const cJSON *finding, const char *before)
{
    double ms = NUMBER(finding, "ms_per_step");

    return ms > 0 ? page_format(page, "%s%s per step", before, TIME(ms)) : "";
}

void page_former(struct page *page, const cJSON *report)
{
    const char *begin = page->html ? "<p class=\"dim\">" : "\n";
    const char *end = page->html ? "</p>" : "\n";
    const cJSON *one;

    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "fixed"))
        page_put(page, "%sFixed since step %.0f: %s%s%s%s", begin,
                 NUMBER(one, "fixed_step"), page_text(page, TEXT(one, "title")),
                 page_cost(page, one, ", it cost "), page->html ? "" : ".", end);
    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "dismissed")) page_put(
        page, "%sDismissed: %s%s. %s%s", begin, page_text(page, TEXT(one, "title")),
        page_cost(page, one, ", "), page_text(page, TEXT(one, "reason")), end);
}

void page_what_ifs(struct page *page, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "bottlenecks", "what_if"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page, page->html ? "<section><h2>What if</h2>" : "\n## What if\n\n");
    cJSON_ArrayForEach(one, list)
        page_put(page, "%s%s, a step would take %s to %s.%s", page->html ? "<p>" : "- ",
                 page_text(page, TEXT(one, "title")), TIME(NUMBER(one, "step_ms_low")),
                 TIME(NUMBER(one, "step_ms_high")), page->html ? "</p>" : "\n");
    if (page->html)
        page_put(page, "</section>");
}
