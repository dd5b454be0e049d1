/* What the training thread does while no op of it is open: is it off the CPU, and if it
 * waits there for a thread, does another one of the process run? Asked of the kernel some
 * thirty times a second, at random moments, in steps whose ops are recorded by the draw. */
#ifndef INGEST_BETWEEN_OPS_H
#define INGEST_BETWEEN_OPS_H

#include "ingest/source.h"

/* When to ask next, by the monotonic clock; `random` is any state, moved on. */
int64_t between_ops_next(int64_t now_ns, uint64_t *random);

/* Asks, and tells the process's table. Takes the store's lock. */
void between_ops_sample(const struct source *source, struct store *store, int64_t now_ns);

#endif
