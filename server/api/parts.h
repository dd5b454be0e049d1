/* What the handlers of HTTP requests get as their context: the parts of the running server. */
#ifndef API_PARTS_H
#define API_PARTS_H

#include "api/api.h"

struct cache;
struct hub;

struct parts {
    struct api api;
    struct hub *hub;
    struct cache *cache;
};

#endif
