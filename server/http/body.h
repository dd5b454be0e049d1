/* A large body, piece by piece, from a client that may be slow, gone or malicious. */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/attributes.h"

struct mg_connection;

struct body {
    uint64_t left, read;
    int64_t begun_ns; /* CLOCK_MONOTONIC */
    int socket;       /* under the connection, borrowed; -1 unknown */
    bool expect;      /* the client waits to be told to send */
    bool interim;     /* it knows answers before the answer: HTTP/1.1 */
    int64_t ask_ns;   /* it has closed its end: when it is sent one again */
    int64_t rest_ns;  /* between the last one and that; 0: none was sent */
};

void body_begin(struct body *body, uint64_t size, int socket, bool expect);

/* As http_body_read(). */
MUST_CHECK ssize_t body_read(struct body *body, struct mg_connection *connection,
                             void *data, size_t size);

/* As http_is_gone(). */
bool body_is_gone(struct body *body);

#endif
