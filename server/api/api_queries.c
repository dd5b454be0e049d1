/* The endpoints that ask one query of the selection and say what it answers: GET /api/status,
 * /api/memory, /api/gpu, /api/ranks, /api/overhead, /api/host and /api/critical_path. */
#include "api/api.h"
#include "control/control.h"
#include "document/document.h"
#include "document/json.h"
#include "query/gpu_query.h"
#include "query/host_query.h"
#include "query/memory_query.h"
#include "query/ranks_query.h"
#include "query/replay_query.h"
#include "query/status_query.h"

cJSON *api_status(struct api_call *call)
{
    struct status_answer answer;
    int error;

    if (!api_select(call))
        return api_refused(call);
    error = status_query(call->api->store, &call->selection, &answer);
    return api_finish(call, error, &answer.head,
                      api_answers(call, error) ? status_json(&answer) : NULL);
}

cJSON *api_memory(struct api_call *call)
{
    struct memory_request request = {0};
    struct memory_answer answer;
    int error;

    if (!api_select_points(call, &request.points))
        return api_refused(call);
    error = memory_query(call->api->store, &call->selection, &request, &answer);
    return api_finish(call, error, &answer.head,
                      api_answers(call, error) ? memory_json(&answer) : NULL);
}

cJSON *api_gpu(struct api_call *call)
{
    struct gpu_request request = {0};
    struct gpu_answer answer;
    int error;

    if (!api_select_points(call, &request.points))
        return api_refused(call);
    error = gpu_query(call->api->store, &call->selection, &request, &answer);
    return api_finish(call, error, &answer.head,
                      api_answers(call, error) ? gpu_json(&answer) : NULL);
}

cJSON *api_ranks(struct api_call *call)
{
    struct ranks_answer answer;
    int error;

    if (!api_select(call))
        return api_refused(call);
    error = ranks_query(call->api->store, &call->selection, &answer);
    return api_finish(call, error, &answer.head,
                      api_answers(call, error) ? ranks_json(&answer) : NULL);
}

static void add_control(cJSON *body, const char *obstacle)
{
    cJSON *part = cJSON_AddObjectToObject(body, "control");

    cJSON_AddBoolToObject(part, "writable", obstacle == NULL);
    json_text(part, "reason", obstacle);
}

cJSON *api_overhead(struct api_call *call)
{
    struct overhead_answer answer;
    cJSON *body = NULL;
    uint32_t ppm;
    int error;

    if (!api_select(call))
        return api_refused(call);
    error = overhead_query(call->api->store, &call->selection, &answer);
    if (api_answers(call, error)) {
        ppm = atomic_load_explicit(&call->api->server_cpu_ppm, memory_order_relaxed);
        body = overhead_json(&answer, (double)ppm / 1e4);
        add_control(body, control_obstacle(call->api->store, &call->selection));
    }
    return api_finish(call, error, &answer.head, body);
}

cJSON *api_host(struct api_call *call)
{
    struct host_answer answer;
    int error;

    if (!api_select(call))
        return api_refused(call);
    error = host_query(call->api->store, &call->selection, &answer);
    return api_finish(call, error, &answer.head,
                      api_answers(call, error) ? host_json(&answer) : NULL);
}

cJSON *api_critical(struct api_call *call)
{
    struct replay_answer answer;
    cJSON *body = NULL;
    int error;

    if (!api_select(call))
        return api_refused(call);
    error = replay_query(call->api->store, &call->selection, &answer);
    if (api_answers(call, error)) {
        body = cJSON_CreateObject();
        json_head(body, &answer.head);
        add_critical_path_json(body, &answer);
    }
    return api_finish(call, error, &answer.head, body);
}
