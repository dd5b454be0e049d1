/* GET /api/bottlenecks: where a step goes, what of it is avoidable, and the evidence. */
#include "api/api.h"
#include "document/document.h"
#include "judge/judge.h"
#include "judge/replays.h"
#include "query/bottlenecks_query.h"

static cJSON *judged(const struct api_call *call,
                     const struct bottlenecks_answer *answer)
{
    struct judgement judgement;
    cJSON *body;

    judge_findings(call->api->judge, call->api->runs, &call->selection, answer,
                   &judgement);
    body = bottlenecks_judged_json(answer, &judgement);
    judgement_free(&judgement);
    return body;
}

cJSON *api_bottlenecks(struct api_call *call)
{
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;
    int64_t k = 10;
    cJSON *body;
    int error;

    (void)query_number(&call->query, "k", 1, OPS_K_MAX, &k);
    if (!api_select(call))
        return api_refused(call);
    request.k = (uint32_t)k;
    error = bottlenecks_query(call->api->store, &call->selection, &request, &answer);
    if (error == 0)
        replays_fill(call->api->replays, call->api->store, &call->selection, &answer);
    body = api_finish(call, error, &answer.head,
                      api_answers(call, error) ? judged(call, &answer) : NULL);
    bottlenecks_free(&answer);
    return body;
}
