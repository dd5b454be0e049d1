/* GET /api/ops?device=&sort=&k=&group=&q=: the ops that take the time. */
#include "api/api.h"
#include "document/document.h"
#include "query/ops_query.h"

cJSON *api_ops(struct api_call *call)
{
    static const char *const devices[] = {"cpu", "cuda", NULL};
    struct ops_request request = {0};
    struct ops_answer answer;
    int64_t k = 10;
    int error;

    request.device = (enum ops_device)query_choice(&call->query, "device", devices, 0);
    request.sort =
        (enum ops_sort)query_choice(&call->query, "sort", ops_sort_words, OPS_BY_SELF);
    request.by = (enum group_by)query_choice(&call->query, "group", ops_group_words, 0);
    (void)query_number(&call->query, "k", 1, OPS_K_MAX, &k);
    request.query = query_text(&call->query, "q");
    if (!api_select(call))
        return api_refused(call);
    request.k = (uint32_t)k;
    error = ops_query(call->api->store, &call->selection, &request, &answer);
    return api_finish(
        call, error, &answer.head,
        api_answers(call, error)
            ? ops_json(&answer, ops_sort_words[request.sort], devices[request.device])
            : NULL);
}
