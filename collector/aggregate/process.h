/* One process of a session: who it is, how it fares, and its tables.
 *
 * Whoever fills it (the ingest of a live segment or of a trace file) hands over events
 * with stamps in ns since the session's zero and names as ids of `texts`; nothing here
 * knows of rings or files. All under the store's write lock.
 */
#ifndef AGGREGATE_PROCESS_H
#define AGGREGATE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/device_ops.h"
#include "aggregate/gpu.h"
#include "aggregate/history.h"
#include "aggregate/memory.h"
#include "aggregate/nest.h"
#include "aggregate/op_links.h"
#include "aggregate/ops.h"
#include "aggregate/ops_group.h"
#include "aggregate/steps.h"
#include "aggregate/store.h"
#include "aggregate/texts.h"
#include "wire/segment.h"

#define PROCESS_THREADS 512u
#define PROCESS_REASON  160u /* bytes of a sentence */

struct process_range { /* an open one */
    int64_t start_ns;
    uint32_t text;
    uint8_t kind; /* enum event_kind */
};

struct process_thread {
    uint32_t tid;
    uint32_t name;    /* text */
    bool tells_works; /* of accelerators, and up to when all came */
    bool tells_steps;
    struct nest nest;
    struct nest calls;      /* of this thread, that came in another one's ring */
    struct op_spans *spans; /* owned; NULL: nobody asks for its ops */
    struct history_block *open_block;
    struct event group[RING_RECORDS_MAX]; /* a head and its EVENT_MORE so far */
    uint32_t group_count;
    uint64_t events, lost;
    uint32_t depth, range_count; /* of open ranges, as last looked at */
    struct process_range ranges[WIRE_OPEN_RANGES];
};

struct process_fact {
    uint32_t key; /* text */
    enum wire_fact_type type;
    uint32_t text;
    double number;
};

struct process_capability {
    enum wire_source_state state;
    uint32_t reason, detail; /* texts */
    double cost_ns;          /* NaN unknown */
    uint64_t events, lost;
    double events_per_s; /* NaN unknown */
};

/* The governor's words; NaN where unknown. */
struct process_governor {
    bool known;
    enum wire_governor_state state;
    double budget_pct, measured_pct, ci_low_pct, ci_high_pct;
    double detail_pct, burst_pct, fixed_pct, recorded_share, phases_share;
    uint64_t recorded_steps, control_steps, steps_needed;
};

struct process_identity {
    uint32_t pid, parent_pid;
    int32_t rank, local_rank, world_size; /* -1 unknown */
    enum wire_role role;
    char host[WIRE_TEXT];
    char version[16];
    char path[WIRE_PATH_BYTES]; /* of the segment or file */
    bool same_namespace;        /* its pid means something to the collector */
    uint64_t start_ticks;       /* of the process, to tell a pid's next owner */
};

/* What a whole trace file tells of a name beyond the counts of its rows. */
struct process_linked {
    /* Device time of what was launched in it: in all of it, and in it alone. */
    int64_t device_total_ns, device_self_ns;
    /* Of a call that waits: those of one name may do so or not, and are two rows. */
    int64_t waited_device_ns;
    /* Where it is the outermost op; waits for data are outermost too. */
    int64_t outer_ns;
    uint64_t outer_count;
    /* Bytes taken less bytes given back while nothing nested in it ran. */
    int64_t host_bytes, device_bytes;
    /* The same with all that ran nested in it. */
    int64_t host_total_bytes, device_total_bytes;
};

/* Work of training steps that its neighbour makes needless, as a whole trace file tells. */
enum process_needless_work {
    NEEDLESS_BIAS, /* of convolutions that a batch norm follows */
    NEEDLESS_COPY, /* of what the device could have made */
    NEEDLESS_WORKS,
};

struct process_needless {
    uint64_t count;
    int64_t host_ns, device_ns;
};

/* What is sampled of a process once a second; rates are of the second before. */
enum process_load {
    PROCESS_LOAD_RSS,   /* bytes */
    PROCESS_LOAD_CPU,   /* of one core */
    PROCESS_LOAD_DELAY, /* share of the time that its first thread waited for a core */
    PROCESS_LOAD_FAULTS, /* pages a second that the kernel made anew for its training thread:
                            the first where none is known */
    PROCESS_LOAD_MADE, /* the same for all of its threads */
    PROCESS_LOAD_SYSTEM, /* share of the time that its training thread was in the kernel */
    PROCESS_LOAD_RUN,    /* share of the time that its first thread had a core */
    PROCESS_LOAD_OWN, /* bytes of the resident that no file gives back and nobody shares */
    PROCESS_LOADS,
};
_Static_assert(PROCESS_LOADS <= SERIES_CHANNELS, "a series holds them");

#define PROCESS_LOADERS       16u  /* workers of one trainer */
#define PROCESS_LOADER_POINTS 128u /* newest samples: twice the usual window */

struct process_loader_point {
    int64_t time_ns; /* it tells of the second before */
    float cpu;       /* of one core */
    float delay;     /* share of the time without a core; NaN unknown */
};

/* A loader's worker without a segment, sampled once a second. */
struct process_loader {
    uint32_t pid; /* 0: the place is free */
    bool known;   /* the counters are those of `seen_ns` */
    uint64_t ticks, delay_ns;
    int64_t seen_ns;
    uint64_t count; /* of samples since the start */
    struct process_loader_point points[PROCESS_LOADER_POINTS];
};

/* How a kernel is launched, as events say; by name. */
struct process_kernel {
    uint64_t count; /* launches that say it; 0 none */
    bool varies;    /* grid or block; those here are of the longest, on `device` */
    uint8_t device; /* CUDA's number */
    uint32_t grid[3], block[3];
    uint32_t registers, shared_bytes; /* most of any: per thread, per block */
    int64_t longest_ns;
    /* Achieved occupancy as Kineto estimates it: weighted by time. */
    int64_t occupied_ns;
    double occupancy_sum; /* per cent times ns */
};

/* Where in the kernel a thread slept (/proc/PID/wchan), and how often it was seen there. */
#define PROCESS_PLACES 4u
struct process_place {
    char name[32]; /* [a-z0-9_]; "" the kernel does not say */
    uint64_t count;
};

/* A thread of the process that is not the training thread. */
struct process_runner {
    uint32_t tid; /* 0 none */
    /* As the kernel has it: the program's, where nobody named the thread. */
    char name[16];
};

/* The training thread with no op open, in steps whose ops are recorded. Each look adds 1
 * to the channel of what it was found at, and 0 to the others: means are shares of the
 * steps' time. Off the CPU, by phase (EVENT_PHASES: in none that is known); else on it, or
 * ready for it: in forward, and in no phase that is known. */
enum process_look {
    PROCESS_LOOK_ASLEEP,
    PROCESS_LOOK_BUSY_FORWARD = EVENT_PHASES + 1,
    PROCESS_LOOK_BUSY_NOWHERE,
    PROCESS_LOOKS,
};

struct process_between_ops {
    struct series shares;
    /* By phase, as ASLEEP: of those looks, in which it waited for another thread
     * while another thread of the process ran. */
    struct series behind;
    struct process_runner runner; /* that was seen last */
    struct process_place places[EVENT_PHASES + 1][PROCESS_PLACES];
};
_Static_assert((int)PROCESS_LOOKS <= (int)SERIES_CHANNELS, "a series holds them");

struct process {
    struct process *next; /* of its session, in the order they came */
    uint32_t serial;      /* unique in the store */
    struct process_identity identity;
    enum process_state state;
    char reason[PROCESS_REASON]; /* of crashed and lost */
    int64_t start_ns;            /* of its segment */
    int64_t newest_ns;           /* newest event's end; INT64_MIN before one */
    int64_t alive_ns;            /* newest sign of life: event, heartbeat, lock held */
    uint32_t exit_code;
    bool said_goodbye;   /* exit handlers ran */
    bool foreign;        /* from a file of a producer other than PyTorch */
    bool unread;         /* dead, and its events are not folded yet */
    _Atomic bool wanted; /* relaxed: a reader asked for it; set under a read lock */
    uint64_t rev;        /* grows with every change */
    uint64_t events, lost, unknown_kinds;
    uint64_t threads_refused, names_refused, nested_lost; /* as the segment says */
    uint64_t pending;    /* published and not yet folded, at the last look */
    uint64_t told_steps; /* as the segment's header counts them */
    enum wire_level level;
    uint32_t recording; /* EVENT_STEP_* of the running step */
    uint32_t phase;     /* enum event_phase + 1 of the training thread; 0 none known */
    int64_t step_start_ns, phase_start_ns; /* of those that run; INT64_MIN unknown */
    bool whole; /* nothing of the running step was lost so far, but for GPU work: */
    int64_t lacks_until_ns;      /* steps that begin before lack what a ring lost */
    bool works_lost;             /* nobody told until when */
    bool ring_lost_works;        /* since the source last told what is known */
    int64_t works_lost_ns;       /* of all steps up to here work was lost */
    uint64_t loss_looks;         /* steps that were looked at for it, in all */
    int64_t works_lost_until_ns; /* steps that begin before lack work */

    struct history *history;      /* the store's; borrowed */
    struct history_blocks blocks; /* remembered there of this process */
    struct texts *texts;          /* own reference */
    struct process_thread **threads;
    uint32_t thread_count, thread_capacity;
    struct ops ops;           /* of the host */
    struct device_ops device; /* of the accelerators */
    struct steps steps;
    struct memory memory;
    struct gpu gpu;
    struct op_links links;                            /* device time by CPU op */
    struct process_needless needless[NEEDLESS_WORKS]; /* of a file */
    double
        update_inside; /* of a file, share of the updates inside of their calls; 0 none */
    struct process_linked *linked; /* of a file, by text; NULL where not known */
    uint32_t linked_count;
    bool linked_devices, linked_memory; /* the file tells of them */
    struct process_kernel *kernels;     /* by text; NULL without */
    uint32_t kernel_count;
    struct ops_group *groups[GROUPS]; /* of a file; NULL where not asked for */
    struct series rss;                /* by enum process_load */
    double rss_bytes, cpu_share;      /* NaN unknown */
    struct process_between_ops between_ops;
    double shared_bytes, shared_used_bytes; /* of its /dev/shm, by all; NaN unknown */
    struct process_loader *loaders; /* [PROCESS_LOADERS]; NULL before the first */
    struct process_fact facts[WIRE_FACTS];
    uint32_t fact_count;
    struct process_capability capabilities[WIRE_SOURCES];
    struct process_governor governor;
};

/* NULL when out of memory. digest_bytes 0 = the default. */
struct process *process_new(const struct process_identity *identity, uint32_t serial,
                            struct history *history, size_t digest_bytes);
void process_free(struct process *process);

/* Makes thread `index`; NULL when there are too many or memory is short. */
struct process_thread *process_thread(struct process *process, uint32_t index);

/* A step, or what lies outside of steps, began or ended: for every table of ops. */
void process_begin(struct process *process, int64_t start_ns);
void process_end(struct process *process, const struct step *step);

/* Folds events of one thread in the order in which it published them. */
void process_fold(struct process *process, uint32_t thread, const struct event *events,
                  uint32_t count);

/* What was folded last is whole: no EVENT_MORE will follow it. */
void process_fold_whole(struct process *process, uint32_t thread);

/* Events were lost, `count` of them (0: before anybody could have read them). */
void process_lose(struct process *process, uint32_t thread, uint64_t count);

/* The oldest event of a thread's ring that can still be read was written at `until_ns`:
 * steps that began before, and are still to be told, may lack some of that thread.
 * `works`: it tells of accelerators, and up to when all came. What comes late is then
 * missing also of later steps, until it tells so again. */
void process_lack(struct process *process, uint32_t thread, int64_t until_ns,
                  bool works);

/* GPU work of [since_ns, until_ns] was lost: steps that reach into it were not recorded
 * with GPU work, those that are still to be told among them. INT64_MAX: it goes on in
 * the step that runs. */
void process_lose_works(struct process *process, int64_t since_ns, int64_t until_ns);

/* Steps that could not wait for their GPU work were not recorded with it. */
void process_give_up_works(struct process *process);

/* What of the accelerators is final: all that began before then, as far as it was told. */
void process_settle_works(struct process *process, int64_t until_ns);

/* It ended, one way or another: everything that waits becomes final. */
void process_finish(struct process *process, enum process_state state,
                    const char *reason);

#endif
