/* GET /api/stream: what the hub (http/hub.h) tells about sessions. */
#ifndef STREAM_STREAM_H
#define STREAM_STREAM_H

#include "http/http.h"
#include "http/hub.h"

struct api;

/* The hub's source over the api's store; borrowed while the hub lives. */
struct hub_source stream_source(struct api *api);

/* Serves one client until it leaves or the hub stops; the context is struct server_context. */
http_handler stream_serve;

#endif
