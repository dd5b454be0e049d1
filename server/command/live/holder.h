/* Who holds a port of this machine: one of our servers, or somebody else. */
#ifndef COMMAND_HOLDER_H
#define COMMAND_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

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
