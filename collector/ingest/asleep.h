/* Is the training thread off the CPU while no op of it is open? Asked of the kernel some
 * thirty times a second, at random moments, in steps whose ops are recorded. */
#ifndef INGEST_ASLEEP_H
#define INGEST_ASLEEP_H

#include "ingest/source.h"

/* When to ask next, by the monotonic clock; `random` is any state, moved on. */
int64_t asleep_next(int64_t now_ns, uint64_t *random);

/* Asks, and tells the process's table. Takes the store's lock. */
void asleep_sample(const struct source *source, struct store *store, int64_t now_ns);

#endif
