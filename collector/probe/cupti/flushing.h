/* Flushes of libcupti's that do not come back, or with an error: the page is told. While
 * our thread is in one that hangs it can say nothing, so the training thread does, where a
 * step ends. */
#ifndef PROBE_CUPTI_FLUSHING_H
#define PROBE_CUPTI_FLUSHING_H

#include <stdbool.h>
#include <stdint.h>

/* Our thread: a flush begins now; all work that began before `known_ticks` was told. */
void flushing_begins(uint64_t now_ticks, uint64_t known_ticks);
/* Our thread: it is back, with a CUptiResult. True: all is well again, though the page was
 * told otherwise, and steps that ended meanwhile may have been missed. */
bool flushing_ended(int error);
/* Our thread: they fail, one after another. */
bool flushing_fails(void);

/* Training thread, in step_ending, before anything is written of the step that ends now:
 * does a flush hang? What is told then, once: that the source is not available, and that
 * the work of all steps so far that nobody had told of is lost. */
bool flushing_hangs(uint64_t step_end_ticks);

#endif
