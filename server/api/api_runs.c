/* GET /api/runs: earlier runs. GET /api/runs/{run}: one run as comparisons read it, in memory
 * or kept from earlier; saved to a file it is one that `trainglass compare` takes. */
#include "api/api.h"
#include "api/side.h"
#include "runs/runs.h"

#define RUNS_K_MAX 1000

cJSON *api_runs(struct api_call *call)
{
    int64_t k = 100;

    (void)query_number(&call->query, "k", 1, RUNS_K_MAX, &k);
    if (!query_done(&call->query))
        return api_refused(call);
    return runs_list(call->api->runs, (uint32_t)k);
}

cJSON *api_run(struct api_call *call)
{
    struct side_refusal refusal;
    struct selection side;
    cJSON *document;

    if (!api_select(call))
        return api_refused(call);
    if (!side_read(call, "run", call->tail, &side))
        return api_refused(call);
    document = side_document(call, &side, &refusal);
    if (document == NULL && refusal.status != 0)
        return api_error(call, refusal.status, "run", refusal.text);
    return document;
}
