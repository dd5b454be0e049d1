/* The shared memory of one process: what the probe writes and everybody else reads.
 *
 *     0        ┌───────────────────────────────────────────────┐
 *              │ struct wire_header   identity, layout, clocks │ 4 KiB
 *     facts    ├───────────────────────────────────────────────┤
 *              │ struct wire_fact [128]                        │ facts of the job
 *     sources  ├───────────────────────────────────────────────┤
 *              │ struct wire_capability [16]                   │ what is seen, why not
 *     names    ├───────────────────────────────────────────────┤
 *              │ struct names_shared   entries, bytes          │ wire/names.h
 *     threads  ├───────────────────────────────────────────────┤
 *              │ struct thread_slot [thread_count]             │ who, which ring,
 *              │                                               │ stack of open ranges
 *     rings    ├───────────────────────────────────────────────┤
 *              │ struct ring_shared ...   one per thread       │ wire/ring.h
 *     size     └───────────────────────────────────────────────┘
 *
 * Files of a directory ($TRAINGLASS_DIR, default /dev/shm/trainglass-<uid>, mode 0700):
 *     <random>.seg      this segment, one per process, 0600, whole before it is named
 *     <random>.ctl      requests to that process (wire/control.h), by whoever asks
 *     <random>.stacks   Python stacks on request
 *     <random>.win      what became of the deep windows of that process, as JSON
 *     <session>.end     how the command ended (wire/end_note.h)
 *     <random>.done     the server has folded the segment into the run store
 *
 * Alive or not is an flock (LOCK_EX) on <random>.seg, held through a descriptor of its
 * own that is never mapped and is closed in a forked child: a reader that gets LOCK_SH
 * knows that the process is gone. A pid is only a label.
 *
 * The producer is not trusted: wire_view_open() checks every offset against the size of
 * the mapping and copies the layout; readers use the view, never the header's own
 * offsets. Fields say who writes them and when; all that change after creation are
 * atomic.
 */
#ifndef WIRE_SEGMENT_H
#define WIRE_SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/names.h"
#include "wire/ring.h"

#define WIRE_MAGIC       UINT64_C(0x53534c474e525401) /* "\1TRNGLSS" */
#define WIRE_MAJOR       1u /* another major is another format */
#define WIRE_MINOR       5u /* a newer minor only appends */
#define WIRE_FACTS       128u
#define WIRE_SOURCES     16u
#define WIRE_CLOCK_PAIRS 64u
#define WIRE_OPEN_RANGES                                                               \
    40u               /* remembered per thread; deeper ones are counted alone   \
                              */
#define WIRE_TEXT 64u /* bytes of a short text, NUL-terminated */
/* Of a folder of segments and of a file in it, each with its NUL: who writes and who reads
 * agree on what is too long. */
#define WIRE_DIRECTORY_BYTES 232u
#define WIRE_PATH_BYTES      256u

enum wire_role {
    WIRE_ROLE_TRAINER = 1,
    WIRE_ROLE_LAUNCHER = 2,
    WIRE_ROLE_WORKER = 3,
    WIRE_ROLE_HELPER =
        4, /* never written: what readers call a trainer that does not train */
};

enum wire_clock {
    WIRE_CLOCK_TSC = 1,       /* invariant time stamp counter */
    WIRE_CLOCK_MONOTONIC = 2, /* clock_gettime(CLOCK_MONOTONIC), ns */
};

/* Levels are sets of what is recorded beside steps, phases and memory totals. */
enum wire_level {
    WIRE_LEVEL_AUTO = 0, /* the governor decides within the budget */
    WIRE_LEVEL_OFF = 1,
    WIRE_LEVEL_PHASES = 2,
    WIRE_LEVEL_OPS = 3,
    WIRE_LEVEL_KERNELS = 4,
    WIRE_LEVEL_ALL = 5,
    WIRE_LEVELS = 6,
};

enum wire_source {
    WIRE_SOURCE_STEPS = 0, /* who says what a step is: see the capability's detail */
    WIRE_SOURCE_PHASES = 1,
    WIRE_SOURCE_CPU_OPS = 2,
    WIRE_SOURCE_RANGES = 3, /* user ranges: record_function, C API, annotate */
    WIRE_SOURCE_NVTX = 4,
    WIRE_SOURCE_CPU_MEMORY = 5,
    WIRE_SOURCE_DEVICE_MEMORY = 6,
    WIRE_SOURCE_CUPTI = 7,
    WIRE_SOURCE_PYTHON = 8, /* facts of the job, garbage collections */
    WIRE_SOURCE_FRAMEWORK = 9,
    WIRE_SOURCE_STACKS = 10, /* Python stacks on request */
};

enum wire_source_state {
    WIRE_STATE_UNKNOWN = 0,
    WIRE_STATE_ACTIVE = 1,
    WIRE_STATE_YIELDED = 2, /* given to another tool for a while */
    WIRE_STATE_STOLEN = 3,
    WIRE_STATE_UNAVAILABLE = 4,
    WIRE_STATE_DISABLED = 5,
};

/* One source: written by the probe, a field at a time; texts are name ids. */
struct wire_capability {
    _Atomic uint32_t state;   /* enum wire_source_state */
    _Atomic uint32_t reason;  /* name: one sentence why it is not active; 0 none */
    _Atomic uint32_t detail;  /* name: library, version, who decides */
    _Atomic uint32_t cost_ps; /* calibrated cost of one event, picoseconds; 0 unknown */
    _Atomic uint64_t events;  /* recorded since the start; written at step ends */
    _Atomic uint64_t lost; /* not recorded for want of room, nested in a signal ... */
    _Atomic uint64_t last_time; /* raw clock of the newest event */
    _Atomic uint64_t reserved[3];
};

enum wire_fact_type {
    WIRE_FACT_NONE = 0,
    WIRE_FACT_TEXT = 1,   /* value: name id */
    WIRE_FACT_NUMBER = 2, /* value: int64 */
    WIRE_FACT_REAL = 3,   /* value: bits of a double */
    WIRE_FACT_BOOL = 4,
};

/* One fact of the job; a fact keeps its slot and its type. Any thread of the process.
 */
struct wire_fact {
    _Atomic uint32_t key;   /* name id; 0 = slot free; published last */
    _Atomic uint32_t type;  /* enum wire_fact_type */
    _Atomic uint64_t value; /* see the type */
    _Atomic uint64_t time;  /* raw clock of the last change */
    _Atomic uint64_t reserved;
};

/* What the raw clock, CLOCK_MONOTONIC and CLOCK_REALTIME said at one instant. */
struct wire_clock_pair {
    _Atomic uint64_t ticks;
    _Atomic uint64_t monotonic_ns;
    _Atomic uint64_t realtime_ns;
    _Atomic uint64_t reserved;
};

/* The governor's running sums, written at step ends between two additions to `sequence`
 * (odd while writing). Shares are doubles stored as bits, in per cent of training time.
 */
struct wire_governor {
    _Atomic uint64_t sequence;
    _Atomic uint64_t budget;   /* per cent */
    _Atomic uint64_t measured; /* detail + burst + fixed */
    _Atomic uint64_t ci_low,
        ci_high; /* 95 % interval of `measured`; NaN before there is one */
    _Atomic uint64_t detail, burst, fixed;
    _Atomic uint64_t recorded_share; /* of the steps, 0 to 1, drawn ones */
    _Atomic uint64_t recorded_steps; /* in the experiment, integers from here */
    _Atomic uint64_t control_steps;
    _Atomic uint64_t
        steps_needed;       /* for an interval narrower than the budget; 0 unknown */
    _Atomic uint64_t rate;  /* of the ladder: 1 step in 2^rate */
    _Atomic uint64_t state; /* enum wire_governor_state */
    _Atomic uint64_t phases_share; /* of the steps, 0 to 1; since minor 5 */
    _Atomic uint64_t reserved;
};

enum wire_governor_state {
    WIRE_GOVERNOR_MEASURING = 0,
    WIRE_GOVERNOR_SETTLED = 1,
    WIRE_GOVERNOR_NOTHING_FITS = 2, /* even the smallest rate is over the budget */
    WIRE_GOVERNOR_FIXED = 3,        /* a fixed level: no experiment */
};

/* 4 KiB. Texts and numbers without _Atomic are written before the file gets its name;
 * live words have cache lines of their own. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct wire_header {
    uint64_t magic;
    uint16_t major, minor;
    uint32_t header_bytes;
    uint64_t segment_bytes;
    /* Layout: offsets from the start of the segment. */
    uint32_t facts_offset, sources_offset;
    uint32_t names_offset, name_count;
    uint64_t name_bytes;
    uint32_t threads_offset, thread_count;
    uint64_t rings_offset;
    /* Identity. */
    char session[WIRE_TEXT]; /* [A-Za-z0-9._-]; the same for all processes of a job */
    char run_name[WIRE_TEXT];
    char host[WIRE_TEXT];
    char version[16];       /* of the probe */
    uint64_t boot_hash;     /* of the boot id: after a reboot nothing is alive */
    uint64_t pid_namespace; /* inode: pids mean something only where it is equal */
    uint64_t start_ticks;   /* of the process, /proc/self/stat field 22 */
    uint32_t pid, parent_pid;
    uint32_t uid;
    uint32_t role;                        /* enum wire_role, as known at creation */
    int32_t rank, local_rank, world_size; /* -1 unknown */
    uint32_t restart_count;
    uint32_t clock; /* enum wire_clock */
    uint32_t reserved0;
    uint64_t zero_monotonic_ns; /* time zero of the session */
    uint64_t zero_realtime_ns;
    uint64_t created_ticks;
    /* Live words, each written by the probe alone. */
    _Alignas(64) _Atomic uint64_t heartbeat_ticks; /* at each step end at least */
    _Atomic uint64_t steps;                        /* training steps ended */
    _Atomic uint64_t step_start; /* raw clock: start of the running step; 0 none */
    _Atomic uint32_t level;      /* enum wire_level in force, requested */
    _Atomic uint32_t recording;  /* EVENT_STEP_*, RECORDING_* of the running step */
    _Atomic uint32_t live_role;  /* enum wire_role: a launcher may begin to train */
    _Atomic uint32_t epoch;      /* from 1; 0 unknown */
    _Atomic uint32_t phase;      /* enum event_phase + 1 of the main thread; 0 none */
    _Atomic uint32_t ended;      /* 1: the process said good-bye (exit handlers ran) */
    _Atomic uint32_t exit_code;  /* when ended, as far as known */
    _Atomic uint32_t control_seen;    /* sequence of the last control file obeyed */
    _Atomic uint64_t threads_refused; /* threads that found no slot or ring */
    _Atomic uint64_t nested_lost;     /* events lost because a signal nested in one */
    _Atomic uint64_t ring_words_used; /* bytes given out of the pool of rings */
    /* Since minor 1: what the process learned after its segment was made; each plus 1,
     * 0 as it was at creation. */
    _Atomic uint32_t live_rank, live_local_rank, live_world_size;
    _Atomic uint64_t phase_start; /* since minor 2; raw clock: start of `phase` */
    _Alignas(64) struct wire_governor governor;
    _Alignas(64) _Atomic uint64_t clock_pairs_count; /* since the start; pairs wrap */
    _Alignas(64) struct wire_clock_pair clock_pairs[WIRE_CLOCK_PAIRS];
};
static_assert(sizeof(struct wire_header) <= 4096, "the header has its own page");

/* rank, local_rank or world_size as it is now, of its live word and of what it was. */
static inline int32_t wire_number(uint32_t live, int32_t before)
{
    return live != 0 && live <= INT32_MAX ? (int32_t)(live - 1) : before;
}

enum thread_state { THREAD_FREE = 0, THREAD_LIVE = 1, THREAD_ENDED = 2 };

struct open_range {
    _Atomic uint64_t start; /* raw clock */
    _Atomic uint64_t meta;  /* as the event's word 2 will be */
};

/* 1 KiB. Claimed by compare-and-swap of `state` (free or ended to live); a slot keeps
 * its ring for ever, a later owner goes on in it with an EVENT_THREAD. Written by the
 * owner. */
struct thread_slot {
    _Alignas(128) _Atomic uint32_t state; /* enum thread_state */
    _Atomic uint32_t tid;
    _Atomic uint32_t name;          /* of the thread; name id */
    _Atomic uint32_t depth;         /* open ranges, may pass WIRE_OPEN_RANGES */
    _Atomic uint64_t ring_offset;   /* from the start of the segment; published last */
    _Atomic uint64_t ring_capacity; /* events; 0 = no ring */
    _Atomic uint64_t lost;          /* events that found no room */
    _Alignas(128) struct open_range open[WIRE_OPEN_RANGES];
};
static_assert(sizeof(struct thread_slot) <= 1024, "a slot is a KiB");

/* Where everything lies in a segment of a given size. */
struct wire_layout {
    uint64_t segment_bytes;
    uint32_t facts_offset, sources_offset;
    uint32_t names_offset, name_count;
    uint64_t name_bytes;
    uint32_t threads_offset, thread_count;
    uint64_t rings_offset; /* 128-aligned; the pool of rings reaches to the end */
};

/* A checked view: private copies of the layout and typed pointers into the mapping. */
struct wire_view {
    const unsigned char *base;
    struct wire_layout layout;
    const struct wire_header *header;
    const struct wire_fact *facts;         /* [WIRE_FACTS] */
    const struct wire_capability *sources; /* [WIRE_SOURCES] */
    const struct thread_slot *threads;     /* [layout.thread_count] */
    struct names names;                    /* reader's view, no index */
};

/* The layout that fits `segment_bytes` (at least WIRE_BYTES_MIN). -EINVAL when too
 * small. */
#define WIRE_BYTES_MIN   (UINT64_C(64) * 1024)  /* steps and phases of one thread */
#define WIRE_BYTES_SMALL (UINT64_C(256) * 1024) /* of a worker, of a launcher */
#define WIRE_BYTES_MAX   (UINT64_C(32) * 1024 * 1024)
MUST_CHECK int wire_layout_for(uint64_t segment_bytes, struct wire_layout *layout);

/* Writes magic, version and layout into a zeroed header (magic last). */
void wire_header_init(struct wire_header *header, const struct wire_layout *layout);

/* Checks `size` bytes at `base` (page-aligned) as a segment. Returns 0, or
 *   -EPROTO   not a segment, or its layout points outside of it
 *   -ENOTSUP  another major version: header->major and minor can be shown
 *   -ENODATA  truncated: smaller than it says
 * and a sentence in *reason (static). Reads only. */
MUST_CHECK int wire_view_open(struct wire_view *view, const void *base, uint64_t size,
                              const char **reason);

/* Opens a reader on the ring of thread `slot`: 1 when it has one, 0 when it has none
 * yet, -EPROTO when it points outside of the pool. */
MUST_CHECK int wire_view_ring(const struct wire_view *view, uint32_t slot,
                              struct ring_reader *reader, int from_start);

#endif
