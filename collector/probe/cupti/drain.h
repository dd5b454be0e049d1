/* From full buffers to events: what our thread does after every flush. */
#ifndef PROBE_CUPTI_DRAIN_H
#define PROBE_CUPTI_DRAIN_H

#include <stdbool.h>

#include "probe/cupti/write.h"

#define DRAIN_PATIENCE_US UINT64_C(10000000)

struct drain {
    struct cupti_layout layout;
    unsigned kinds_known;
    struct calls calls;
    struct stamps stamps;
    struct writer writer;
    uint64_t told_ticks;   /* up to then CUPTI has said what it dropped */
    uint64_t read_ticks;   /* up to then records had been read, at the last question */
    uint64_t asked_at;     /* buffers that had come back when it was last asked */
    bool reclaims;         /* the next time also what another profiler was given */
    uint64_t looked_ticks; /* what began since then may be in the scrap: nobody told */
    uint64_t ours_ticks;   /* since then CUPTI may be another profiler's; 0 it is not */
    uint64_t known_ticks;  /* all work that began before was told, or told lost */
};

/* Learns the strides of the library, which answers. */
void drain_open(struct drain *drain, const struct cupti_library *library);

/* Reads, writes and gives back what is full. `pause` is called, with ms, before the
 * ring would be written around faster than a reader can follow; false from it stops
 * the waiting. What is missing beside a buffer's records is told before the first of
 * them: its own that cannot be read, and what was dropped before it came back. Returns how
 * many buffers there were. */
unsigned drain_buffers(struct drain *drain, bool (*pause)(unsigned ms));

/* What CUPTI and we had no room for, told before drain_buffers() writes what came: who
 * reads it knows of the hole before a step around it is closed. CUPTI is asked; it is
 * ours then. */
void drain_ask(struct drain *drain);

/* After drain_buffers(): how much has come, and up to when there comes no more. What a
 * buffer holds that does not come back for DRAIN_PATIENCE_US is told lost. */
void drain_tell(struct drain *drain);

/* Nothing of what began before now will come, or not in time: that it may be missing was
 * told by drain_lose(). */
void drain_give_up(struct drain *drain);

/* Of what was done from `since_ticks` to `until_ticks` some or all will not come:
 * `events`, 0 not known how many. */
void drain_lose(uint64_t since_ticks, uint64_t until_ticks, uint64_t events);

#endif
