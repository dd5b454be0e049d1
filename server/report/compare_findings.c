/* Findings by id: which came, which went, and what those that stayed cost now. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "findings/findings.h"
#include "report/compare.h"
#include "report/compare_parts.h"
#include "report/members.h"

/* What is not found takes nothing, as far as its rule can tell; else less than what it
 * begins to tell at, and by as much more as the `found` one was unsure. */
static struct compare_number unfound(const cJSON *document, const cJSON *found)
{
    double most = findings_begin_at(TEXT(found, "id")) *
                  NUMBER(document, "summary", "train", "mean_ms");
    double unsure = NUMBER(found, "ms_per_step") - NUMBER(found, "ms_per_step_low");

    return (struct compare_number){0, isfinite(most) ? most + (unsure > 0 ? unsure : 0)
                                                     : 0};
}

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

/* Two documents, and what was found of the same id in each; NULL: nothing. */
struct pair {
    const cJSON *base_document, *other_document, *base, *other;
};

static void add_row(cJSON *list, const struct pair *pair)
{
    static const struct compare_test plain = {.strictness = 1, .floor = 0};
    const cJSON *base = pair->base, *other = pair->other;
    const cJSON *named = other ? other : base;
    struct compare_number before =
        base ? price_of(base) : unfound(pair->base_document, named);
    struct compare_number after =
        other ? price_of(other) : unfound(pair->other_document, named);
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

/* Those of the base, with what the other has of them; or, of the other, those that the base
 * has none of. */
static void add_side(cJSON *list, const cJSON *base, const cJSON *other, bool of_base)
{
    const cJSON *row;
    unsigned count = 0;

    cJSON_ArrayForEach(row, MEMBER(of_base ? base : other, "findings"))
    {
        struct pair pair = {base, other, NULL, NULL};

        if (count++ == COMPARE_FINDINGS_MAX / 2)
            return;
        if (!is_finding(row))
            continue;
        pair.base = of_base ? row : finding_of(base, TEXT(row, "id"));
        pair.other = of_base ? finding_of(other, TEXT(row, "id")) : row;
        if (of_base || pair.base == NULL)
            add_row(list, &pair);
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
        add_side(list, base, other, false);
    }
    cJSON_AddItemToObject(object, "findings",
                          members_sorted(list, compare_by_difference));
}
