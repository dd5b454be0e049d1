/* The raw clock of a segment: what the hot path reads. */
#ifndef WIRE_CLOCK_H
#define WIRE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "wire/attributes.h"

/* Nanoseconds of `clock`. */
ALWAYS_INLINE uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Raw ticks: the time stamp counter where `tsc` says that it is invariant, else
 * CLOCK_MONOTONIC in ns. No serialisation: the few cycles of reordering are far below
 * what an event lasts. */
ALWAYS_INLINE uint64_t clock_ticks(bool tsc)
{
#if defined(__x86_64__)
    if (LIKELY(tsc))
        return __builtin_ia32_rdtsc();
#else
    (void)tsc;
#endif
    return clock_ns(CLOCK_MONOTONIC);
}

/* Is the counter invariant and trusted by the kernel? Reads /proc and /sys once per
 * call; false on anything unknown, and where TRAINGLASS_CLOCK=monotonic forces it. */
bool clock_tsc_usable(void);

#endif
