/* Flushes of libcupti's that come back with an error: the page is told. */
#ifndef PROBE_CUPTI_FLUSHING_H
#define PROBE_CUPTI_FLUSHING_H

#include <stdbool.h>

/* Our thread: one is back, with a CUptiResult; the page was told that it `hung`. True: all
 * is well again, though the page was told otherwise. */
bool flushing_ended(int error, bool hung);
/* Our thread: they fail, one after another. */
bool flushing_fails(void);

#endif
