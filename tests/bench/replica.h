/* A large trace out of a real one: its events again and again, each time with later stamps
 * and with ids of their own, so that what is linked in the real one is linked in each. */
#ifndef BENCH_REPLICA_H
#define BENCH_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

struct replica;

/* Loads the trace to be replicated, gzip or not, of at most 64 MB of text. NULL when it
 * has no events. */
struct replica *replica_open(const char *path);
void replica_close(struct replica *replica);

/* A document of at least `bytes`, as fast as memory is copied. */
bool replica_write(const struct replica *replica, int descriptor, uint64_t bytes);

#endif
