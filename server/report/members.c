#include "report/members.h"

#include <stdio.h>
#include <string.h>

const cJSON *members_find(const cJSON *object, const char *const *path)
{
    for (; object != NULL && *path != NULL; path++)
        object = cJSON_GetObjectItemCaseSensitive(object, *path);
    return object;
}

double members_number(const cJSON *item)
{
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

const char *members_text(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);

    return text != NULL ? text : "";
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
