/* GET /api/ranks: which rank the others wait for, and why. */
#include "api/api.h"
#include "api/json.h"
#include "query/ranks_query.h"

static cJSON *rank_json(const struct rank_row *row)
{
    cJSON *rank = cJSON_CreateObject(), *part;

    json_integer(rank, "rank", row->rank);
    json_count(rank, "pid", row->pid);
    json_text(rank, "host", row->host);
    json_ms(rank, "step_ms", row->step_ns);
    json_ms(rank, "own_ms", row->own_ns);
    json_ms(rank, "wait_ms", row->wait_ns);
    json_number(rank, "batch_elements", row->batch_elements);
    part = cJSON_AddObjectToObject(rank, "phases");
    for (int i = 0; i < EVENT_PHASES; i++)
        json_ms(part, api_phase_names[i], row->phase_ns[i]);
    return rank;
}

cJSON *ranks_json(const struct ranks_answer *answer)
{
    cJSON *body = cJSON_CreateObject(), *slowest;

    json_head(body, &answer->head);
    JSON_LIST(body, "ranks", answer->rows, answer->row_count, rank_json);
    cJSON_AddBoolToObject(body, "comparable", answer->comparable);
    if (answer->slowest < 0) {
        cJSON_AddNullToObject(body, "slowest");
        return body;
    }
    slowest = cJSON_AddObjectToObject(body, "slowest");
    json_integer(slowest, "rank", answer->slowest);
    json_share(slowest, "share", answer->slowest_share);
    json_ms(slowest, "by_ms", answer->slowest_by_ns);
    json_text(slowest, "cause", answer->slowest_cause);
    json_ms(slowest, "cause_ms", answer->slowest_cause_ns);
    json_ms(slowest, "price_ms", answer->slowest_price_ns);
    return body;
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
