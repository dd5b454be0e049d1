#include "probe/cupti/flushing.h"

#include <stdatomic.h>
#include <stdio.h>

#include "probe/cupti/drain.h"
#include "probe/cupti/state.h"
#include "probe/probe.h"

#define HANG_US  UINT64_C(5000000)
#define FAILURES 10u /* one after another: some 1 s of them */

static _Atomic uint64_t known;         /* ticks, as told before the flush that runs */
static _Atomic uint64_t flushing_from; /* ticks when it began; 0: not in one */
static _Atomic uint32_t said;          /* that it hangs */
static unsigned failures; /* our thread's: of the newest flushes, FAILURES at most */

void flushing_begins(uint64_t now_ticks, uint64_t known_ticks)
{
    atomic_store_explicit(&known, known_ticks, memory_order_relaxed);
    /* Release: pairs with the acquire in flushing_hangs(). */
    atomic_store_explicit(&flushing_from, now_ticks, memory_order_release);
}

static void say_failing(int error)
{
    char text[96];

    (void)snprintf(text, sizeof(text),
                   "libcupti gives back nothing that it has recorded: its flush fails "
                   "(error %d)",
                   error);
    state_say(WIRE_STATE_UNAVAILABLE, text, NULL);
}

bool flushing_ended(int error)
{
    atomic_store_explicit(&flushing_from, 0, memory_order_relaxed);
    bool hung = atomic_exchange_explicit(&said, 0, memory_order_relaxed) != 0;
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

bool flushing_hangs(uint64_t step_end_ticks)
{
    uint64_t from = atomic_load_explicit(&flushing_from, memory_order_acquire);

    if (LIKELY(from == 0 || step_end_ticks <= from + HANG_US * probe_ticks_per_us()))
        return false;
    if (atomic_exchange_explicit(&said, 1, memory_order_relaxed) == 0) {
        state_say(WIRE_STATE_UNAVAILABLE,
                  "libcupti has not come back from a flush for 5 s", NULL);
        drain_lose(atomic_load_explicit(&known, memory_order_relaxed), step_end_ticks,
                   0);
    }
    return true;
}
