/* The part of a run that a question is about. */
#ifndef QUERY_WINDOW_H
#define QUERY_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

enum window_kind {
    WINDOW_DEFAULT,    /* 60 s while it runs, else the run */
    WINDOW_LAST_NS,    /* a: ns before the newest event; of a run that is over and has
                          no step there, as long before and after its last step's end */
    WINDOW_LAST_STEPS, /* a: how many training steps */
    WINDOW_STEPS,      /* a, b: step numbers, inclusive */
    WINDOW_TIME,       /* a, b: ns since the session's zero */
    WINDOW_EPOCH,      /* a: epoch, from 1 */
    WINDOW_RUN,
};

struct window {
    enum window_kind kind;
    int64_t a, b;
};

/* "10s", "60s", "10min", "100steps", "a-b", "from..to" (ms), "epoch:n", "run"; NULL or
 * "" is the default. Returns 0, or -EINVAL and a sentence in *reason (static). */
MUST_CHECK int window_parse(const char *text, struct window *window,
                            const char **reason);

/* The same window as text, as window_parse() reads it. */
void window_print(const struct window *window, char *text, size_t size);

#endif
