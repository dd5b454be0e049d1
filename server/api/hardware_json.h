/* What the GPUs say of themselves, as /api/gpu gives it. */
#ifndef API_HARDWARE_JSON_H
#define API_HARDWARE_JSON_H

#include <cjson/cJSON.h>

#include "query/hardware_query.h"

/* Adds `hardware` to the answer. */
void hardware_json(cJSON *body, const struct hardware_answer *answer);

#endif
