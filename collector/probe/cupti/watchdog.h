/* Calls into libcupti that do not come back: the page is told. While our thread is in one
 * that hangs it can say nothing, so the training thread does, where a step ends.
 *
 * The one rule: every call that may wait for a lock of CUPTI's lies between a begin and an
 * end, and no rest of ours does. */
#ifndef PROBE_CUPTI_WATCHDOG_H
#define PROBE_CUPTI_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

/* Our thread: a call begins, `call` as in "has not come back from ..." (static); all work
 * that began before `known_ticks` was told, 0: there can be none. */
void watchdog_begin(const char *call, uint64_t known_ticks);
/* Our thread: it is back. True: the page was told that it hangs, and steps that ended
 * meanwhile may have been missed. */
bool watchdog_end(void);

/* Training thread, in step_ending, before anything is written of the step that ends now:
 * does a call hang? What is told then, once: that the source is not available, and that
 * the work of all steps so far that nobody had told of is lost. */
bool watchdog_hangs(uint64_t step_end_ticks);

#endif
