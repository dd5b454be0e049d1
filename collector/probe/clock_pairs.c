/* Pairs of raw ticks and both clocks, which tell readers what a tick is. */
#include "probe/core.h"

#define PAIR_INTERVAL_US 1000000u /* a second: drift is below 1 us */
#define EARLY_PAIR_US    10000u   /* the first ones come sooner: a job of 50 ms */

static uint64_t last_pair; /* raw ticks */

static void add_pair(void)
{
    struct wire_header *header = probe->header;
    uint64_t count =
        atomic_load_explicit(&header->clock_pairs_count, memory_order_relaxed);
    struct wire_clock_pair *pair = &header->clock_pairs[count % WIRE_CLOCK_PAIRS];
    uint64_t before = clock_ticks(probe->tsc), monotonic = clock_ns(CLOCK_MONOTONIC);
    uint64_t after = clock_ticks(probe->tsc);

    atomic_store_explicit(&pair->ticks, before + (after - before) / 2,
                          memory_order_relaxed);
    atomic_store_explicit(&pair->monotonic_ns, monotonic, memory_order_relaxed);
    atomic_store_explicit(&pair->realtime_ns, clock_ns(CLOCK_REALTIME),
                          memory_order_relaxed);
    /* Release: pairs with readers' acquire; a counted pair is whole. */
    atomic_store_explicit(&header->clock_pairs_count, count + 1, memory_order_release);
    last_pair = after;
}

void probe_clock_keep(uint64_t now)
{
    uint64_t count =
        atomic_load_explicit(&probe->header->clock_pairs_count, memory_order_relaxed);
    uint64_t wait = count < 8 ? EARLY_PAIR_US : PAIR_INTERVAL_US;

    if (now - last_pair > wait * probe->ticks_per_us)
        add_pair();
}

/* Ticks in a microsecond from two pairs about 200 us apart: good to a per mille. */
static uint64_t measure_ticks_per_us(void)
{
    uint64_t ticks = clock_ticks(probe->tsc), ns = clock_ns(CLOCK_MONOTONIC), passed;

    if (!probe->tsc)
        return 1000;
    do
        passed = clock_ns(CLOCK_MONOTONIC) - ns;
    while (passed < 200000);
    ticks = clock_ticks(probe->tsc) - ticks;
    return ticks * 1000 / passed > 0 ? ticks * 1000 / passed : 1;
}

void probe_clock_open(void)
{
    add_pair();
    probe->ticks_per_us = measure_ticks_per_us();
    add_pair();
}
