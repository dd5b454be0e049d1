/* POST /api/findings/{id}: what the user says of a finding, in this and in later runs.
 *
 *     {"state": "open" | "dismissed" | "pinned", "reason": "..."}
 *     {"dismissed": true | false, "pinned": true | false, "reason": "..."}
 */
#include <string.h>

#include "api/api.h"
#include "document/json.h"
#include "findings/findings.h"
#include "runs/runs.h"

#define FINDING_LENGTH 64u
#define REASON_LENGTH  500u

static bool read_state(const cJSON *item, struct runs_verdict *verdict)
{
    const char *state = cJSON_GetStringValue(item);

    if (state == NULL)
        return false;
    verdict->dismissed = strcmp(state, "dismissed") == 0;
    verdict->pinned = strcmp(state, "pinned") == 0;
    return verdict->dismissed || verdict->pinned || strcmp(state, "open") == 0;
}

/* One member of the body; false and what it should be in *expected. */
static bool read_member(const cJSON *item, struct runs_verdict *verdict,
                        const char **expected)
{
    if (strcmp(item->string, "state") == 0) {
        *expected = "expected open, dismissed or pinned";
        return read_state(item, verdict);
    }
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

/* The member that says the same as another one; NULL when all agree. */
static const char *said_twice(const cJSON *body, const struct runs_verdict *verdict)
{
    bool state = cJSON_HasObjectItem(body, "state");
    bool flags =
        cJSON_HasObjectItem(body, "dismissed") || cJSON_HasObjectItem(body, "pinned");

    if (state && flags)
        return "state";
    return verdict->dismissed && verdict->pinned ? "pinned" : NULL;
}

static bool is_finding(const char *id)
{
    size_t length = strlen(id);

    return length > 0 && length <= FINDING_LENGTH &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

static cJSON *answer(const struct runs_verdict *verdict)
{
    cJSON *body = cJSON_CreateObject();

    json_text(body, "id", verdict->finding);
    json_text(body, "state",
              verdict->dismissed ? "dismissed"
              : verdict->pinned  ? "pinned"
                                 : "open");
    json_text(body, "reason", verdict->reason);
    return body;
}

cJSON *api_finding(struct api_call *call)
{
    struct runs_verdict verdict = {.finding = call->tail};
    const char *expected, *why;

    if (!query_done(&call->query))
        return api_refused(call);
    if (!is_finding(call->tail))
        return api_error(call, 400, "id",
                         "a finding's id is made of a-z, 0-9, _ and -");
    if (findings_rule_of(call->tail) == NULL)
        return api_error(call, 404, "id", "no rule has findings of that id");
    if (call->body->child == NULL)
        return api_error(call, 400, "state", "expected state, and maybe a reason");
    for (const cJSON *item = call->body->child; item != NULL; item = item->next) {
        if (!read_member(item, &verdict, &expected))
            return api_error(call, 400, item->string, expected);
    }
    if (said_twice(call->body, &verdict) != NULL)
        return api_error(call, 400, said_twice(call->body, &verdict),
                         "says otherwise than another member");
    if (!runs_judge(call->api->runs, &verdict, &why))
        return api_error(call, 409, NULL, why);
    return answer(&verdict);
}
