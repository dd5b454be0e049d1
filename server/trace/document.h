/* A handler's document as its answer. */
#ifndef TRACE_DOCUMENT_H
#define TRACE_DOCUMENT_H

#include <cjson/cJSON.h>

struct http_call;

/* Takes `document`; 503 where memory is too short for its text. */
void document_answer(struct http_call *call, int status, cJSON *document);

#endif
