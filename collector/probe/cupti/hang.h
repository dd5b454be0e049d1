/* A flush of libcupti's that does not come back: our thread is in it and can say nothing,
 * so the training thread does, where a step ends. */
#ifndef PROBE_CUPTI_HANG_H
#define PROBE_CUPTI_HANG_H

#include <stdbool.h>
#include <stdint.h>

/* Our thread: a flush begins now; all work that began before `known_ticks` was told. */
void hang_flush_begins(uint64_t now_ticks, uint64_t known_ticks);
/* Our thread: it is back. True: the page was told that it hung, and steps that ended
 * meanwhile were missed. */
bool hang_flush_ended(void);

/* Training thread, in step_ending, before anything is written of the step that ends now:
 * does a flush hang? What is told then, once: that the source is not available, and that
 * the work of all steps so far that nobody had told of is lost. */
bool hang_lasts(uint64_t step_end_ticks);

#endif
