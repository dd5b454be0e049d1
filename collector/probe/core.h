/* What the probe's core files share with each other and with nobody else. */
#ifndef PROBE_CORE_H
#define PROBE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/probe.h"

/* thread.c */
/* A forked child, or a program that nobody attached, opens a segment of its own with what
 * it records first. */
NEVER_INLINE struct probe_thread *probe_start_and_enter(void);

ALWAYS_INLINE struct probe_thread *probe_enter_or_start(void)
{
    struct probe_thread *self = probe_enter();

    return LIKELY(self != NULL) ? self : probe_start_and_enter();
}

/* thread.c: what the threads counted at a place of their `counts`. */
uint64_t probe_events_counted(uint32_t at);
void probe_threads_prepare(void); /* once, before the first event */
void probe_threads_forget(void);  /* in a forked child: the one thread starts anew */
uint64_t probe_main_ring_capacity(uint64_t pool_bytes);

/* probe.c: where the segment will be found, named or not yet. */
const char *probe_core_path(void);
/* Makes a part of the segment safe to write; false when there is no room. */
bool probe_core_allocate(uint64_t offset, uint64_t bytes);
/* At a step's end now and then: who reads must see that the process lives. */
void probe_core_hold(void);

/* facts.c: what every source says before it is attached. */
void probe_capabilities_begin(void);

/* nvtx.c: NVTX called us, perhaps before there was a segment. */
bool probe_nvtx_injected(void);

/* requests.c: on the training thread; `now` in raw ticks. */
void requests_open(void); /* a new segment: nothing was asked */
void requests_read(uint64_t now);

/* boundary.c */
const struct probe_hooks *probe_hook_at(uint32_t i); /* NULL after the last */
void probe_boundary_open(void);  /* the segment is mapped, not yet open to threads */
void probe_boundary_begin(void); /* it is open: the first words are written */
void probe_boundary_close(void); /* in a forked child */
void probe_boundary_thread_ends(void); /* the calling one, or all of the process */

/* clock_pairs.c */
void probe_clock_open(void);         /* the first pairs, and probe->ticks_per_us */
void probe_clock_keep(uint64_t now); /* one more when it is time; `now` in raw ticks */

#endif
