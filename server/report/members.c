#include "report/members.h"

#include <stdio.h>

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
    return cJSON_IsString(item) ? item->valuestring : "";
}

const char *members_time(char text[MEMBERS_TIME_BYTES], double ms)
{
    if (isnan(ms))
        snprintf(text, MEMBERS_TIME_BYTES, "–");
    else if (fabs(ms) >= 999.5)
        snprintf(text, MEMBERS_TIME_BYTES, "%.3g s", ms / 1000);
    else
        snprintf(text, MEMBERS_TIME_BYTES, "%.3g ms", ms);
    return text;
}
