#include "probe/cupti/flushing.h"

#include <stdio.h>

#include "probe/cupti/state.h"
#include "probe/probe.h"

#define FAILURES 10u /* one after another: some 1 s of them */

static unsigned failures; /* of the newest flushes, FAILURES at most */

static void say_failing(int error)
{
    char text[96];

    (void)snprintf(text, sizeof(text),
                   "libcupti gives back nothing that it has recorded: its flush fails "
                   "(error %d)",
                   error);
    state_say(WIRE_STATE_UNAVAILABLE, text, NULL);
}

bool flushing_ended(int error, bool hung)
{
    bool was_told = hung || flushing_fails();

    if (error == CUPTI_OK) {
        failures = 0;
        return was_told;
    }
    failures += failures < FAILURES ? 1 : 0;
    if (hung)
        failures = FAILURES;
    /* After a turn of another profiler, or a new clock, the page has "active" again. */
    if (flushing_fails() && (hung || !was_told ||
                             probe_capability_is(WIRE_SOURCE_CUPTI, WIRE_STATE_ACTIVE)))
        say_failing(error);
    return false;
}

bool flushing_fails(void)
{
    return failures == FAILURES;
}
