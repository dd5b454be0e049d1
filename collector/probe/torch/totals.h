/* What one device's allocator has given out: counted at each allocation, read at step ends. */
#ifndef PROBE_TORCH_TOTALS_H
#define PROBE_TORCH_TOTALS_H

#include <stdatomic.h>
#include <stdint.h>

#include "probe/probe.h"

/* Totals of one device. Any thread; relaxed, for each word stands for itself. */
struct totals {
    _Alignas(128) _Atomic int64_t allocated; /* bytes */
    _Atomic int64_t reserved;                /* bytes; 0 unknown */
    _Atomic int64_t peak;                    /* bytes since the last sample */
    _Atomic uint64_t peak_time;              /* raw ticks */
    _Atomic uint32_t peak_name;              /* op that ran */
    _Atomic uint32_t device;                 /* EVENT_DEVICE + 1; 0 free */
    /* Since the last sample. */
    _Atomic uint32_t allocations, frees, ooms;
    _Atomic uint64_t bytes;
    /* Of its segments at the report that `reserved` is of. */
    _Atomic uint64_t given_back_bytes;
};

/* Out of line: few allocations are the highest, and of few steps each is an event. */
void totals_raise_peak(struct totals *totals, int64_t allocated);
void totals_write_event(uint16_t device, int64_t bytes, int64_t allocated);

/* Counts one allocation, or with `bytes` below 0 one that was freed; `allocated`: bytes of the
 * device after it. */
ALWAYS_INLINE void totals_changed(struct totals *totals, uint16_t device, int64_t bytes,
                                  int64_t allocated)
{
    /* Relaxed: sums, read at step ends, where a count may belong to the next step. */
    if (bytes >= 0) {
        atomic_fetch_add_explicit(&totals->allocations, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&totals->bytes, (uint64_t)bytes,
                                  memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&totals->frees, 1, memory_order_relaxed);
    }
    if (allocated > atomic_load_explicit(&totals->peak, memory_order_relaxed))
        totals_raise_peak(totals, allocated);
    if (UNLIKELY((probe_recording() & EVENT_STEP_OPS) != 0))
        totals_write_event(device, bytes, allocated);
}

#endif
