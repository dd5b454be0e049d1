/* Reading memory that another process may take away: a file that is truncated under its
 * mapping raises SIGBUS in the reader. The guard turns that into a return value.
 *
 * A process-wide handler for SIGBUS passes on what did not happen under a guard.
 */
#ifndef INGEST_GUARD_H
#define INGEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/ring.h"
#include "wire/segment.h"

/* Installs the handler; again is harmless. False when the kernel refuses. */
MUST_CHECK bool guard_install(void);

/* Calls `read(user)` once; false when the memory went away under it. `read` takes no
 * lock and allocates nothing: it may be left at any instruction. */
typedef void guard_reader(void *user);
MUST_CHECK bool guard_run(guard_reader *read, void *user);

/* ring_read() under the guard; -EFAULT when the memory went away. */
MUST_CHECK int64_t guard_ring_read(struct ring_reader *reader, struct event *events,
                                   uint64_t max);

#endif
