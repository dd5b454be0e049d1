#include "probe/cupti/hang.h"

#include <stdatomic.h>

#include "probe/cupti/drain.h"
#include "probe/cupti/state.h"
#include "probe/probe.h"

#define HANG_US UINT64_C(5000000)

static _Atomic uint64_t known;         /* ticks, as told before the flush that runs */
static _Atomic uint64_t flushing_from; /* ticks when it began; 0: not in one */
static _Atomic uint32_t said;          /* that it hangs */

void hang_flush_begins(uint64_t now_ticks, uint64_t known_ticks)
{
    atomic_store_explicit(&known, known_ticks, memory_order_relaxed);
    /* Release: pairs with the acquire in hang_lasts(). */
    atomic_store_explicit(&flushing_from, now_ticks, memory_order_release);
}

bool hang_flush_ended(void)
{
    atomic_store_explicit(&flushing_from, 0, memory_order_relaxed);
    return atomic_exchange_explicit(&said, 0, memory_order_relaxed) != 0;
}

bool hang_lasts(uint64_t step_end_ticks)
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
