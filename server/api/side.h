/* One side of a comparison: a stretch of a session in memory, else what the run store kept
 * of an earlier run. */
#ifndef API_SIDE_H
#define API_SIDE_H

#include <cjson/cJSON.h>

#include "query/answer.h"
#include "runs/runs.h"

struct api_call;

struct side_refusal {
    int status; /* 0: out of memory */
    char text[RUNS_WHY_BYTES];
};

/* "SESSION", "SESSION@WINDOW" or "@WINDOW" over the selection that the call has anyway;
 * false when it is none: then api_refused(). `key` names the parameter. */
MUST_CHECK bool side_read(struct api_call *call, const char *key, const char *text,
                          struct selection *side);

/* The document of report/compare.h. NULL with a refusal. */
cJSON *side_document(struct api_call *call, const struct selection *side,
                     struct side_refusal *refusal);

#endif
