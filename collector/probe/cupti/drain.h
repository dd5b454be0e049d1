/* From full buffers to events: what our thread does after every flush. */
#ifndef PROBE_CUPTI_DRAIN_H
#define PROBE_CUPTI_DRAIN_H

#include <stdbool.h>

#include "probe/cupti/write.h"

struct drain {
    struct cupti_layout layout;
    unsigned kinds_known;
    struct calls calls;
    struct stamps stamps;
    struct writer writer;
    struct cupti_skipped skipped; /* sums */
    uint64_t lost;                /* of any cause, told so far */
    uint64_t told_ticks; /* when that was; what is lost next was lost since then */
    bool reclaims;       /* the next time also what another profiler was given */
};

/* Learns the strides of the library, which answers. */
void drain_open(struct drain *drain, const struct cupti_library *library);

/* Reads, writes and gives back what is full. `pause` is called, with ms, before the
 * ring would be written around faster than a reader can follow; false from it stops
 * the waiting. Returns how many buffers there were. */
unsigned drain_buffers(struct drain *drain, bool (*pause)(unsigned ms));

/* Asks CUPTI for what it dropped, and tells the page of all losses. */
void drain_tell(struct drain *drain, bool ask);

/* Of what was done since `since_ticks` nothing will come. */
void drain_lose(uint64_t since_ticks, uint64_t events);

#endif
