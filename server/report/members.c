#include "report/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cJSON *members_find(const cJSON *object, const char *const *path)
{
    for (; object != NULL && *path != NULL; path++)
        object = cJSON_GetObjectItemCaseSensitive(object, *path);
    return object;
}

double members_number(const cJSON *item)
{
    return item != NULL && cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

const char *members_text(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);

    return text != NULL ? text : "";
}

cJSON *members_sorted(cJSON *list, int (*order)(const void *, const void *))
{
    int count = cJSON_GetArraySize(list);
    cJSON **rows = malloc(((size_t)count + 1) * sizeof(rows[0])), *made;

    if (rows == NULL)
        return list;
    for (int i = 0; i < count; i++)
        rows[i] = cJSON_DetachItemFromArray(list, 0);
    qsort(rows, (size_t)count, sizeof(rows[0]), order);
    made = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(made, rows[i]);
    free(rows);
    cJSON_Delete(list);
    return made;
}

const cJSON *members_session(const cJSON *report)
{
    const char *id = TEXT(report, "bottlenecks", "session");
    const cJSON *one;

    cJSON_ArrayForEach(one, MEMBER(report, "status", "sessions"))
    {
        if (strcmp(TEXT(one, "id"), id) == 0)
            return one;
    }
    return NULL;
}

const char *members_verdict(char text[MEMBERS_VERDICT_BYTES], const cJSON *report)
{
    const char *verdict = TEXT(report, "bottlenecks", "verdict");
    double steps = NUMBER(report, "bottlenecks", "steps");
    double needed = NUMBER(report, "bottlenecks", "steps_needed");

    if (*verdict != '\0' ||
        cJSON_GetArraySize(MEMBER(report, "bottlenecks", "findings")) > 0)
        return verdict;
    if (!(steps < needed))
        return "Nothing stands out.";
    (void)snprintf(text, MEMBERS_VERDICT_BYTES,
                   "Too few steps to tell: %.0f of the %.0f that it takes.", steps,
                   needed);
    return text;
}

const char *members_losses(char text[MEMBERS_LOSSES_BYTES], const cJSON *session)
{
    static const struct {
        const char *key, *one, *many;
    } losses[] = {
        {"lost_events", "event was lost: it is missing from ops and traces.",
         "events were lost: they are missing from ops and traces."},
        {"threads_refused", "thread found no room: nothing of it is recorded.",
         "threads found no room: nothing of them is recorded."},
        {"names_refused", "event found no room for its name, and stands under none.",
         "events found no room for their names, and stand under none."},
        {"late_events", "event came after its step was closed.",
         "events came after their steps were closed."},
    };
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0;
         i < sizeof(losses) / sizeof(losses[0]) && used < MEMBERS_LOSSES_BYTES; i++) {
        double count = NUMBER(session, losses[i].key);

        if (!(count > 0))
            continue;
        used += (size_t)snprintf(text + used, MEMBERS_LOSSES_BYTES - used, "%s%.0f %s",
                                 used > 0 ? " " : "", count,
                                 count < 2 ? losses[i].one : losses[i].many);
    }
    return text;
}

const char *members_time(char text[MEMBERS_TIME_BYTES], double ms)
{
    if (isnan(ms))
        snprintf(text, MEMBERS_TIME_BYTES, "–");
    else if (fabs(ms) >= 999.5)
        snprintf(text, MEMBERS_TIME_BYTES, fabs(ms) >= 999.5e3 ? "%.0f s" : "%.3g s",
                 ms / 1000);
    else
        snprintf(text, MEMBERS_TIME_BYTES, "%.3g ms", ms);
    return text;
}

bool members_figure(const cJSON *item, struct figure *figure)
{
    static const char *const others[] = {"sentence", "worst_step", "trace"};
    const struct finding_evidence evidence = {.key = item->string,
                                              .text = cJSON_GetStringValue(item),
                                              .number = members_number(item)};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (item->string == NULL || strcmp(item->string, others[i]) == 0)
            return false;
    if (evidence.text == NULL && isnan(evidence.number))
        return false;
    figure_of(&evidence, figure);
    return true;
}
