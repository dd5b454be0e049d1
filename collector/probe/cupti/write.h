/* Records to events of the wire, in the ring of the thread that calls. */
#ifndef PROBE_CUPTI_WRITE_H
#define PROBE_CUPTI_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/cupti/calls.h"
#include "probe/cupti/library.h"
#include "probe/cupti/records.h"
#include "probe/cupti/stamps.h"

struct write_counts {
    uint64_t work;    /* kernels, copies, memsets: what has a cost */
    uint64_t calls;   /* of the API that were kept */
    uint64_t dropped; /* calls that nobody wants */
    uint64_t last_ticks;
    uint64_t events; /* with EVENT_MORE: for pacing */
};

struct writer {
    const struct cupti_library *cupti;
    const struct stamps *stamps;
    struct calls *calls;
    struct write_counts counts;
};

/* A new buffer begins: addresses of names may mean something else than before. */
void write_buffer_begins(void);

/* Does it belong on the timeline? */
bool write_wants(const struct writer *writer, const struct cupti_record *record);

/* When it began and ended; false when it says no such times, or they lie in no era of the
 * clock: it is not written. */
MUST_CHECK bool write_knows_times(const struct writer *writer,
                                  const struct cupti_record *record, uint64_t ticks[2]);

/* Writes what belongs on the timeline; the rest is passed over. */
void write_record(struct writer *writer, const struct cupti_record *record);

#endif
