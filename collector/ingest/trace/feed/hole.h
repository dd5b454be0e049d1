/* Text that a second reading of a file may leave out. */
#ifndef INGEST_TRACE_FEED_HOLE_H
#define INGEST_TRACE_FEED_HOLE_H

#include <stdint.h>

/* Offsets in the text, as trace_event.offset: each of an event that the first reading
 * gave, and no key of the top level in between. */
struct trace_hole {
    uint64_t from, to; /* from < to <= the next one's from */
};

#endif
