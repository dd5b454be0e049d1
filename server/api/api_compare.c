/* GET /api/compare: two sessions (a trace file is one), or two stretches of one.
 *
 *     a, b = SESSION | SESSION@WINDOW | @WINDOW of `session`
 */
#include <errno.h>
#include <string.h>

#include "api/analysis.h"
#include "api/api.h"
#include "api/json.h"
#include "report/compare.h"

/* Reads `text` over the selection that the call has anyway. */
static bool select_side(struct api_call *call, const char *key, const char *text,
                        struct selection *side)
{
    const char *at = strchr(text, '@'), *reason;
    size_t length = at != NULL ? (size_t)(at - text) : strlen(text);

    *side = call->selection;
    if (length >= sizeof(side->session)) {
        query_refuse(&call->query, key, "no session has a name that long");
        return false;
    }
    if (length > 0) {
        memset(side->session, 0, sizeof(side->session));
        memcpy(side->session, text, length);
    }
    if (at != NULL && window_parse(at + 1, &side->window, &reason) != 0) {
        query_refuse(&call->query, key, "%s", reason);
        return false;
    }
    return true;
}

/* The side's document; NULL with an error's number. */
static cJSON *document_of(struct api_call *call, const struct selection *side,
                          int *error)
{
    static const struct analysis_request all = {.k = OPS_K_MAX, .sort = OPS_BY_SELF};
    struct analysis analysis;
    cJSON *document = NULL;

    *error = analysis_ask(call->api->store, side, &all, &analysis);
    if (*error == 0) {
        document = analysis_document(&analysis);
        *error = document == NULL ? -ENOMEM : 0;
    }
    analysis_free(&analysis);
    return document;
}

/* Does `side` name steps of which none is remembered? A comparison with nothing would
 * look like one with what there is. */
static bool is_forgotten(const struct selection *side, const cJSON *document)
{
    enum window_kind kind = side->window.kind;

    return (kind == WINDOW_STEPS || kind == WINDOW_EPOCH) &&
           cJSON_GetNumberValue(cJSON_GetObjectItem(document, "steps")) == 0;
}

static cJSON *nothing_to_compare(void)
{
    static const char *const parts[] = {"base", "step_ms", "phases", "memory", "gpu"};
    cJSON *body = cJSON_CreateObject();

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        cJSON_AddNullToObject(body, parts[i]);
    cJSON_AddArrayToObject(body, "others");
    cJSON_AddArrayToObject(body, "failed");
    cJSON_AddArrayToObject(body, "ops");
    json_text(
        body, "reason",
        "say what: a=SESSION and b=SESSION, or a stretch of one as SESSION@WINDOW");
    return body;
}

cJSON *api_compare(struct api_call *call)
{
    const char *keys[2] = {"a", "b"}, *texts[2];
    struct selection sides[2];
    cJSON *documents[2] = {NULL, NULL}, *body = NULL;
    int error = 0;

    for (int i = 0; i < 2; i++)
        texts[i] = query_text(&call->query, keys[i]);
    if (!api_select(call))
        return api_refused(call);
    if (texts[0] == NULL || texts[1] == NULL)
        return nothing_to_compare();
    for (int i = 0; i < 2; i++)
        if (!select_side(call, keys[i], texts[i], &sides[i]))
            return api_refused(call);
    for (int i = 0; i < 2 && error == 0; i++) {
        documents[i] = document_of(call, &sides[i], &error);
        if (documents[i] == NULL)
            body = error == -ENOMEM ? NULL
                                    : api_error(call, 404, keys[i],
                                                "no session of that name is in memory");
    }
    for (int i = 0; i < 2 && body == NULL && error == 0; i++)
        if (is_forgotten(&sides[i], documents[i]))
            body =
                api_error(call, 404, keys[i],
                          "no step of this stretch is remembered, or there was none");
    if (body == NULL && error == 0)
        body = compare_documents(documents[0], (const cJSON *const *)&documents[1], 1);
    cJSON_Delete(documents[0]);
    cJSON_Delete(documents[1]);
    return body;
}
