/* Endpoints whose source is not there: the right shape, empty, with the reason. */
#include "api/api.h"
#include "api/json.h"

static cJSON *empty_list(struct api_call *call, const char *list, const char *reason)
{
    cJSON *body;

    if (!api_select(call))
        return api_refused(call);
    body = cJSON_CreateObject();
    cJSON_AddArrayToObject(body, list);
    json_text(body, "reason", reason);
    return body;
}

cJSON *api_windows(struct api_call *call)
{
    return empty_list(call, "windows", "this version records no deep windows");
}

cJSON *api_windows_ask(struct api_call *call)
{
    if (!api_select_body(call))
        return api_refused(call);
    return api_error(call, 409, NULL, "this version records no deep windows");
}
