/* What the handlers of HTTP requests get as their context: the parts of the running server. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include "api/api.h"

struct cache;
struct hub;

struct server_context {
    struct api api;
    struct hub *hub;
    struct cache *cache;
};

#endif
