/* A trace file between its reader and the tables; what the parts of this folder share.
 */
#ifndef INGEST_FILE_PARTS_H
#define INGEST_FILE_PARTS_H

#include "aggregate/process.h"
#include "ingest/file/clusters.h"
#include "ingest/file/details.h"
#include "ingest/file/file.h"
#include "ingest/file/lists.h"
#include "ingest/file/track/track.h"
#include "ingest/trace/archive/archive.h"
#include "wire/event.h"

#define FILE_THREADS_MAX 448u /* of PROCESS_THREADS; the rest are devices */

#define FILE_TIME_MAX_NS (INT64_C(1) << 61) /* the year 2043; spans stay within int64 */

/* A file's stamps may be cut to whole us: a child may seem to outlast its parent. */
#define FILE_ROUNDING_NS 1000

/* What a name says; STEP to ANNOTATION are ranges, of which STEP to ZERO_GRAD are of the loop. */
enum file_name {
    FILE_NAME_NEW, /* not looked at */
    FILE_NAME_PLAIN,
    FILE_NAME_STEP,
    FILE_NAME_DATA,
    FILE_NAME_OPTIMIZER,
    FILE_NAME_ZERO_GRAD,
    FILE_NAME_ANNOTATION, /* a range, even where the file calls it an op */
    FILE_NAME_BACKWARD,
    FILE_NAME_SYNC,     /* of a runtime call */
    FILE_NAME_LAUNCH,   /* of a runtime call */
    FILE_NAME_COPY,     /* likewise, one that waits for its copy */
    FILE_NAME_CAPTURES, /* likewise, begins to capture a graph */
    FILE_NAME_CAPTURED, /* and ends it */
    FILE_NAME_MEMORY,   /* "[memory]" */
    FILE_NAME_PHASE,    /* of a trace that we wrote, where its arguments say so */
    FILE_NAME_VALIDATION,
};

/* Frames of Python, among the events of a thread until these are nested. */
#define FILE_EVENT_FRAME 62

/* Events of one thread. A name is the reader's id; in `taken`, stamps are the file's and
 * aux of a call is its correlation, of an op or range its detail and External id
 * (FILE_AUX); in `nested`, stamps are the session's and aux of an op or range is its key.
 * Allocations are among those taken, and in a list of their own after nesting. */
struct file_thread {
    uint32_t pid, tid; /* names */
    uint32_t name;     /* as metadata says; 0 without */
    struct track taken, nested;
    int64_t first_ns;                    /* of those nested, the earliest start */
    uint32_t steps, updates, loads, ops; /* which of them trains */
};

/* Work of a device: value is its duration, aux its correlation, aux16 its device. */
enum file_work_more { FILE_WORK_BYTES, FILE_WORK_STREAM };

/* An allocation (EVENT_ALLOC): aux is its place in the file, aux16 its device, name what
 * ran, once that is known. All as track_signed(). */
enum file_allocation_more { FILE_ALLOCATION_BYTES, FILE_ALLOCATED, FILE_RESERVED };
#define FILE_HAS_TOTAL 1u /* flag: the file says what was allocated in all */

/* What the host did for as long is told before its turn (gpu_fold_ahead). */
#define FILE_LONG_NS INT64_C(10000000)

struct file_device { /* that worked */
    int64_t first_ns;
    uint16_t device; /* EVENT_DEVICE() */
};
#define FILE_STREAMS_MAX 64u /* with pointers for numbers; the rest are 0 */
#define FILE_DEVICES_MAX 64u /* more are known when their work is folded */

struct file_mark {
    int64_t start_ns, end_ns;
    uint32_t name;
    uint8_t kind; /* enum file_name */
};

struct file_step {
    int64_t start_ns, end_ns;
    uint64_t number;
    /* Of a trace that we wrote, as it says; else flags 0. */
    int64_t phase_ns[EVENT_PHASES];
    uint16_t epoch;
    uint8_t flags, known; /* EVENT_STEP_*; 1 << phase */
};

/* What an op is for needless.c, by its name. */
enum file_needless_op {
    FILE_NEEDLESS_NONE,
    FILE_NEEDLESS_CONVOLUTION,
    FILE_NEEDLESS_ADD,
    FILE_NEEDLESS_NORM,
    FILE_NEEDLESS_FILL, /* makes a tensor of nothing but its shape */
    FILE_NEEDLESS_COPY,
};

struct file_needless {
    bool known;
    uint8_t what; /* enum process_needless_work */
    int64_t time_ns, host_ns, device_ns;
};

/* What may yet turn out to be. */
struct file_needless_walk {
    struct file_needless bias, fill;
    int64_t fill_end_ns;
};

struct file_needless_ended { /* an op */
    enum file_needless_op op, parent;
    bool outermost, from_host;
    int64_t start_ns, host_ns, device_ns;
};

/* How tensors are updated: several at once (foreach, fused); one after the other as Adam and
 * Adagrad do it; or as SGD does, and much else. */
enum { FILE_UPDATE_TOGETHER = 1, FILE_UPDATE_ADAM = 2, FILE_UPDATE_ADDS = 4 };

struct file_sample {        /* of memory, of a trace that we wrote */
    struct event events[4]; /* EVENT_MEMORY and what follows; names are the reader's */
    uint32_t more;          /* of them, behind the first */
};

struct file_link {
    uint64_t correlation;
    int64_t
        device_ns; /* of what that call launched; of `sizes`, the bytes that it copies */
};

/* What a process is, by its name. */
enum file_role {
    FILE_ROLE_NONE,
    FILE_ROLE_ASCEND, /* tasks of an NPU */
    FILE_ROLE_XPROF,  /* rows of a device, each once more in others */
    FILE_ROLE_CALLS,  /* of a runtime */
    FILE_ROLE_COPIES, /* what others tell, summed up */
};
#define FILE_ROLES_MAX 64u

struct file_process_role {
    uint32_t pid; /* a name */
    enum file_role role;
    int32_t device;
    bool is_private; /* a device that torch has no name of its own for */
};

/* Several processes with steps of their own in one file, as where ranks were merged: who they
 * are, and whose each device's work is. */
#define FILE_PROCESSES_MAX 64u
#define FILE_PID_BYTES     64u
#define FILE_OF_NO_PROCESS UINT32_MAX

struct file_call { /* what may have launched work */
    uint64_t correlation;
    int64_t start_ns;
    uint32_t process;
};

struct file_processes {
    uint32_t count;
    char pids[FILE_PROCESSES_MAX]
             [FILE_PID_BYTES]; /* as the file writes them, in order */
    struct file_call *calls;   /* owned; by correlation, then by start */
    uint32_t call_count;
    /* Whose nearly all of its work is; FILE_OF_NO_PROCESS: several's. */
    uint32_t of_device[256];
};

struct file {
    struct trace_names *names;
    struct file_result *result;
    uint8_t *kinds; /* enum file_name by name */
    uint32_t kind_count;
    struct file_thread threads[FILE_THREADS_MAX];
    uint32_t thread_count, newest; /* newest: the one of the event before */
    uint32_t trainer;              /* index of the training thread */
    uint16_t slots[1024];          /* thread index + 1 by hash of pid and tid */
    struct track works, allocations;
    struct {
        uint32_t ways; /* FILE_UPDATE_* of the ops in them */
        int64_t calls_ns, range_ns;
    } updates; /* of the trainer's optimizers; calls: of ops, outermost */
    struct file_list needless; /* struct file_needless, of the trainer */
    uint8_t *needless_ops;     /* enum file_needless_op by name */
    struct file_list
        longs; /* struct event, as in a thread's nested, FILE_LONG_NS or more */
    uint32_t allocation_count; /* that came */
    bool has_totals;           /* an allocation says what was allocated in all */
    struct file_list marks, backwards, steps;
    struct file_list
        phases;    /* file_mark; kind: enum event_phase; as a trace of ours says */
    bool launches; /* a call of a device's runtime launches, copies or sets */
    bool own;      /* we wrote it: steps and phases are said, not found */
    struct file_list samples; /* file_sample; of memory, likewise */
    struct file_list nodes;  /* of autograd's graph (graph.c), until they are settled */
    struct file_list builds; /* int64_t: starts of ops that add one, of the trainer */
    struct file_list
        closures; /* file_mark: an optimizer's own time behind a backward in it */
    struct file_list
        foreground;          /* int64_t: starts of outer forward ops of the trainer */
    struct file_link *links; /* open addressing */
    uint32_t link_slots;
    struct file_list lost;     /* struct gpu_span: launches whose work is not there */
    struct file_list captures; /* struct gpu_span: nothing runs of what is launched */
    uint64_t *launched; /* a bit for each of them: a call with its correlation came */
    uint64_t *from_host, *to_host; /* likewise: it copies from the host, to the host */
    struct file_device devices[FILE_DEVICES_MAX];
    uint32_t device_count;
    uint32_t unnamed_works;        /* without a correlation */
    struct process_linked *linked; /* by name */
    uint32_t linked_count;
    struct process_kernel *kernels; /* by name */
    uint32_t kernel_count;
    struct file_begins *begins; /* of B without its E so far; NULL none */
    struct file_asyncs *asyncs; /* of b without its e; NULL none */
    struct file_process_role roles[FILE_ROLES_MAX];
    uint32_t role_count;
    bool foreign; /* of another producer: its ranges are ops, whatever their category */
    struct file_details *details;     /* NULL: not asked for */
    struct file_sequences *sequences; /* likewise; never without details */
    bool ends_early;                  /* cut, or larger than fits */
    bool moves_backward;              /* to its forward, in the tree itself */
    uint32_t groups;                  /* bits of 1 << enum group_by */
    int64_t zero_ns;                  /* of the session, in the file's stamps */
    uint64_t max_bytes;               /* that held_bytes may reach */
    uint64_t held_bytes;              /* in memory, of what came; open chunks apart */
    uint32_t stranger;                /* name of the first category that is not known */
    uint32_t runtime;                 /* category of the newest call, a name */
    uint32_t runtimes;                /* 1 << kind of device, of the calls that came */
    int64_t from_ns, to_ns;
    /* Of several in the file the one that is read; NULL: all that there is. */
    const struct file_processes *processes;
    uint32_t process;
    uint32_t pid, pid_process; /* the newest name of one, and whose it is */
    bool out_of_memory;
    struct file_clusters clusters;
    int64_t keep_ns
        [2]; /* where has_strays: what begins outside, in the file's stamps, is one */
    bool has_strays;
    uint64_t streams[FILE_STREAMS_MAX]; /* pointers, by number less GPU_STREAM_LABELS */
    uint32_t stream_count;
    struct file_list sizes; /* struct file_link: bytes of copies, as their calls say */
};

/* When all of the file was read: fills *processes where two or more of them have steps or
 * updates; the events of `file` are then gone. 0 or -ENOMEM. */
MUST_CHECK int file_processes_find(struct file *file, struct file_processes *processes);
void file_processes_free(struct file_processes *processes);

/* Is the event of the process that `file` is being read for? */
bool file_is_of_process(struct file *file, const struct trace_event *event);

/* One of the traces that a file holds: several.c. */
struct file_part {
    const char *name, *session;
    struct archive *archive; /* whose member it is; NULL: the request's path */
    uint32_t member;
    const struct file_processes *processes; /* NULL: all that there is */
    uint32_t process;
    struct file_processes *found; /* filled where there are several; NULL: not sought */
    int32_t rank;                 /* where the file does not say; -1 none */
    bool foreign;                 /* all ranges count, whatever their category */
    enum file_rank_from rank_from;
    bool twins_apart;
};

/* Reads a part into the store: as file_load(); -EMLINK, and nothing of it is in the store,
 * when there are several processes in *part->found. */
MUST_CHECK int file_load_part(struct store *store, const struct file_request *request,
                              const struct file_part *part, struct file_result *result);

/* The session's own zero, where another rank came before; 0 with the process in *made. */
MUST_CHECK int file_enter(struct file *file, struct store *store,
                          const struct trace_reader *reader,
                          const struct file_part *part, struct process **made);
/* A session's id made of a path. */
void file_name_session(struct file_result *result, const char *path);

/* Sums of a file's own numbers: these may be absurd, and wrap around. */
ALWAYS_INLINE int64_t file_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Launch shapes of a kernel, where the event tells them. */
void file_take_kernel(struct file *file, const struct trace_event *event);

/* Begin and end apart: true and *event is the whole range when this was an end. */
bool file_take_pair(struct file *file, struct trace_event *event);
/* Likewise of begin and end with an id (b, e, S, F): the range is of a thread of its own. */
bool file_take_async(struct file *file, struct trace_event *event);
void file_end_pairs(struct file *file); /* what never ended of both is counted */
void file_free_pairs(struct file *file);

/* The forward op of a backward one, by sequence number (sequences.c). */
struct file_sequences *file_sequences_new(void); /* NULL when out of memory */
void file_sequences_free(struct file_sequences *sequences);
void file_sequences_take(struct file *file, const struct trace_event *event,
                         uint32_t thread);
/* When all were taken; `zero_ns` is what the threads' stamps lost meanwhile. */
MUST_CHECK int file_sequences_index(struct file_sequences *sequences, int64_t zero_ns);
/* Threads are ordered in turns, that forward ops are known before the backward ones: who
 * calls no backward, the one that trains, who does both, the rest. */
#define FILE_SEQUENCES_TURNS 4u
uint32_t file_sequences_turn(const struct file *file, uint32_t thread);
/* The path of the forward op of a backward one; 0 where none is known. */
uint32_t file_sequences_origin(const struct file_sequences *sequences,
                               const struct event *event, uint32_t thread);
/* An op outside of any backward began; in the order of their starts. */
void file_sequences_note(struct file_sequences *sequences, const struct event *event,
                         uint32_t thread, uint32_t path);

/* A copy's or memset's bytes as its event says, else as its call: in file order; then of a
 * piece of work, GPU_BYTES_UNKNOWN where neither does. */
void file_take_size(struct file *file, const struct trace_event *call);
void file_sort_sizes(struct file *file);
uint64_t file_work_bytes(const struct file *file, const struct track_record *work);
/* A number for a stream that the file names by a pointer. */
uint32_t file_stream(struct file *file, uint64_t address);

/* EVENT_DEVICE() of a piece of work, when all was read. */
#define FILE_DEVICE_CUDA 1
uint16_t file_device(const struct file *file, uint16_t device);

/* The number of a work's device. */
uint8_t file_work_device(const struct file *file, const struct trace_event *event);

/* When all was read: may an event stay? */
ALWAYS_INLINE bool file_is_stray(const struct file *file, const struct event *event)
{
    return UNLIKELY(file->has_strays) && ((int64_t)event->time < file->keep_ns[0] ||
                                          (int64_t)event->time > file->keep_ns[1]);
}

void file_skip(struct file *file, uint64_t offset, enum file_skip reason);

/* The callback of the reader. */
bool file_take(void *user, struct trace_event *events, uint32_t count);
enum file_name file_name_kind(struct file *file, uint32_t name);

/* After the last event: which thread trains; then, when work is linked, each thread's
 * events in the order of their ends, children first, and what only the nesting tells. */
void file_choose_trainer(struct file *file);
MUST_CHECK int file_link_works(struct file *file);
void file_count_unlinked(struct file *file); /* when all threads were ordered */
/* A call that launches; a call that begins or ends to capture, with the begin of its thread's
 * capture so far. */
void file_note_launch(struct file *file, const struct event *call);
void file_note_capture(struct file *file, const struct event *call, int64_t *since_ns);
/* What a call with that correlation launched: its device time, once for a runtime call and
 * the driver's in it; whether some of it copied that way, from the host or to it. */
int64_t file_launched_ns(struct file *file, uint64_t correlation);
bool file_copies(struct file *file, uint64_t correlation, enum event_copy way);
MUST_CHECK int file_order(struct file *file, struct file_thread *thread);

/* Of the training thread, in the order of time (needless.c): an outermost op begins; any
 * op ended. */
enum file_needless_op file_needless_op(const char *name);
void file_needless_begin(struct file *file, struct file_needless_walk *walk,
                         enum file_needless_op op, int64_t start_ns);
void file_needless_end(struct file *file, struct file_needless_walk *walk,
                       const struct file_needless_ended *ended);
/* An outermost op in an update of the optimizer: are tensors updated one after the other, and
 * how much of an update is inside of its calls? Ops elsewhere tell nothing of it: a residual
 * connection adds too. */
void file_update_op(struct file *file, const struct event *op);

/* Of training steps, when these are known; [NEEDLESS_WORKS]. */
void file_needless_sum(const struct file *file, struct process_needless *sums);

/* An op with a sequence number (graph.c). When all threads were ordered: where the trainer
 * adds to the graph. */
void file_graph_take(struct file *file, const struct trace_event *event,
                     uint32_t thread);
void file_graph_settle(struct file *file);
/* Where the first op begins in [from, to) that adds to the graph; `to_ns` where none does. */
int64_t file_graph_begin(const struct file *file, int64_t from_ns, int64_t to_ns);

/* Marks to steps; then the phases of one as events, at most `most`. */
MUST_CHECK int file_find_steps(struct file *file);
uint64_t file_step_number(const char *name); /* "ProfilerStep#7" */
struct file_phases {
    uint32_t mark, backward; /* where the next step looks first */
    bool known[EVENT_PHASES];
};
void file_phases_begin(const struct file *file, struct file_phases *phases);
uint32_t file_phases_step(const struct file *file, struct file_phases *phases,
                          const struct file_step *step, struct event *events,
                          uint32_t most);

/* The reader's names as texts of the process. */
struct file_texts {
    struct process *process;
    const struct trace_names *names;
    uint32_t *ids; /* text + 1 */
    uint32_t count;
};
uint32_t file_text(struct file_texts *texts, uint32_t name);

/* Steps and phases of a trace that we wrote: true when the event was one, and is no
 * range. */
bool file_take_own(struct file *file, const struct trace_event *event);
/* How long an op or a range of the host was: of a trace that we wrote, before it was
 * shortened. */
int64_t file_length_ns(const struct file *file, enum file_name name,
                       const struct trace_event *event);
/* A sample of memory, likewise. */
bool file_take_sample(struct file *file, const struct trace_event *event);
uint32_t file_phases_own(const struct file *file, struct file_phases *phases,
                         const struct file_step *step, struct event *events,
                         uint32_t most);

/* Allocations to samples of the process's memory; stamps are ns since its zero. */
MUST_CHECK int file_fold_memory(struct file *file, struct file_texts *texts);

/* When all of it is in the tables; the store is locked. */
void file_say_facts(const struct file *file, struct process *process,
                    const struct trace_reader *reader);
void file_say_capabilities(const struct file *file, struct process *process);

/* All of it to the tables, the store locked piece by piece. */
MUST_CHECK int file_feed(struct file *file, struct store *store,
                         struct process *process);

#endif
