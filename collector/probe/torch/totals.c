#include "probe/torch/totals.h"

void totals_raise_peak(struct totals *totals, int64_t allocated)
{
    int64_t peak = atomic_load_explicit(&totals->peak, memory_order_relaxed);
    struct probe_thread *self = probe_enter();

    while (allocated > peak && !atomic_compare_exchange_weak_explicit(
                                   &totals->peak, &peak, allocated,
                                   memory_order_relaxed, memory_order_relaxed))
        ;
    if (self == NULL)
        return;
    atomic_store_explicit(&totals->peak_time, probe_thread_ticks(self),
                          memory_order_relaxed);
    atomic_store_explicit(&totals->peak_name, probe_range_name(self),
                          memory_order_relaxed);
    probe_leave(self);
}

void totals_write_event(uint16_t device, int64_t bytes, int64_t allocated)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    uint64_t meta = EVENT_META(probe_range_name(self), EVENT_ALLOC, 0, device);

    probe_write(self, (struct event){probe_thread_ticks(self), (uint64_t)bytes, meta,
                                     (uint64_t)allocated});
    probe_leave(self);
}
