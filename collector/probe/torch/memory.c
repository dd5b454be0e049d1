#include "probe/torch/memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/probe.h"
#include "probe/torch/allocator.h"
#include "probe/torch/library.h"
#include "probe/torch/segments.h"
#include "probe/torch/totals.h"

/* c10::Device: its type as in c10::DeviceType, and its index, -1 for "the current". */
struct torch_device {
    int8_t type, index;
};

#define TORCH_CUDA 1 /* c10::DeviceType */

/* The host and up to 31 accelerators; the allocations of more are counted as lost. */
#define DEVICES 32u

static struct totals devices[DEVICES]; /* [0] is the host */

/* The functions behind the slots: written once, before the slots. */
static struct torch_places host_places, device_places;
static bool host_counted; /* all slots of the host's allocator lead here */
static bool counting;     /* the slots lead here; step boundaries come one at a time */
static bool host_missed;  /* some of its calls since attach were not counted */
static bool devices_watched; /* some of accelerators' do */
static bool failures_watched;
static void *(*alloc_cpu)(size_t bytes);
static void (*free_cpu)(void *block);
static void (*report_usage)(void *block, int64_t bytes, size_t allocated,
                            size_t reserved, struct torch_device device);
static void (*report_failure)(int64_t bytes, size_t allocated, size_t reserved,
                              struct torch_device device);

/* ---- the host ----------------------------------------------------------------------
 */

static void host_changed(int64_t bytes)
{
    int64_t before =
        atomic_fetch_add_explicit(&devices[0].allocated, bytes, memory_order_relaxed);

    totals_changed(&devices[0], EVENT_DEVICE(0, 0), bytes, before + bytes);
}

/* Both sides ask malloc for the size of the block, so what was counted at its
 * allocation is what its free takes away. alloc_cpu throws through us: this file is
 * compiled with unwind tables. */
static void *counted_alloc_cpu(size_t bytes)
{
    void *block = alloc_cpu(bytes);

    if (block != NULL)
        host_changed((int64_t)malloc_usable_size(block));
    return block;
}

static void counted_free_cpu(void *block)
{
    if (block != NULL)
        host_changed(-(int64_t)malloc_usable_size(block));
    free_cpu(block);
}

/* ---- accelerators
 * -------------------------------------------------------------------- */

static _Atomic bool reported; /* since attach */

/* That an allocator could report says nothing of whether it does. */
static NEVER_INLINE void first_report(void)
{
    atomic_store_explicit(&reported, true, memory_order_relaxed);
    /* Pairs with say_silence(): if that does not see it, what it says comes before this. */
    atomic_thread_fence(memory_order_seq_cst);
    probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_ACTIVE, NULL, NULL);
}

/* The entry of a device, claimed at its first report; NULL when the table is full. */
static struct totals *totals_of(uint16_t device)
{
    for (uint32_t i = 1; i < DEVICES; i++) {
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

static struct torch_segments *segments_of(uint16_t device)
{
    return EVENT_DEVICE_TYPE(device) == TORCH_CUDA
               ? torch_segments_of(EVENT_DEVICE_INDEX(device))
               : NULL;
}

static uint16_t device_of(struct torch_device device)
{
    return EVENT_DEVICE(device.type, device.index < 0 ? 0 : device.index);
}

/* What the allocator says; NULL where the table is full. */
static struct totals *take_totals(uint16_t device, size_t allocated, size_t reserved)
{
    struct totals *totals = totals_of(device);
    struct torch_segments *segments = segments_of(device);

    if (UNLIKELY(!atomic_load_explicit(&reported, memory_order_relaxed)))
        first_report();
    if (totals == NULL) {
        probe_capability_lost(WIRE_SOURCE_DEVICE_MEMORY, 1);
        return NULL;
    }
    atomic_store_explicit(&totals->allocated, (int64_t)allocated, memory_order_relaxed);
    atomic_store_explicit(&totals->reserved, (int64_t)reserved, memory_order_relaxed);
    if (segments != NULL)
        atomic_store_explicit(
            &totals->given_back_bytes,
            atomic_load_explicit(&segments->given_back_bytes, memory_order_relaxed),
            memory_order_relaxed);
    return totals;
}

/* Runs under the allocator's lock. */
static void counted_report_usage(void *block, int64_t bytes, size_t allocated,
                                 size_t reserved, struct torch_device torch_device)
{
    /* The host reports here only while a profiler asks; we count it above. */
    if (torch_device.type != 0) {
        uint16_t device = device_of(torch_device);
        struct totals *totals = take_totals(device, allocated, reserved);

        if (totals != NULL)
            totals_changed(totals, device, bytes, (int64_t)allocated);
    }
    report_usage(block, bytes, allocated, reserved, torch_device);
}

static const char *device_silence; /* told so far; NULL none */

/* Says why nothing is reported, as soon as that is known. */
static void say_silence(void)
{
    const char *silence = torch_allocator_silence();
    bool quiet =
        silence == NULL && !atomic_load_explicit(&reported, memory_order_relaxed);

    if (quiet && torch_segments_asked())
        silence = "allocations of CUDA devices are not seen: torch takes them of "
                  "cudaMalloc and reports none (PYTORCH_NO_CUDA_MEMORY_CACHING)";
    else if (quiet && probe_events_written(EVENT_KERNEL) > 0)
        silence = "allocations of devices are not seen: kernels run, and no allocator "
                  "has reported one";
    if (silence == NULL || silence == device_silence)
        return;
    device_silence = silence;
    if (probe_capability_is(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_ACTIVE))
        return; /* the program itself reports */
    probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE, silence, NULL);
    /* The first report may have come meanwhile: then it says so after this, or this does. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&reported, memory_order_relaxed))
        first_report();
}

/* ---- totals at the end of a step ---------------------------------------------------
 */

/* What is given back outside of an allocation (empty_cache()) nobody reports. */
static uint64_t reserved_now(const struct totals *totals, uint16_t device)
{
    const struct torch_segments *segments = segments_of(device);
    int64_t reserved = atomic_load_explicit(&totals->reserved, memory_order_relaxed);

    if (segments == NULL)
        return (uint64_t)reserved;
    uint64_t then =
        atomic_load_explicit(&totals->given_back_bytes, memory_order_relaxed);
    uint64_t now =
        atomic_load_explicit(&segments->given_back_bytes, memory_order_relaxed);

    return now - then < (uint64_t)reserved ? (uint64_t)reserved - (now - then) : 0;
}

/* What grows by mapping alone asks for no segment: that it was refused none says nothing. */
static bool asks_for_segments(const struct torch_segments *segments)
{
    return segments != NULL &&
           atomic_load_explicit(&segments->asked, memory_order_relaxed);
}

/* Fills the last two of a sample's events; returns how many came to it. */
static uint32_t sample_segments(struct totals *totals, uint16_t device,
                                struct event events[4])
{
    struct torch_segments *segments = segments_of(device);
    uint64_t ooms = atomic_exchange_explicit(&totals->ooms, 0, memory_order_relaxed);

    if (!failures_watched || EVENT_DEVICE_TYPE(device) == 0)
        return 0;
    events[2].meta |= EVENT_META(0, 0, EVENT_MEMORY_OOMS, 0);
    events[2].aux = ooms << 32;
    if (!asks_for_segments(segments))
        return 0;
    uint64_t got = atomic_exchange_explicit(&segments->got, 0, memory_order_relaxed);
    uint64_t given =
        atomic_exchange_explicit(&segments->given, 0, memory_order_relaxed);
    uint64_t retries =
        atomic_exchange_explicit(&segments->retries, 0, memory_order_relaxed);
    uint64_t ticks =
        atomic_exchange_explicit(&segments->ticks, 0, memory_order_relaxed);
    uint64_t held = atomic_load_explicit(&segments->held, memory_order_relaxed);
    /* All that is reserved came and went by these calls since attach. */
    bool whole = atomic_load_explicit(&segments->held_bytes, memory_order_relaxed) ==
                 events[0].aux;

    events[2].value = got | given << 32;
    events[2].meta |= EVENT_META(0, 0, EVENT_MEMORY_SEGMENTS, 0);
    events[2].aux |= retries;
    events[3] = (struct event){events[0].time - ticks, ticks,
                               EVENT_META(0, EVENT_MORE, 0, 3), whole ? held + 1 : 0};
    return 1;
}

/* Returns the calls of the allocator since the last sample. `flags`: EVENT_MEMORY_FAILED,
 * EVENT_MEMORY_PARTIAL or 0. */
static uint64_t sample(struct totals *totals, uint16_t device, uint64_t now,
                       uint32_t flags)
{
    int64_t allocated = atomic_load_explicit(&totals->allocated, memory_order_relaxed);
    int64_t peak =
        atomic_exchange_explicit(&totals->peak, allocated, memory_order_relaxed);

    if (peak < allocated) /* nothing was counted since it was forgotten */
        peak = allocated;
    uint64_t peak_time =
        atomic_exchange_explicit(&totals->peak_time, now, memory_order_relaxed);
    uint32_t name =
        atomic_exchange_explicit(&totals->peak_name, 0, memory_order_relaxed);
    uint64_t allocations =
        atomic_exchange_explicit(&totals->allocations, 0, memory_order_relaxed);
    uint64_t frees = atomic_exchange_explicit(&totals->frees, 0, memory_order_relaxed);
    uint64_t bytes = atomic_exchange_explicit(&totals->bytes, 0, memory_order_relaxed);

    /* Before anything was allocated since the last sample there was no later peak. */
    if (peak_time == 0)
        peak_time = now;
    struct event events[4] = {
        {now, (uint64_t)allocated, EVENT_META(name, EVENT_MEMORY, 0, device),
         reserved_now(totals, device)},
        {peak_time, (uint64_t)peak, EVENT_META(0, EVENT_MORE, 0, 1),
         allocations | frees << 32},
        {bytes, 0, EVENT_META(0, EVENT_MORE, flags, 2), 0},
    };

    probe_events(events, 3 + sample_segments(totals, device, events));
    return allocations + frees;
}

/* A job that this ends has no further step: what it held is told now. */
static void counted_report_failure(int64_t bytes, size_t allocated, size_t reserved,
                                   struct torch_device torch_device)
{
    uint16_t device = device_of(torch_device);
    struct totals *totals =
        torch_device.type != 0 ? take_totals(device, allocated, reserved) : NULL;

    torch_segments_give_up();
    if (totals != NULL) {
        atomic_fetch_add_explicit(&totals->ooms, 1, memory_order_relaxed);
        (void)sample(totals, device, probe_ticks(), EVENT_MEMORY_FAILED);
    }
    report_failure(bytes, allocated, reserved, torch_device);
}

void torch_memory_sample(const struct probe_step *step)
{
    static uint64_t host_calls, device_calls; /* step ends come one at a time */

    if ((step->recording & RECORDING_MEMORY) == 0)
        return;
    if (host_counted)
        host_calls += sample(&devices[0], EVENT_DEVICE(0, 0), step->end,
                             host_missed ? EVENT_MEMORY_PARTIAL : 0);
    probe_capability_events(WIRE_SOURCE_CPU_MEMORY, host_calls, step->end);
    if (devices_watched)
        say_silence();
    for (uint32_t i = 1; i < DEVICES; i++) {
        uint32_t device =
            atomic_load_explicit(&devices[i].device, memory_order_relaxed);

        if (device == 0)
            return;
        device_calls += sample(&devices[i], (uint16_t)(device - 1), step->end, 0);
        probe_capability_events(WIRE_SOURCE_DEVICE_MEMORY, device_calls, step->end);
    }
}

void torch_memory_record(uint32_t recording)
{
    bool count_them = (recording & RECORDING_MEMORY) != 0;

    if (count_them == counting)
        return;
    counting = count_them;
    /* A peak from before the bare steps belongs to no sample. */
    for (uint32_t i = 1; count_them && i < DEVICES; i++)
        atomic_store_explicit(&devices[i].peak, 0, memory_order_relaxed);
    host_missed |= !count_them;
    torch_slots_switch(&host_places, count_them);
    torch_slots_switch(&device_places, count_them);
}

/* ---- attaching
 * ------------------------------------------------------------------------ */

static const struct torch_slot host_slots[] = {
    {"_ZN3c109alloc_cpuEm", (void (*)(void))counted_alloc_cpu},
    {"_ZN3c108free_cpuEPv", (void (*)(void))counted_free_cpu},
};
static const struct torch_slot device_slots[] = {
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
     (void (*)(void))counted_report_usage},
};
static const struct torch_slot failure_slots[] = {
    {"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
     (void (*)(void))counted_report_failure},
};

static void no_host(const char *reason)
{
    probe_capability(WIRE_SOURCE_CPU_MEMORY, WIRE_STATE_UNAVAILABLE, reason, NULL);
}

static void attach_host(void *c10)
{
    static const struct torch_slot origin = {"posix_memalign", NULL};
    void *allocate = torch_symbol(c10, host_slots[0].symbol);
    void *release = torch_symbol(c10, host_slots[1].symbol);

    if (allocate == NULL || release == NULL) {
        no_host("this torch does not export its host allocator");
        return;
    }
    /* malloc may be asked only for the size of its own blocks. */
    if (torch_slots_replace("libc10.so", &origin, 1, NULL) <= 0) {
        no_host("this torch does not allocate with malloc");
        return;
    }
    memcpy(&alloc_cpu, &allocate, sizeof(allocate));
    memcpy(&free_cpu, &release, sizeof(release));
    int own = torch_slots_replace("libc10.so", host_slots, 2, &host_places);
    int ops = torch_slots_replace("libtorch_cpu.so", host_slots, 2, &host_places);

    host_counted = own >= 2 && ops >= 2;
    if (host_counted)
        probe_capability(WIRE_SOURCE_CPU_MEMORY, WIRE_STATE_ACTIVE, NULL,
                         "slots of c10::alloc_cpu and c10::free_cpu; since attach");
    else
        no_host("torch reaches its host allocator by other ways");
}

/* A forked child has none of its parent's memory on devices. */
static void forget_devices(void)
{
    for (uint32_t i = 1; i < DEVICES; i++) {
        atomic_store_explicit(&devices[i].device, 0, memory_order_relaxed);
        atomic_store_explicit(&devices[i].peak, 0, memory_order_relaxed);
        atomic_store_explicit(&devices[i].allocations, 0, memory_order_relaxed);
        atomic_store_explicit(&devices[i].frees, 0, memory_order_relaxed);
        atomic_store_explicit(&devices[i].ooms, 0, memory_order_relaxed);
        atomic_store_explicit(&devices[i].bytes, 0, memory_order_relaxed);
    }
}

static void attach_devices(void *c10)
{
    void *report = torch_symbol(c10, device_slots[0].symbol);

    if (report == NULL) {
        probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE,
                         "this torch does not export its memory report", NULL);
        return;
    }
    memcpy(&report_usage, &report, sizeof(report));
    forget_devices();
    atomic_store_explicit(&reported, false, memory_order_relaxed);
    device_silence = NULL;
    probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE,
                     "nothing was allocated on a device yet",
                     "slots of c10::reportMemoryUsageToProfiler");
    /* The allocators of accelerators live in libraries of their own. */
    devices_watched =
        torch_slots_replace("libc10_", device_slots, 1, &device_places) > 0;
    if (!devices_watched) {
        probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE,
                         "no accelerator's allocator is loaded", NULL);
        return;
    }
    void *failure = torch_symbol(c10, failure_slots[0].symbol);

    memcpy(&report_failure, &failure, sizeof(failure));
    failures_watched =
        failure != NULL && torch_slots_replace("libc10_", failure_slots, 1, NULL) > 0;
    torch_segments_attach();
    torch_allocator_attach();
    say_silence();
}

void torch_memory_attach(void)
{
    void *c10 = torch_library_find("libc10.so");

    if (c10 == NULL) {
        probe_capability(WIRE_SOURCE_CPU_MEMORY, WIRE_STATE_UNAVAILABLE,
                         "torch's libc10 was not found", NULL);
        probe_capability(WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE,
                         "torch's libc10 was not found", NULL);
        return;
    }
    attach_host(c10);
    attach_devices(c10);
    counting = true;
}
