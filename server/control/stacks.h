/* Python stacks of a running trainer, when somebody asks for them.
 *
 * The trainer registered faulthandler on a real-time signal; it writes beside the
 * segment (<random>.stacks). A signal to the wrong process could end it, so it is sent
 * only through a pidfd, only in our own PID namespace, and only to a process whose start
 * time and owner are those of the segment and that catches the signal.
 */
#ifndef CONTROL_STACKS_H
#define CONTROL_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define STACKS_REASON_BYTES 256u
#define STACKS_BYTES_MAX    (256u * 1024u) /* of one answer; about 1,000 frames */

struct stacks {
    char *text;    /* NUL-terminated, to free(); as faulthandler wrote it */
    size_t length; /* bytes */
    int truncated; /* there was more than STACKS_BYTES_MAX */
};

/* Asks the process of the segment at `path` by `signal` and waits up to about a second
 * for the answer. 0, or a negative errno and a sentence in `reason`. Any thread. */
MUST_CHECK int stacks_ask(const char *path, int signal, struct stacks *stacks,
                          char *reason);

#endif
