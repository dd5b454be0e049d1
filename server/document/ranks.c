/* Which rank the others wait for, and why. */
#include "document/document.h"
#include "document/json.h"
#include "query/ranks_query.h"
#include "wire/words.h"

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
    for (uint32_t i = 0; i < EVENT_PHASES; i++)
        json_ms(part, wire_phase_word(i), row->phase_ns[i]);
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
