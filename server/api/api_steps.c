/* GET /api/steps: a row per step, statistics, slow steps, markers, epochs. */
#include "api/api.h"
#include "document/document.h"
#include "document/json.h"
#include "query/steps_query.h"
#include "query/where_query.h"

/* "op": the steps that hold an op, for a mark at each. */
static void add_where(cJSON *body, struct api_call *call, const char *name)
{
    static const char *const columns[] = {"number", "end_ms", "total_ms", "count"};
    cJSON *part = cJSON_AddObjectToObject(body, "op"), *list;
    struct where_answer answer;

    json_text(part, "name", name);
    json_columns(part, columns, 4);
    list = cJSON_AddArrayToObject(part, "points");
    if (where_query(call->api->store, &call->selection, name, &answer) == 0) {
        for (uint32_t i = 0; i < answer.count; i++) {
            const struct where_step *step = &answer.steps[i];

            cJSON_AddItemToArray(
                list, JSON_NUMBERS(
                          (double)step->number, json_rounded_ms((double)step->end_ns),
                          json_rounded_ms(step->total_ns), (double)step->count));
        }
    }
    where_free(&answer);
}

cJSON *api_steps(struct api_call *call)
{
    struct steps_request request = {0};
    struct steps_answer answer;
    const char *op = query_text(&call->query, "op");
    cJSON *body = NULL;
    int error;

    if (!api_select_points(call, &request.points))
        return api_refused(call);
    error = steps_query(call->api->store, &call->selection, &request, &answer);
    if (api_answers(call, error))
        body = steps_json(&answer);
    if (op != NULL && error == 0)
        add_where(body, call, op);
    return api_finish(call, error, &answer.head, body);
}
