/* What the files of http.h share: http.c runs the server, http_dispatch.c takes a request
 * to its handler, http_answer.c is what the handler says, body.c what it reads. They are
 * all that know CivetWeb.
 */
#ifndef HTTP_HTTP_INSIDE_H
#define HTTP_HTTP_INSIDE_H

#include <civetweb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/http.h"
#include "http/seats.h"
#include "wire/clock.h"

struct http_server {
    struct mg_context *context;
    struct http_options options;
    struct seats seats;
    _Atomic uint32_t long_answers;  /* that are being read now */
    _Atomic int64_t last_viewer_ms; /* written by every thread, read by http_idle_ms */
};

/* One connection; who it is, is known after its first request. */
struct http_peer {
    struct seat seat;
    bool asked, known;
    uid_t uid;
};

struct body {
    uint64_t left, read;
    int64_t begun_ns; /* CLOCK_MONOTONIC */
    int socket;       /* under the connection, borrowed; -1 unknown */
    bool expect;      /* the client waits to be told to send */
    bool interim;     /* it knows answers before the answer: HTTP/1.1 */
    int64_t ask_ns;   /* it has closed its end: when it is sent one again */
    int64_t rest_ns;  /* between the last one and that; 0: none was sent */
};

struct http_call {
    struct http_server *server;
    struct mg_connection *connection;
    const struct mg_request_info *info;
    struct http_request request;
    bool close;       /* the connection ends with this answer */
    bool chunked;     /* a stream that says where it ends */
    int status;       /* of the answer; 0 before */
    struct body body; /* what has not come yet */
};

/* CivetWeb's begin_request: judges, routes, answers; the status of the answer. */
int http_dispatch(struct mg_connection *connection);

/* As http_refuse(), with more header lines, each with its CRLF; NULL none. */
void http_refuse_with(struct http_call *call, int status, const char *field,
                      const char *message, const char *headers);

ALWAYS_INLINE int64_t http_now_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

#endif
