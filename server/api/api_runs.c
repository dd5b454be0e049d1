/* GET /api/runs: earlier runs. */
#include "api/api.h"
#include "api/json.h"
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
