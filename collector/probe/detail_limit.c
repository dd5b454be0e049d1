#include "probe/detail_limit.h"

#include <string.h>

#include "probe/probe.h"

#define OP_COST_NS   250.0 /* as decide.c reckons it */
#define ALLOWANCE_NS 50e6 /* 200,000 operators: a step of theirs is whole in any case */

static _Atomic uint64_t began; /* raw ticks; 0: no limit, or it was reached */
static _Atomic uint64_t ops_before;
static _Atomic bool was_reached;

void detail_limit_begin(uint32_t recording)
{
    bool limited = (recording & EVENT_STEP_OPS) != 0 &&
                   atomic_load_explicit(&probe->header->level, memory_order_relaxed) ==
                       WIRE_LEVEL_AUTO;

    atomic_store_explicit(&was_reached, false, memory_order_relaxed);
    atomic_store_explicit(&ops_before, probe_events_written(EVENT_CPU_OP),
                          memory_order_relaxed);
    /* Release: pairs with the acquire of who checks, who then sees `ops_before`. */
    atomic_store_explicit(&began, limited ? clock_ticks(probe->tsc) : 0,
                          memory_order_release);
}

bool detail_limit_was_reached(void)
{
    return atomic_load_explicit(&was_reached, memory_order_relaxed);
}

static double budget(void)
{
    uint64_t bits =
        atomic_load_explicit(&probe->header->governor.budget, memory_order_relaxed);
    double percent;

    memcpy(&percent, &bits, sizeof(percent));
    return percent / 100;
}

bool detail_limit_check(void)
{
    uint64_t since = atomic_load_explicit(&began, memory_order_acquire);

    if (since == 0 || !probe_is_open())
        return false;
    uint64_t ops = probe_events_written(EVENT_CPU_OP) -
                   atomic_load_explicit(&ops_before, memory_order_relaxed);
    double passed_ns =
        1e3 * (double)(clock_ticks(probe->tsc) - since) / (double)probe->ticks_per_us;

    if (OP_COST_NS * (double)ops <= ALLOWANCE_NS + budget() * passed_ns)
        return false;
    /* Of several threads one says it, and of no step that began meanwhile. */
    if (!atomic_compare_exchange_strong_explicit(
            &began, &since, 0, memory_order_relaxed, memory_order_relaxed))
        return false;
    atomic_store_explicit(&was_reached, true, memory_order_relaxed);
    atomic_fetch_and_explicit(&probe->recording, ~(uint32_t)EVENT_STEP_OPS,
                              memory_order_relaxed);
    atomic_fetch_and_explicit(&probe->header->recording, ~(uint32_t)EVENT_STEP_OPS,
                              memory_order_relaxed);
    return true;
}
