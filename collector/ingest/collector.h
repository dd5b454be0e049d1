/* The collector's thread: finds segments, drains their rings into the store, notices
 * who lives and who died. It only reads what the jobs wrote. */
#ifndef INGEST_COLLECTOR_H
#define INGEST_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

struct store;
struct collector;

struct collector_options {
    /* Watched directories; each may appear later. */
    const char *const *directories;
    uint32_t directory_count;
    /* Watch every /dev/shm/trainglass-<n> that its owner n owns, too. */
    bool all_users;
};

/* NULL and a sentence in *reason (static) when it cannot start. The store is borrowed
 * until collector_stop(). */
struct collector *collector_start(struct store *store,
                                  const struct collector_options *options,
                                  const char **reason);

/* Returns when the thread has ended; what was published up to then is in the store. */
void collector_stop(struct collector *collector);

/* Blocks until everything that is published now is folded, or `timeout_ms` passed:
 * for `run`'s last summary, and for tests. False on timeout. */
bool collector_settle(struct collector *collector, int timeout_ms);

#endif
