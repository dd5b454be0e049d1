/* HTTP for the rest of the server: routes in, answers out. Nobody else knows CivetWeb.
 *
 * Each connection has a thread of its own for as long as it lasts; a handler runs on it
 * and may block. Before a handler sees a request it was judged (http/security.h) and
 * its body, if any, is whole; only an upload is read by its handler. A path matches a
 * route byte for byte, undecoded.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/bytes.h"
#include "http/security.h"
#include "wire/attributes.h"

struct api_call;
struct cJSON;
struct http_server;
struct http_call; /* one request, while its handler runs */

typedef void http_handler(struct http_call *call, void *context);

/* How a route's requests come to their handler. */
enum http_manner {
    HTTP_USUAL,       /* judged, the body whole and small */
    HTTP_OPEN_TO_ALL, /* no token, no uid: liveness */
    HTTP_UPLOAD,      /* judged; the handler reads a large body by http_body_read() */
    HTTP_LONG,        /* judged; takes as long as its reader: a few at once, else 503 */
};

struct http_route {
    unsigned methods; /* enum http_method, or-ed; GET answers HEAD too */
    const char *path; /* "/api/ops"; with a star at its end: what follows is `tail` */
    http_handler *handler; /* any thread, several at once */
    /* Of a JSON endpoint: makes its document, for the handler that all of them share. */
    struct cJSON *(*document)(struct api_call *call);
    enum http_manner manner;
};

struct http_options {
    const char *bind; /* IPv4 address */
    uint16_t port;    /* 0 = any free one */
    uint32_t threads;
    struct security_policy policy; /* port is filled in by http_start() */
    bool any_group;                /* share = group: members of our group may look */
    uint64_t upload_bytes_max;     /* of a body that its handler reads itself; > 0 */
    const struct http_route *routes;
    size_t route_count;
    void *context; /* given to every handler */
};

/* All borrowed until the handler returns. */
struct http_request {
    enum http_method method;
    const char *path;  /* without the base path */
    const char *query; /* raw; NULL none */
    const char *tail;  /* what the route's star stands for; "" none */
    struct cJSON *(*document)(struct api_call *call); /* of the route */
    const char *body; /* NUL-terminated; NULL where the handler reads it */
    size_t body_bytes;
    bool accepts_gzip;
    const char *if_none_match, *last_event_id; /* "" none */
    const char *host;                          /* allowed, as it was sent */
};

struct http_answer {
    int status;
    const char *type;    /* content type; NULL = application/json */
    const char *policy;  /* content security policy; NULL = the strictest */
    const char *headers; /* more header lines, each with its CRLF; NULL none */
    bool revalidate;     /* the browser may keep it and asks each time */
    bool chunked;        /* of a stream with an end: a cut one is noticed */
    const void *body;
    size_t size;
};

/* Returns when the port listens. On failure *server is NULL, a sentence stands in
 * `reason` (of `reason_bytes`) and the result is -EADDRINUSE, or another -errno. The
 * routes are borrowed. */
MUST_CHECK int http_start(struct http_server **server,
                          const struct http_options *options, char *reason,
                          size_t reason_bytes);

/* Closes the port and joins every thread: streams must have been told to end. */
void http_stop(struct http_server *server);

uint16_t http_port(const struct http_server *server);

/* ms since the last request that a viewer made (liveness and metrics are none). */
int64_t http_idle_ms(const struct http_server *server);

const struct http_request *http_request(const struct http_call *call);

/* Does the connection end with this answer? Then its bytes are nobody else's. */
bool http_closes(const struct http_call *call);

/* The next bytes of an upload, at most `size`: how many, 0 behind the last, -ETIMEDOUT
 * when they come too slowly, -ECONNABORTED when the client is gone. An answer before
 * the last byte ends the connection. */
MUST_CHECK ssize_t http_body_read(struct http_call *call, void *data, size_t size);

/* Has the client of an upload left? One of HTTP/1.1 that only sends no more has not. */
bool http_is_gone(struct http_call *call);

/* Answers, once per call, head and body in one write. */
void http_answer(struct http_call *call, const struct http_answer *answer);

/* {"error": message, "field": field}; field NULL is left out. */
void http_refuse(struct http_call *call, int status, const char *field,
                 const char *message);

/* The bytes of a whole answer, to be sent to many. NULL without memory. */
struct shared_bytes *http_answer_bytes(const struct http_call *call,
                                       const struct http_answer *answer);
void http_answer_shared(struct http_call *call, const struct shared_bytes *whole);

/* Begins an answer of unknown length: Content-Length and body of `answer` are left
 * out, the connection ends with it. Then any number of writes, and for a chunked one
 * the end; false when the client is gone or stopped reading. */
MUST_CHECK bool http_stream_begin(struct http_call *call,
                                  const struct http_answer *answer);
MUST_CHECK bool http_stream_write(struct http_call *call, const void *data,
                                  size_t size);
bool http_stream_end(struct http_call *call);

/* The socket under a stream without chunks, for a writer that never waits; it is valid
 * until the handler returns. -1 when it cannot be told. */
int http_stream_socket(const struct http_call *call);

#endif
