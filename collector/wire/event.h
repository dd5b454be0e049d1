/* One event: 32 bytes, the same on both sides of the shared memory.
 *
 *     word 0   time      raw clock of the segment: start of a range, or the instant
 *     word 1   value     duration in raw clock ticks (ranges), else see the kind
 *     word 2   meta      name 0..31 | kind 32..39 | flags 40..47 | aux16 48..63
 *     word 3   aux       see the kind
 *
 * A range is written once, when it ends; the reader recovers the nesting. What does
 * not fit follows in one to three records of kind EVENT_MORE, accepted together with
 * their head or counted lost with it. Raw clock ticks become nanoseconds in the
 * reader (wire/clock.h). Kinds, flags and phases are part of the format: never
 * renumber, never reuse; a reader skips and counts the kinds that it does not know.
 */
#ifndef WIRE_EVENT_H
#define WIRE_EVENT_H

#include <assert.h>
#include <stdint.h>

struct event {
    uint64_t time;
    uint64_t value;
    uint64_t meta;
    uint64_t aux;
};
static_assert(sizeof(struct event) == 32, "two events share a cache line");

enum event_kind {
    /* A step that ended. flags: EVENT_STEP_*; aux16: known phases, bit 1 << phase (a
     * phase that is not known is null, one that is known and has no EVENT_PHASE took
     * 0); aux: step number 0..47 | epoch 48..63 (from 1; 0 unknown). Numbers of
     * training steps start at 0 and are never reused; a validation batch has
     * EVENT_STEP_NONE. */
    EVENT_STEP = 1,
    /* One stretch of a phase, published before the step that it belongs to. aux16:
     * enum event_phase; aux: step number, EVENT_STEP_NONE in a validation batch. */
    EVENT_PHASE = 2,
    /* An operator on the CPU. flags: EVENT_OP_*; aux: sequence number or 0. */
    EVENT_CPU_OP = 3,
    /* A range that somebody named: record_function, NVTX, annotate, the C API.
     * flags: EVENT_RANGE_*; aux: thread (slot index + 1) that opened it when it is
     * not the thread that closed it, else 0. */
    EVENT_USER_RANGE = 4,
    /* GPU work. aux16: device (event_device); aux: correlation id.
     * MORE: {stream, context | grid xyz | block xyz, registers, shared bytes}: words
     * 0, 1 and 3, packed as EVENT_STREAM, EVENT_GRID and EVENT_BLOCK below say. Work of
     * a CUDA graph has a second MORE: {graph | node | 0}. */
    EVENT_KERNEL = 5,
    /* flags: enum event_copy; MORE: {bytes | stream, context | graph node or 0}. */
    EVENT_MEMCPY = 6,
    EVENT_MEMSET = 7, /* MORE: {bytes | stream, context | graph node or 0} */
    /* Calls of the host; aux: correlation id; aux16: thread (slot index + 1) that
     * called, for these are written by another one; 0 it is not known. */
    EVENT_SYNC = 8,    /* the host waits for the device */
    EVENT_RUNTIME = 9, /* a runtime or driver call */
    EVENT_LAUNCH = 10, /* a call that launched work */
    /* An allocation or free (instant). value: signed bytes; aux: allocated after it;
     * aux16: device. */
    EVENT_ALLOC = 11,
    /* Totals of a device at a step's end (instant). value: allocated bytes; aux:
     * reserved bytes, 0 unknown; aux16: device; name: op that ran at the peak.
     * MORE: time of the peak | peak bytes | flags 0 | allocations since the last
     * sample 0..31, frees 32..63.  A second MORE: bytes allocated since then. With
     * EVENT_MEMORY_SEGMENTS in its flags what the allocator asked of the driver since
     * then is known: segments that it got 0..31 and gave back 32..63 | times that it was
     * refused and asked again 0..31, that it failed 32..63; with EVENT_MEMORY_OOMS alone
     * no more than the last. A third: the stretch, up to the sample, that these calls took
     * together | how long it is | segments that it holds + 1; 0 unknown. */
    EVENT_MEMORY = 12,
    EVENT_METRIC = 13, /* value: bits of a double; aux: step number */
    /* Something happened (instant). flags: enum event_mark; aux: its argument. */
    EVENT_MARK = 14,
    EVENT_COLLECTIVE = 15, /* aux: bytes */
    EVENT_OVERHEAD = 16,   /* time that a profiler took; aux: enum wire_source */
    /* time: since when; value: events lost, 0 it is not known how many; aux: enum
     * wire_source. Since minor 3, of GPU work, MORE: {until when | 0 | 0}. */
    EVENT_LOSS = 17,
    EVENT_FACT = 18,    /* name: key; value, aux: as in struct wire_fact */
    EVENT_THREAD = 19,  /* first record of a thread in this ring; value: tid */
    EVENT_SAMPLES = 20, /* value: samples in the step; aux: step number */
    /* A fetch from loader workers ends (instant). value: ns of it in which no batch was
     * there; the rest is the trainer's own work to take one over. */
    EVENT_WAITED = 21,
    /* Since minor 4: all GPU work that began before `time` was told, or told lost. value:
     * how long before the telling that was; aux: enum wire_source. */
    EVENT_KNOWN = 22,
    EVENT_MORE = 63, /* words 0, 1 and 3 are the head's; aux16: index from 1 */
};

enum event_phase {
    EVENT_PHASE_DATA = 0,
    EVENT_PHASE_FORWARD = 1,
    EVENT_PHASE_BACKWARD = 2,
    EVENT_PHASE_OPTIMIZER = 3,
    EVENT_PHASES = 4,
};

enum event_step_flags {
    EVENT_STEP_VALIDATION = 1, /* a validation or inference batch, without number */
    EVENT_STEP_OPS = 2,        /* CPU ops were recorded in the whole of it */
    EVENT_STEP_KERNELS = 4,    /* GPU work was recorded in the whole of it */
    EVENT_STEP_TAGGED = 8,     /* recorded on demand or after a slow step, not drawn */
    EVENT_STEP_CONTROL = 16,   /* drawn for the control group: it ran bare */
    EVENT_STEP_MARKED = 32,    /* ended by step() or a framework, not inferred */
    EVENT_STEP_FIRST = 64,     /* first of a marked or inferred stretch */
    EVENT_STEP_WINDOW = 128,   /* a deep window was open in it, or being written */
};

/* What a running step carries beside its EVENT_STEP_* flags. In `recording` of the header
 * alone: in the event, the phases that are known and the samples of memory tell. A step
 * with neither is bare: nothing but its mark is in its way. */
enum recording_flags {
    RECORDING_PHASES = 256,
    RECORDING_MEMORY = 512, /* totals of memory */
};

enum event_memory_flags {
    EVENT_MEMORY_SEGMENTS = 1,
    EVENT_MEMORY_OOMS = 2,
    EVENT_MEMORY_FAILED =
        4, /* the sample is of a failed allocation, of no step's end */
    EVENT_MEMORY_PARTIAL = 8, /* calls of the allocator in bare steps are not in it */
};

enum event_op_flags {
    EVENT_OP_BACKWARD = 1, /* ran under autograd */
    EVENT_OP_ASYNC = 2,    /* ended on another thread */
};

enum event_range_flags {
    EVENT_RANGE_TORCH = 1, /* record_function, USER scope */
    EVENT_RANGE_NVTX = 2,
    EVENT_RANGE_API = 4, /* trainglass.h or trainglass.annotate */
    EVENT_RANGE_ASYNC = 8,
};

enum event_copy {
    EVENT_COPY_H2D = 1,
    EVENT_COPY_D2H = 2,
    EVENT_COPY_D2D = 3,
    EVENT_COPY_P2P = 4,
    EVENT_COPY_H2H = 5,
    EVENT_COPY_WAY = 15,       /* mask of these; or-ed in: */
    EVENT_COPY_UNKNOWN = 64,   /* nobody tells whether the host side is pinned */
    EVENT_COPY_PAGEABLE = 128, /* the host side is not pinned */
};

enum event_mark {
    EVENT_MARK_USER = 0,       /* name says what */
    EVENT_MARK_EPOCH = 1,      /* aux: epoch that begins, from 1 */
    EVENT_MARK_VALIDATION = 2, /* aux: 1 begins, 0 ends */
    EVENT_MARK_STRETCH = 3,    /* another source of steps took over; name says which */
    EVENT_MARK_LEVEL = 4,      /* aux: new level */
    EVENT_MARK_GC = 5,         /* a garbage collection; value: its raw duration */
    EVENT_MARK_WINDOW = 6,     /* a deep window; aux: 1 begins, 0 ends */
    EVENT_MARK_CHECKPOINT = 7,
};

#define EVENT_NAME(meta)  ((uint32_t)(meta))
#define EVENT_KIND(meta)  ((uint8_t)((meta) >> 32))
#define EVENT_FLAGS(meta) ((uint8_t)((meta) >> 40))
#define EVENT_AUX16(meta) ((uint16_t)((meta) >> 48))
#define EVENT_META(name, kind, flags, aux16)                                           \
    ((uint64_t)(uint32_t)(name) | (uint64_t)(uint8_t)(kind) << 32 |                    \
     (uint64_t)(uint8_t)(flags) << 40 | (uint64_t)(uint16_t)(aux16) << 48)

/* The slot of the thread that a call of the host was made on; `otherwise` where it is not
 * known. */
#define EVENT_CALLER(meta, otherwise)                                                  \
    (EVENT_AUX16(meta) > 0 ? EVENT_AUX16(meta) - 1u : (otherwise))

/* The number of what has none: a validation batch. */
#define EVENT_STEP_NONE (((uint64_t)1 << 48) - 1)

#define EVENT_STEP_NUMBER(aux) ((aux) & (((uint64_t)1 << 48) - 1))
#define EVENT_STEP_EPOCH(aux)  ((uint32_t)((aux) >> 48))

/* Device as torch counts them: type (0 cpu, 1 cuda, else torch's DeviceType) and
 * index. The host is event_device(0, 0). */
#define EVENT_DEVICE(type, index)                                                      \
    ((uint16_t)((uint16_t)((type) << 8) | (uint8_t)(index)))
#define EVENT_DEVICE_TYPE(device)  ((uint8_t)((device) >> 8))
#define EVENT_DEVICE_INDEX(device) ((uint8_t)(device))

/* Stream and context of GPU work. */
#define EVENT_STREAM(stream, context)                                                  \
    ((uint64_t)(uint32_t)(stream) | (uint64_t)(uint32_t)(context) << 32)

/* A kernel's grid: x 0..31 | y 32..47 | z 48..63. */
#define EVENT_GRID(x, y, z)                                                            \
    ((uint64_t)(uint32_t)(x) | (uint64_t)(uint16_t)(y) << 32 |                         \
     (uint64_t)(uint16_t)(z) << 48)
#define EVENT_GRID_X(word) ((uint32_t)(word))
#define EVENT_GRID_Y(word) ((uint16_t)((word) >> 32))
#define EVENT_GRID_Z(word) ((uint16_t)((word) >> 48))

/* Its block: x 0..10 | y 11..21 | z 22..28 | registers of a thread 29..37 | bytes of
 * shared memory, static and dynamic, 38..63. */
#define EVENT_BLOCK(x, y, z, registers, shared_bytes)                                  \
    (((uint64_t)(x)&0x7ff) | ((uint64_t)(y)&0x7ff) << 11 |                             \
     ((uint64_t)(z)&0x7f) << 22 | ((uint64_t)(registers)&0x1ff) << 29 |                \
     ((uint64_t)(shared_bytes)&0x3ffffff) << 38)
#define EVENT_BLOCK_X(word)         ((uint32_t)(word)&0x7ff)
#define EVENT_BLOCK_Y(word)         ((uint32_t)((word) >> 11) & 0x7ff)
#define EVENT_BLOCK_Z(word)         ((uint32_t)((word) >> 22) & 0x7f)
#define EVENT_BLOCK_REGISTERS(word) ((uint32_t)((word) >> 29) & 0x1ff)
#define EVENT_SHARED_BYTES(word)    ((uint32_t)((word) >> 38))

#endif
