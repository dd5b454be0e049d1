/* GET /api/runs: earlier runs. POST /api/findings/{id}: what the user says of one. */
#include <string.h>

#include "api/api.h"
#include "api/json.h"
#include "runs.h"

#define RUNS_K_MAX     1000
#define FINDING_LENGTH 64u
#define REASON_LENGTH  500u

cJSON *api_runs(struct api_call *call)
{
    int64_t k = 100;

    (void)query_number(&call->query, "k", 1, RUNS_K_MAX, &k);
    if (!query_done(&call->query))
        return api_refused(call);
    return runs_list(call->api->runs, (uint32_t)k);
}

/* One member of the body; false and what it should be in *expected. */
static bool read_member(const cJSON *item, struct runs_verdict *verdict,
                        const char **expected)
{
    *expected = "expected true or false";
    if (strcmp(item->string, "dismissed") == 0) {
        verdict->dismissed = cJSON_IsTrue(item);
        return cJSON_IsBool(item);
    }
    if (strcmp(item->string, "pinned") == 0) {
        verdict->pinned = cJSON_IsTrue(item);
        return cJSON_IsBool(item);
    }
    if (strcmp(item->string, "reason") == 0) {
        *expected = "expected a text of at most 500 bytes";
        verdict->reason = cJSON_GetStringValue(item);
        return verdict->reason != NULL && strlen(verdict->reason) <= REASON_LENGTH;
    }
    *expected = "unknown member";
    return false;
}

static bool is_finding(const char *id)
{
    size_t length = strlen(id);

    return length > 0 && length <= FINDING_LENGTH &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

cJSON *api_finding(struct api_call *call)
{
    struct runs_verdict verdict = {.finding = call->tail};
    const char *expected, *why;
    cJSON *body;

    if (!query_done(&call->query))
        return api_refused(call);
    if (!is_finding(call->tail))
        return api_error(call, 400, "id",
                         "a finding's id is made of a-z, 0-9, _ and -");
    if (call->body->child == NULL)
        return api_error(call, 400, "dismissed",
                         "expected dismissed, pinned or reason");
    for (const cJSON *item = call->body->child; item != NULL; item = item->next) {
        if (!read_member(item, &verdict, &expected))
            return api_error(call, 400, item->string, expected);
    }
    if (!runs_judge(call->api->runs, &verdict, &why))
        return api_error(call, 409, NULL, why);
    body = cJSON_CreateObject();
    json_text(body, "id", call->tail);
    cJSON_AddBoolToObject(body, "dismissed", verdict.dismissed);
    cJSON_AddBoolToObject(body, "pinned", verdict.pinned);
    return body;
}
