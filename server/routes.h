/* The addresses of the server and who answers them. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <stddef.h>

#include "api/api.h"
#include "http/cache.h"
#include "http/http.h"
#include "http/hub.h"

/* Context of every handler: the parts of the running server. */
struct parts {
    struct api api;
    struct hub *hub;
    struct cache *cache;
};

extern const struct http_route routes[];
extern const size_t route_count;

#endif
