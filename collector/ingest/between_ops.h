/* What the training thread does while no op of it is open: is it off the CPU, and if it
 * waits there for a thread, does another one of the process run? Asked of the kernel some
 * thirty times a second, at random moments, in steps whose ops are recorded by the draw.
 * Where these are few there are more moments, of which most find nothing to ask. */
#ifndef INGEST_BETWEEN_OPS_H
#define INGEST_BETWEEN_OPS_H

#include "ingest/source.h"

struct between_ops_clock {
    int64_t next_ns; /* by the monotonic clock: when to ask */
    uint64_t random; /* any state, by which that is drawn */
    double asked;    /* share of the last moments in which there was something to ask */
};

/* Draws the next moment; `asked`: at this one it was asked. */
void between_ops_next(struct between_ops_clock *clock, int64_t now_ns, bool asked);

/* Asks, and tells the process's table; false when there is nothing to ask. Takes the store's
 * lock. */
bool between_ops_sample(const struct source *source, struct store *store,
                        int64_t now_ns);

#endif
