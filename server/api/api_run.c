/* GET /api/runs/{run}: one run as comparisons read it, in memory or kept from earlier. The
 * answer saved to a file is one that `trainglass compare` takes. */
#include "api/api.h"
#include "api/side.h"

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
