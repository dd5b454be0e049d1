/* What the GPUs say of themselves, as /api/gpu gives it. */
#ifndef DOCUMENT_HARDWARE_H
#define DOCUMENT_HARDWARE_H

#include <cjson/cJSON.h>

#include "query/hardware_query.h"

/* Adds `hardware` to the answer. */
void hardware_json(cJSON *body, const struct hardware_answer *answer);

#endif
