/* GET /api/trace: the remembered events of a window, streamed. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "http/http.h"

struct api;

void trace_serve(struct http_call *call, struct api *api);

#endif
