#include "probe/cupti/watchdog.h"

#include <stdatomic.h>
#include <stdio.h>

#include "probe/cupti/drain.h"
#include "probe/cupti/state.h"
#include "probe/probe.h"

#define HANG_US UINT64_C(5000000)

static const char *_Atomic in_call; /* what is told of the call that runs */
static _Atomic uint64_t known;      /* ticks, as told before it */
static _Atomic uint64_t since;      /* ticks when it began; 0: not in one */
static _Atomic uint32_t said;       /* that it hangs */

void watchdog_begin(const char *call, uint64_t known_ticks)
{
    atomic_store_explicit(&in_call, call, memory_order_relaxed);
    atomic_store_explicit(&known, known_ticks, memory_order_relaxed);
    /* Release: pairs with the acquire in watchdog_hangs(). */
    atomic_store_explicit(&since, probe_ticks(), memory_order_release);
}

bool watchdog_end(void)
{
    atomic_store_explicit(&since, 0, memory_order_relaxed);
    return atomic_exchange_explicit(&said, 0, memory_order_relaxed) != 0;
}

static void say_hanging(uint64_t step_end_ticks)
{
    uint64_t known_ticks = atomic_load_explicit(&known, memory_order_relaxed);
    char text[96];

    (void)snprintf(text, sizeof(text), "libcupti has not come back from %s for 5 s",
                   atomic_load_explicit(&in_call, memory_order_relaxed));
    state_say(WIRE_STATE_UNAVAILABLE, text, NULL);
    if (known_ticks != 0)
        drain_lose(known_ticks, step_end_ticks, 0);
}

bool watchdog_hangs(uint64_t step_end_ticks)
{
    uint64_t from = atomic_load_explicit(&since, memory_order_acquire);

    if (LIKELY(from == 0 || step_end_ticks <= from + HANG_US * probe_ticks_per_us()))
        return false;
    if (atomic_exchange_explicit(&said, 1, memory_order_relaxed) != 0)
        return true;
    /* It may have come back meanwhile, and did not see that it was said. */
    if (atomic_load_explicit(&since, memory_order_acquire) == from)
        say_hanging(step_end_ticks);
    else
        atomic_store_explicit(&said, 0, memory_order_relaxed);
    return true;
}
