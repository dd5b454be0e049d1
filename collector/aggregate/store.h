/* Everything that the collector knows: sessions, their processes, their tables.
 *
 * One writer, the collector's thread, holds the lock for at most about a millisecond at
 * a time; server threads read under it through the queries (query/answer.h) and never
 * keep a pointer beyond it. The lock prefers the writer: a viewer never makes the
 * collector fall behind.
 */
#ifndef AGGREGATE_STORE_H
#define AGGREGATE_STORE_H

#include <stdint.h>

#include "wire/attributes.h"

#define STORE_SESSIONS_MAX 256u

struct store;

enum process_state {
    PROCESS_RUNNING,
    PROCESS_ENDED,
    PROCESS_CRASHED,
    PROCESS_LOST, /* unreadable: reason says why */
};

struct store_limits {
    /* Of raw events, all jobs together, and as much again for all trace files; 0 = 256
     * MiB. */
    uint64_t history_bytes;
    /* Of op tables per process, and as much again for those of its accelerators; 0 = 6
     * MiB. */
    uint64_t digest_bytes;
};

/* limits NULL = the defaults. NULL when out of memory. */
struct store *store_new(const struct store_limits *limits);

/* No query may be running, the collector must have stopped. */
void store_free(struct store *store);

/* Grows whenever anything changed; any thread, no lock. */
uint64_t store_rev(const struct store *store);

#endif
