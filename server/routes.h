/* The routes of the server and their handlers; a handler's context is struct server_context. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <stddef.h>

#include "http/http.h"

extern const struct http_route routes[];
extern const size_t route_count;

#endif
