/* Questions of the command line to a server on this machine. */
#ifndef COMMAND_CLIENT_H
#define COMMAND_CLIENT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

struct client_question {
    uint16_t port;
    const char *path;  /* with its parameters, percent-encoded */
    const char *body;  /* of a POST, JSON; NULL: a GET */
    const char *token; /* "" none */
    int patience_ms;   /* for the answer, and once more for its last piece */
    size_t bytes_max;  /* of the answer with its head */
    /* Not 0 after a signal: the question is given up, -EINTR; NULL none is heard. */
    const volatile sig_atomic_t *stop;
};

struct client_answer {
    char *head; /* owns the bytes of both; free() it */
    const char *body;
    int status;
};

/* A connection to a port of this machine, made within `patience_ms`; -errno,
 * -ECONNREFUSED when nobody listens. */
MUST_CHECK int client_connect(uint16_t port, int patience_ms);

/* Returns 0 for any answer, whatever its status; -ECONNREFUSED when nobody listens,
 * -EMSGSIZE when it is too long, -EPROTO when it is not HTTP, else -errno. */
MUST_CHECK int client_ask(const struct client_question *question,
                          struct client_answer *answer);

#endif
