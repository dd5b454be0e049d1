/* GET /api/compare: two sessions (a trace file is one), two earlier runs, or two stretches
 * of one.
 *
 *     a, b = SESSION | SESSION@WINDOW | @WINDOW of `session`
 */
#include "api/api.h"
#include "api/side.h"
#include "document/json.h"
#include "report/compare.h"

static cJSON *nothing_to_compare(void)
{
    static const char *const parts[] = {"base", "step_ms", "phases", "memory", "gpu"};
    cJSON *body = cJSON_CreateObject();

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        cJSON_AddNullToObject(body, parts[i]);
    cJSON_AddArrayToObject(body, "others");
    cJSON_AddArrayToObject(body, "failed");
    cJSON_AddArrayToObject(body, "findings");
    cJSON_AddArrayToObject(body, "ops");
    json_text(
        body, "reason",
        "say what: a=SESSION and b=SESSION, or a stretch of one as SESSION@WINDOW");
    return body;
}

cJSON *api_compare(struct api_call *call)
{
    static const char *const keys[2] = {"a", "b"};
    const char *texts[2];
    struct selection sides[2];
    struct side_refusal refusal = {.status = 200};
    cJSON *documents[2] = {NULL, NULL}, *body = NULL;
    int which = 0;

    for (int i = 0; i < 2; i++)
        texts[i] = query_text(&call->query, keys[i]);
    if (!api_select(call))
        return api_refused(call);
    if (texts[0] == NULL || texts[1] == NULL)
        return nothing_to_compare();
    for (int i = 0; i < 2; i++)
        if (!side_read(call, keys[i], texts[i], &sides[i]))
            return api_refused(call);
    while (which < 2 &&
           (documents[which] = side_document(call, &sides[which], &refusal)) != NULL)
        which++;
    if (which == 2)
        body = compare_documents(documents[0], (const cJSON *const *)&documents[1], 1);
    else if (refusal.status != 0)
        body = api_error(call, refusal.status, keys[which], refusal.text);
    cJSON_Delete(documents[0]);
    cJSON_Delete(documents[1]);
    return body;
}
