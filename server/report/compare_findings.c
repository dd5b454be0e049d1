/* Findings by id: which came, which went, and what those that stayed cost now. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/compare.h"
#include "report/compare_parts.h"
#include "report/members.h"

/* What is not found takes nothing, as far as its rule can tell. */
static const struct compare_number nothing = {0, 0};

/* Of a document that anybody may have written only what has a name and a price. */
static bool is_finding(const cJSON *row)
{
    return *TEXT(row, "id") != '\0' && isfinite(NUMBER(row, "ms_per_step"));
}

static const cJSON *finding_of(const cJSON *document, const char *id)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, MEMBER(document, "findings"))
    {
        if (is_finding(row) && strcmp(TEXT(row, "id"), id) == 0)
            return row;
    }
    return NULL;
}

static struct compare_number price_of(const cJSON *finding)
{
    struct compare_number price = {.value = NUMBER(finding, "ms_per_step")};

    /* By its upper end: the lower one stops at 0. */
    price.half = NUMBER(finding, "ms_per_step_high") - price.value;
    return price;
}

static void add_row(cJSON *list, const cJSON *base, const cJSON *other)
{
    static const struct compare_test plain = {.strictness = 1, .floor = 0};
    struct compare_number before = base ? price_of(base) : nothing;
    struct compare_number after = other ? price_of(other) : nothing;
    const cJSON *named = other ? other : base;
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, "id", TEXT(named, "id"));
    cJSON_AddStringToObject(row, "title", TEXT(named, "title"));
    /* The best of what is to be done about it. */
    cJSON_AddStringToObject(
        row, "advice", members_text(cJSON_GetArrayItem(MEMBER(other, "advice"), 0)));
    compare_put(row, "base_ms_per_step", base ? before.value : (double)NAN);
    compare_put(row, "ms_per_step", other ? after.value : (double)NAN);
    compare_put_interval(row, "ms_per_step_ci95_ms", NUMBER(other, "ms_per_step"),
                         after.half, 0);
    (void)compare_put_change(row, &before, &after, &plain);
    cJSON_AddStringToObject(row, "state",
                            base == NULL    ? "new"
                            : other == NULL ? "gone"
                                            : "same");
    cJSON_AddItemToArray(list, row);
}

/* The rows of `from`; `twins`: also what the others have of them. */
static void add_side(cJSON *list, const cJSON *from, const cJSON *others, bool twins)
{
    const cJSON *row;
    unsigned count = 0;

    cJSON_ArrayForEach(row, MEMBER(from, "findings"))
    {
        const cJSON *twin;

        if (count++ == COMPARE_FINDINGS_MAX / 2)
            return;
        if (!is_finding(row))
            continue;
        twin = finding_of(others, TEXT(row, "id"));
        if (twins)
            add_row(list, row, twin);
        else if (twin == NULL)
            add_row(list, NULL, row);
    }
}

/* Nobody looked, or nobody kept it: nothing can be called new or gone. */
static bool is_unknown(cJSON *object, const cJSON *document, const char *who)
{
    const char *why = TEXT(document, "findings_reason");
    char text[200];

    if (*why == '\0' && cJSON_IsArray(MEMBER(document, "findings")))
        return false;
    (void)snprintf(text, sizeof(text), "of the %s no bottlenecks are known: %.120s",
                   who, *why != '\0' ? why : "none were kept");
    cJSON_AddStringToObject(object, "findings_reason", text);
    return true;
}

void compare_add_findings(cJSON *object, const cJSON *base, const cJSON *other)
{
    cJSON *list = cJSON_CreateArray();

    if (!is_unknown(object, base, "base") && !is_unknown(object, other, "other")) {
        add_side(list, base, other, true);
        add_side(list, other, base, false);
    }
    cJSON_AddItemToObject(object, "findings",
                          compare_sorted(list, compare_by_difference));
}
