/* Questions of the command line to a server on this machine, and who holds a port: one of
 * our servers, or somebody else. */
#ifndef COMMAND_CLIENT_H
#define COMMAND_CLIENT_H

#include <signal.h>
#include <stdbool.h>
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

/* Returns 0 for any answer, whatever its status; -ECONNREFUSED when nobody listens,
 * -EMSGSIZE when it is too long, -EPROTO when it is not HTTP, else -errno. */
MUST_CHECK int client_ask(const struct client_question *question,
                          struct client_answer *answer);

enum holder {
    HOLDER_NONE,  /* nobody listens */
    HOLDER_OURS,  /* a server of this user, format and folder: join it */
    HOLDER_OTHER, /* something else, or it does not answer in time */
};

/* Asks GET /healthz at 127.0.0.1:port and believes it only when the listening socket
 * belongs to us. `directory`: the folder that the server must be watching. Whoever does not
 * answer within `patience_ms` is another. */
MUST_CHECK enum holder holder_ask(uint16_t port, const char *directory,
                                  int patience_ms);

/* Of one who asks a single port: ours too is late where jobs have taken every core. */
#define HOLDER_PATIENCE_MS 3000

/* The token of a server of ours, from the environment that a run gave it, which only its
 * user can read; false where it has none there. */
bool holder_token(uint16_t port, char *token, size_t size);

#endif
