/* From a raw path to a route: byte for byte, nothing is decoded or cleaned. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/http.h"

#define ROUTER_TAIL_MAX 128u

struct router_match {
    const struct http_route *route; /* NULL: 404 */
    const char *tail;               /* into the path; "" none */
    unsigned methods;               /* that the path has; 0 with a 404 */
};

/* The route that takes `method`, among those of the first path in the table that is
 * `path`. A star at a route's end stands for one
 * to ROUTER_TAIL_MAX characters of [A-Za-z0-9._-/], no segment of which begins with a
 * dot. route is NULL with methods != 0 when the path takes other methods only: 405. */
struct router_match router_find(const struct http_route *routes, size_t count,
                                const char *path, enum http_method method);

/* The value of an Allow header. */
void router_allow(unsigned methods, char *text, size_t size);

#endif
