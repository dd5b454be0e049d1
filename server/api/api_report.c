/* GET /api/report: all answers about a session in one document, to keep. */
#include <time.h>

#include "api/api.h"
#include "api/json.h"

static const struct {
    const char *key;
    api_handler *handler;
} parts[] = {
    {"status", api_status},     {"bottlenecks", api_bottlenecks},
    {"steps", api_steps},       {"memory", api_memory},
    {"gpu", api_gpu},           {"ranks", api_ranks},
    {"overhead", api_overhead}, {"host", api_host},
};

cJSON *api_report(struct api_call *call)
{
    cJSON *body;

    if (!api_select(call))
        return api_refused(call);
    body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "version", TRAINGLASS_VERSION);
    json_count(body, "created_unix_ms", (uint64_t)time(NULL) * 1000);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct api_call one = *call;
        cJSON *part = parts[i].handler(&one);

        if (one.status != 200) {
            cJSON_Delete(body);
            call->status = one.status;
            return part;
        }
        cJSON_AddItemToObject(body, parts[i].key, part);
    }
    return body;
}
