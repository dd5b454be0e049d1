/* Metadata that a file says again as it said it last: some say the same twenty names and
 * numbers 300,000 times. Once is enough. */
#ifndef TRACE_CUT_SAID_H
#define TRACE_CUT_SAID_H

#include <stdbool.h>
#include <stdint.h>

#include "ingest/trace/event.h"

#define CUT_SAID_MAX 512u /* threads and what is said of them; more are said again */

/* Of the newest by what it speaks of: name, pid and tid. Zero: nothing yet. */
struct cut_said {
    struct {
        uint32_t name, pid, tid;
        uint64_t text; /* a hash */
    } newest[CUT_SAID_MAX];
};

/* Is it word for word what was said last of the same? Of an event 'M'. */
bool cut_said_again(struct cut_said *said, const struct trace_event *event);

#endif
