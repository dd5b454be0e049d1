/* What the CUPTI thread tells the page: its state, with a sentence why. */
#ifndef PROBE_CUPTI_STATE_H
#define PROBE_CUPTI_STATE_H

#include <stdbool.h>

#include "probe/cupti/library.h"
#include "wire/segment.h"

/* One sentence for an error of CUPTI's. Static. */
const char *state_reason(int error);

/* The environment asks for CUDA graphs as a whole, not by their nodes. */
bool state_wants_whole_graphs(void);

/* The environment says that another tool traces this process; NULL: it does not. */
const char *state_foreign(void);

/* Sets the capability; NULL: no reason, the detail as before. */
void state_say(enum wire_source_state state, const char *reason, const char *detail);

/* Library, version, kinds, clock: for the capability's detail. */
void state_detail(const struct cupti_library *library, unsigned kinds_known,
                  const char *clock, char *text, size_t bytes);

#endif
