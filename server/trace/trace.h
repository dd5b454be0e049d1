/* Handlers of traces over HTTP; their context is struct server_context (api/context.h). */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <cjson/cJSON.h>

#include "http/http.h"

/* GET /api/trace: the remembered events of a window, streamed. */
http_handler trace_serve;

/* POST /api/traces?name=: the body is the file. GET /api/traces/{id}: its bytes. DELETE:
 * an upload goes, with its session, its place and all that the cache holds of it. */
http_handler upload_serve, download_serve, removal_serve;

/* Answers `document`, which it takes; 503 where memory is too short for its text. */
void document_answer(struct http_call *call, int status, cJSON *document);

#endif
