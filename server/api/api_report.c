/* GET /api/report: all answers about a session in one document, to keep. Of a run that
 * is no longer in memory: what the run store kept. */
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "document/json.h"
#include "report/report.h"
#include "runs/runs.h"

static const struct {
    const char *key;
    api_handler *handler;
} parts[] = {
    {"status", api_status},     {"bottlenecks", api_bottlenecks},
    {"steps", api_steps},       {"memory", api_memory},
    {"gpu", api_gpu},           {"ranks", api_ranks},
    {"overhead", api_overhead}, {"host", api_host},
};

static cJSON *begin(void)
{
    cJSON *body = cJSON_CreateObject();

    cJSON_AddStringToObject(body, "version", TRAINGLASS_VERSION);
    json_count(body, "created_unix_ms", (uint64_t)time(NULL) * 1000);
    return body;
}

/* The same parts; those that were not kept say so. NULL: no such run. */
static cJSON *stored_report(struct runs *runs, const char *session)
{
    cJSON *run = json_readable(runs_find(runs, session)), *body, *status;

    if (run == NULL)
        return NULL;
    body = begin();
    status = cJSON_AddObjectToObject(body, "status");
    cJSON_AddItemToObject(body, "bottlenecks",
                          cJSON_DetachItemFromObject(run, "summary"));
    cJSON_AddStringToObject(run, "id", session);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(status, "sessions"), run);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!cJSON_HasObjectItem(body, parts[i].key))
            json_text(cJSON_AddObjectToObject(body, parts[i].key), "reason",
                      "of earlier runs the summary is kept");
    return body;
}

bool api_report_format(const char *text, enum report_format *format)
{
    *format = REPORT_JSON;
    return text == NULL || report_format_named(text, format);
}

cJSON *api_report(struct api_call *call)
{
    const char *format = query_text(&call->query, "format");
    enum report_format known;
    cJSON *body, *stored;

    if (!api_select(call))
        return api_refused(call);
    if (!api_report_format(format, &known))
        return api_error(call, 400, "format", "expected json, md or html");
    body = begin();
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct api_call one = *call;
        cJSON *part = parts[i].handler(&one);

        if (one.status == 200) {
            cJSON_AddItemToObject(body, parts[i].key, part);
            continue;
        }
        cJSON_Delete(body);
        stored = one.status == 404
                     ? stored_report(call->api->runs, call->selection.session)
                     : NULL;
        if (stored == NULL) {
            call->status = one.status;
            return part;
        }
        cJSON_Delete(part);
        return stored;
    }
    return body;
}
