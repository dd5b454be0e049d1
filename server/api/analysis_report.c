/* A trace file's tables as a document of /api/report: for gates, and to keep. */
#include <time.h>

#include "api/analysis.h"
#include "api/api.h"
#include "api/json.h"

static const char no_cost[] = "a trace file does not say what recording it cost";

/* What /api/status says of a file that is served. */
static void add_status(cJSON *body, const struct analysis *analysis, const char *name)
{
    cJSON *status = cJSON_AddObjectToObject(body, "status"), *session;

    session = cJSON_CreateObject();
    json_text(session, "id", analysis->summary.head.session);
    json_text(session, "name", name);
    json_text(session, "state", "ended");
    json_integer(session, "rank",
                 analysis->summary.head.rank < 0 ? NOT_KNOWN
                                                 : analysis->summary.head.rank);
    cJSON_AddBoolToObject(session, "from_file", true);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(status, "sessions"), session);
}

cJSON *analysis_report(const struct analysis *analysis, const char *name)
{
    cJSON *body = cJSON_CreateObject(), *ops;

    json_text(body, "version", TRAINGLASS_VERSION);
    json_count(body, "created_unix_ms", (uint64_t)time(NULL) * 1000);
    add_status(body, analysis, name);
    cJSON_AddItemToObject(body, "bottlenecks", bottlenecks_json(&analysis->summary));
    cJSON_AddItemToObject(body, "steps", steps_json(&analysis->steps));
    cJSON_AddItemToObject(body, "memory", memory_json(&analysis->memory));
    cJSON_AddItemToObject(body, "gpu", gpu_json(&analysis->gpu));
    if (analysis->file != NULL)
        analysis_add_file(cJSON_AddObjectToObject(body, "file"), analysis);
    ops = cJSON_AddObjectToObject(body, "ops");
    cJSON_AddItemToObject(ops, "cpu", ops_list_json(&analysis->cpu));
    cJSON_AddItemToObject(ops, "cuda", ops_list_json(&analysis->cuda));
    json_text(cJSON_AddObjectToObject(body, "overhead"), "reason", no_cost);
    return body;
}
