/* GPU time of one process: each instant of a device once, by use or by what it waits
 * for while it is idle.
 *
 *     use     compute | communication (only where nothing computes) | copy (the rest,
 *             with memset); `overlap` is compute and communication at once
 *     idle    a cause for each gap between two pieces of work, the first that holds:
 *
 *     data        at least half of it the training thread waited for the next batch
 *     launch      the work was queued before the gap (its launching call had returned):
 *                 the device itself took up to GPU_LATENCY_NS to begin it
 *     collective  such work communicates, and the gap lasted longer; so does what is left
 *                 of a gap, twice as long, when the call returned in it. Or at least half
 *                 of the gap the host was in a collective that held it up
 *     unknown     likewise where the work does not communicate: the device was busy with what
 *                 was not recorded, or waited for that; also from a launch on whose work is
 *                 missing, and where the launch of the work is. Both come before data, and
 *                 work of all streams counts
 *     alloc, copy at least half of it the host was in such a call
 *     setup       at least half of it the host was in calls so long that they load kernels,
 *                 make contexts or streams (gpu_name_sets_up()), or captured a graph
 *     sync        the host waited for the device for half of it; or when it began, and then
 *                 of the gap as much as the host had waited: it would have come to the next
 *                 work earlier by that, and the rest of the gap has a cause of its own
 *     launch      at least half of it the host was inside ops or launches: they come
 *                 too slowly
 *     python      the host was in none of these: it ran code between the ops
 *     unknown     nothing is known of the host at that time, or the source ended early and
 *                 no work came after
 *
 * Work is a kernel, copy or memset; the host is all threads of the process together. A
 * piece of work that runs into the next one of its stream, which ends after it, is cut
 * there. Busy and idle together are the span to the nanosecond.
 *
 * Where not all work was recorded, which steps tell, nothing is known: such time is no
 * part of the span, a gap ends at its edges, and such a step is none of the device's. The
 * same holds from where recording begins again until its first work starts, when that had
 * to wait for the device.
 */
#ifndef AGGREGATE_GPU_STATE_H
#define AGGREGATE_GPU_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/gpu_work.h"
#include "aggregate/texts.h"
#include "wire/event.h"

enum gpu_use { GPU_COMPUTE, GPU_COMMUNICATION, GPU_COPY, GPU_USES };

enum gpu_idle {
    GPU_IDLE_DATA,
    GPU_IDLE_SYNC,
    GPU_IDLE_LAUNCH,
    GPU_IDLE_COPY,
    GPU_IDLE_ALLOC,
    GPU_IDLE_SETUP, /* contexts and streams made, kernels loaded, graphs captured */
    GPU_IDLE_COLLECTIVE,
    GPU_IDLE_PYTHON,
    GPU_IDLE_UNKNOWN,
    GPU_IDLES,
};

#define GPU_TABLES   32u    /* devices of one process */
#define GPU_STEPS    65536u /* newest steps one by one: 6 MB per device when full */
#define GPU_BUCKETS  4096u /* of time; they double in width when the run outgrows them */
#define GPU_RECENT   4096u /* the newest of GPU_RECENT_NS, 17 min: 400 KB per device */
#define GPU_LAUNCHES (1u << 18) /* newest launches that a gap may end with: 8 MB */
#define GPU_ITEMS    (1u << 20) /* not settled, per device; more are counted lost */
#define GPU_STREAMS  256u

/* Streams that a file names by a pointer have numbers from here on. */
#define GPU_STREAM_LABELS    1000u
#define GPU_STREAM_ADDRESSES 64u

#define GPU_BYTES_UNKNOWN UINT64_MAX /* of a copy or memset of a file */

#define GPU_RECENT_NS INT64_C(250000000)

/* From queue to device an idle GPU takes 1 to 5 us; a graph or a large kernel more. */
#define GPU_LATENCY_NS INT64_C(10000)

/* Several devices: one from which nothing has come for so long is taken to rest, though what
 * it did is told only when it has ended. */
#define GPU_SILENT_NS INT64_C(10000000000)

struct gpu_cell {
    int64_t use_ns[GPU_USES], idle_ns[GPU_IDLES], overlap_ns;
    int64_t queued_ns; /* of GPU_IDLE_LAUNCH: the work was launched before the gap */
};

struct gpu_item { /* a kernel, copy or memset */
    int64_t start_ns, end_ns;
    uint64_t correlation; /* 0 none */
    uint64_t bytes;       /* of a copy or memset */
    int64_t moving_ns;    /* as it was told, not cut */
    uint32_t stream;
    uint8_t use;  /* enum gpu_use */
    uint8_t kind; /* EVENT_KERNEL, EVENT_MEMCPY, EVENT_MEMSET */
    uint8_t copy; /* flags of EVENT_MEMCPY */
    bool begun;   /* a part of it is final */
};

struct gpu_span {
    int64_t start_ns, end_ns;
};

/* A training step in the whole of which work was recorded. From `blind_ns` up to its start
 * it was not; start_ns: there is no such time. One whose work was lost is empty, at its
 * end. */
struct gpu_step {
    int64_t start_ns, end_ns, blind_ns;
};

struct gpu_table {
    uint16_t device;             /* EVENT_DEVICE() */
    uint32_t name;               /* text: as the driver says; 0 unknown */
    int64_t cursor_ns;           /* settled up to here */
    int64_t active_ns[GPU_USES]; /* until when each use goes on */
    struct gpu_item *items;      /* not settled */
    uint32_t item_count, item_capacity;
    struct gpu_cell run;
    struct gpu_cell *steps;   /* [step_capacity of the gpu], as gpu.steps */
    uint64_t step_at;         /* steps before it ended before the cursor */
    struct gpu_cell *buckets; /* [GPU_BUCKETS], of gpu.bucket_ns: see gpu_buckets.h */
    struct gpu_cell *recent;  /* ring of GPU_RECENT, of GPU_RECENT_NS */
    int64_t recent_end;       /* number of the first that has not begun */
    int64_t gap_end_ns;       /* of the last gap that is final */
    int64_t launched_ns; /* the newest launch whose work has begun; INT64_MIN none */
    /* Of the work that came: in all; without memory; and of that which began in what was
     * final as a gap already: its time before that gap's end counts as idle. */
    uint64_t works, refused, late;
    struct gpu_work work;
};

/* What the host did, by what an idle device would wait for. */
enum gpu_host {
    GPU_HOST_DATA,
    GPU_HOST_SYNC,
    GPU_HOST_ALLOC,
    GPU_HOST_COPY,
    GPU_HOST_COLLECTIVE,
    GPU_HOST_SETUP,
    GPU_HOST_OP,
    GPU_HOSTS,
};

struct gpu_host_list {
    struct gpu_span *spans; /* disjoint and by time, then those that just came */
    uint32_t count, settled, capacity;
};

struct gpu_launch {
    uint64_t correlation;
    int64_t start_ns, end_ns; /* of the call */
    uint32_t thread;          /* slot of who made it; UINT32_MAX not known */
    bool begun;               /* a piece of its work has begun */
};

struct gpu {
    bool on; /* a device is known: the host is worth looking at */
    bool any_host;
    bool accounted; /* something is final: the span's start stays */
    bool tells;     /* the source tells what has come: before that nothing is final */
    /* The source was cut: what ran behind the last work is not known. */
    bool ends_early;
    int64_t from_ns; /* start of the span; INT64_MAX before any event */
    struct gpu_table *tables[GPU_TABLES];
    uint32_t table_count;
    struct gpu_host_list hosts[GPU_HOSTS];
    int64_t host_from_ns; /* what came before is forgotten */
    int64_t host_late_ns; /* 0 unless it is told; gaps wait that long */
    int64_t capture_ns;   /* while `captures`: when a graph began to be captured */
    bool captures;
    struct gpu_launch *launches; /* [GPU_LAUNCHES], hashed */
    struct gpu_span *lost; /* launches of a file whose work is not in it, by time */
    uint32_t lost_count;
    uint64_t stream_addresses[GPU_STREAM_ADDRESSES]; /* of a file; 0 none */
    struct gpu_step *steps;                          /* ring of step_capacity */
    uint64_t step_count;
    uint32_t step_capacity;
    uint64_t training_steps; /* of the run, recorded or not */
    uint64_t recorded_steps; /* of them: in the whole of which work was recorded */
    int64_t trains_ns;   /* start of the first step that was recorded; INT64_MAX none */
    int64_t recorded_ns; /* end of the last step that was recorded; INT64_MIN none */
    int64_t settled_ns;  /* what began before is final; INT64_MIN nothing */
    int64_t blind_ns;    /* since then work was not recorded; INT64_MAX: it was */
    int64_t forced_ns; /* up to here it had to be final before it was told; INT64_MIN */
    int64_t bucket_ns;
    uint8_t *name_uses; /* by text: what the name says; 0 not looked at */
    uint32_t name_count;
    uint64_t refused; /* work of devices beyond GPU_TABLES, or without memory */
};

#endif
