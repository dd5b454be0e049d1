#include "probe/reported.h"

#include "probe/probe.h"

#define DEVICES 16u

/* Relaxed throughout: each word stands for itself, and one that belongs to the next
 * step by a hair is no harm. */
struct totals {
    _Alignas(64) _Atomic uint32_t device; /* EVENT_DEVICE + 1; 0 free */
    _Atomic uint32_t peak_name;           /* innermost range at the peak */
    _Atomic int64_t allocated, peak;      /* bytes; the peak since the last sample */
    _Atomic uint64_t reserved, peak_time;
    _Atomic uint64_t allocations, frees, bytes; /* since the last sample */
    _Atomic uint32_t told_pid; /* the process whose page knows of the device */
};

static struct totals devices[DEVICES];
/* A forked child starts without hooks, and its page with no source. */
static _Atomic uint32_t hooked_pid;

static struct totals *totals_of(uint16_t device)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint32_t known = atomic_load_explicit(&devices[i].device, memory_order_relaxed);

        if (known == 0 && atomic_compare_exchange_strong_explicit(
                              &devices[i].device, &known, device + 1u,
                              memory_order_relaxed, memory_order_relaxed))
            return &devices[i];
        if (known == device + 1u)
            return &devices[i];
    }
    return NULL;
}

static void sample(struct totals *totals, uint16_t device, uint64_t now)
{
    int64_t allocated = atomic_load_explicit(&totals->allocated, memory_order_relaxed);
    int64_t peak =
        atomic_exchange_explicit(&totals->peak, allocated, memory_order_relaxed);
    uint64_t peak_time =
        atomic_exchange_explicit(&totals->peak_time, 0, memory_order_relaxed);
    uint32_t name =
        atomic_exchange_explicit(&totals->peak_name, 0, memory_order_relaxed);
    uint64_t counts =
        (atomic_exchange_explicit(&totals->allocations, 0, memory_order_relaxed) &
         UINT32_MAX) |
        atomic_exchange_explicit(&totals->frees, 0, memory_order_relaxed) << 32;
    const struct event events[] = {
        {now, (uint64_t)allocated, EVENT_META(name, EVENT_MEMORY, 0, device),
         atomic_load_explicit(&totals->reserved, memory_order_relaxed)},
        {peak_time != 0 ? peak_time : now, (uint64_t)peak,
         EVENT_META(0, EVENT_MORE, 0, 1), counts},
        {atomic_exchange_explicit(&totals->bytes, 0, memory_order_relaxed), 0,
         EVENT_META(0, EVENT_MORE, 0, 2), 0},
    };

    probe_events(events, 3);
}

static void step_ending(const struct probe_step *step)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint32_t device =
            atomic_load_explicit(&devices[i].device, memory_order_relaxed);

        if (device != 0)
            sample(&devices[i], (uint16_t)(device - 1), step->end);
    }
}

static const struct probe_hooks hooks = {.step_ending = step_ending};

static NEVER_INLINE void tell(struct totals *totals, uint16_t device)
{
    uint32_t pid = probe->pid;

    atomic_store_explicit(&totals->told_pid, pid, memory_order_relaxed);
    if (atomic_exchange_explicit(&hooked_pid, pid, memory_order_relaxed) != pid)
        (void)probe_hooks_add(&hooks);
    probe_capability(EVENT_DEVICE_TYPE(device) == 0 ? WIRE_SOURCE_CPU_MEMORY
                                                    : WIRE_SOURCE_DEVICE_MEMORY,
                     WIRE_STATE_ACTIVE, NULL, "reported by the program");
}

void reported_memory(uint16_t device, int64_t bytes, uint64_t reserved)
{
    struct probe_thread *self = probe_enter();
    struct totals *totals = self != NULL ? totals_of(device) : NULL;

    if (totals == NULL)
        goto leave;
    int64_t allocated = bytes + atomic_fetch_add_explicit(&totals->allocated, bytes,
                                                          memory_order_relaxed);
    uint64_t now = probe_thread_ticks(self);
    uint32_t name = probe_range_name(self);

    if (reserved != 0)
        atomic_store_explicit(&totals->reserved, reserved, memory_order_relaxed);
    atomic_fetch_add_explicit(bytes < 0 ? &totals->frees : &totals->allocations, 1,
                              memory_order_relaxed);
    if (bytes > 0)
        atomic_fetch_add_explicit(&totals->bytes, (uint64_t)bytes,
                                  memory_order_relaxed);
    if (allocated > atomic_load_explicit(&totals->peak, memory_order_relaxed)) {
        atomic_store_explicit(&totals->peak, allocated, memory_order_relaxed);
        atomic_store_explicit(&totals->peak_time, now, memory_order_relaxed);
        atomic_store_explicit(&totals->peak_name, name, memory_order_relaxed);
    }
    if (probe_recording() & EVENT_STEP_OPS)
        probe_write(self, (struct event){now, (uint64_t)bytes,
                                         EVENT_META(name, EVENT_ALLOC, 0, device),
                                         (uint64_t)allocated});
leave:
    if (self != NULL)
        probe_leave(self);
    if (totals != NULL &&
        atomic_load_explicit(&totals->told_pid, memory_order_relaxed) != probe->pid)
        tell(totals, device);
}
