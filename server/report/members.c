#include "report/members.h"

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
