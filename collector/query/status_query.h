/* Which sessions and processes there are, how they fare, what can be seen of them, and
 * what the looking costs. */
#ifndef QUERY_STATUS_QUERY_H
#define QUERY_STATUS_QUERY_H

#include "aggregate/store.h" /* enum process_state */
#include "query/answer.h"
#include "wire/segment.h"

struct status_fact {
    const char *key;
    enum wire_fact_type type;
    const char *text; /* WIRE_FACT_TEXT */
    double number;    /* the others; a bool is 0 or 1 */
};

/* A source of the server's own, beside those of the process. */
#define STATUS_SOURCE_NVML WIRE_SOURCES

struct status_capability {
    uint32_t source; /* enum wire_source, or STATUS_SOURCE_NVML */
    enum wire_source_state state;
    const char *reason, *detail;
    uint64_t events, lost;
    double cost_ns;      /* of one event, calibrated; NaN unknown */
    double events_per_s; /* over the last seconds; NaN unknown */
};

struct status_range {
    const char *name;
    enum event_kind kind; /* EVENT_STEP and EVENT_PHASE: of the training thread */
    double open_for_ns;   /* until now; until the last sign of life when it is dead; NaN
                           unknown */
};

struct status_thread {
    uint32_t tid;
    const char *name;
    struct status_range *open; /* outermost first */
    uint32_t open_count;
    uint32_t depth; /* may be larger: deeper ones are not remembered */
};

struct status_process {
    uint32_t pid;
    uint32_t parent_pid;
    int32_t rank, world_size;
    enum wire_role role;
    enum process_state state;
    const char *reason; /* of crashed and lost; "" */
    const char *host, *version;
    uint64_t steps;
    int64_t start_ns;         /* of the process's segment, on the session's axis */
    int64_t last_event_ns;    /* NOT_KNOWN before the first */
    double last_event_age_ns; /* by the collector's clock; when dead since its death */
    uint64_t lost_events;
    uint64_t threads_refused; /* that found no room: nothing of them is recorded */
    uint64_t names_refused;   /* events whose name found none */
    uint64_t late_events; /* older than every open step: in a later one, or in none */
    bool ops_recorded;    /* CPU ops are being recorded at this moment */
    bool selected;        /* the one that the answer's head names */
    bool same_host;       /* its pid means something here: same PID namespace, seen */
    struct status_fact *facts;
    uint32_t fact_count;
    struct status_capability *capabilities;
    uint32_t capability_count;
    struct status_thread *threads; /* with open ranges or a name */
    uint32_t thread_count;
    const char *segment_path;
};

/* How the command ended, as `trainglass run` noted it, else as the segment shows. */
struct status_end {
    bool known;
    int exit_code;     /* -1 none */
    int signal;        /* that ended it, or that asked it to end; 0 none */
    bool oom;          /* the kernel's or container's OOM count grew meanwhile */
    bool certain;      /* false: `cause` is the most likely */
    const char *cause; /* "" or a sentence's tail: "killed by the kernel: out of
                          memory" */
};

struct status_session {
    const char *id, *name;
    enum process_state state; /* of its trainers together */
    const char *reason;
    uint64_t steps; /* of the default process */
    int64_t start_unix_ns;
    double last_event_age_ns;
    uint64_t lost_events;
    uint64_t threads_refused; /* that found no room: nothing of them is recorded */
    uint64_t names_refused;   /* events whose name found none */
    uint64_t late_events; /* older than every open step: in a later one, or in none */
    int32_t world_size;
    double step_ns; /* mean of the default process; NaN before there is one */
    uint64_t rev;
    bool from_file; /* a trace file */
    bool unread;    /* ended, and the default process's events are not folded yet */
    struct status_end end;
    struct status_process *processes;
    uint32_t process_count;
    uint64_t processes_dropped; /* that were known and made way for newer ones */
};

struct status_watch {
    const char *path;
    bool readable;
    const char *reason; /* why not, with the remedy */
    uint32_t segments;
};

/* A command of `trainglass run` of which nothing was seen so far. */
struct status_command {
    const char *session, *command;
    uint32_t pid;
    int64_t start_unix_ns; /* 0 unknown */
    bool ended;            /* else it runs */
};

struct status_answer {
    struct answer head;
    struct status_session *sessions; /* newest first */
    uint32_t session_count;
    struct status_watch *watching;
    uint32_t watching_count;
    struct status_command *commands;
    uint32_t command_count;
    uint64_t sessions_dropped; /* beyond the limit of 256 */
};

/* Every session; the selection only decides what the head says. */
MUST_CHECK int status_query(struct store *store, const struct selection *selection,
                            struct status_answer *answer);

/* The session of that id; NULL when there is none. */
const struct status_session *status_session_find(const struct status_answer *status,
                                                 const char *id);

/* "running", "ended", "crashed", "lost"; "unknown" for a number that is no state. Static. */
const char *status_state_word(uint32_t process_state);

/* enum wire_source, or STATUS_SOURCE_NVML. Static. */
const char *status_source_word(uint32_t source);

/* What stands in the stream's topic `status`, and no more. */
struct status_brief {
    struct answer head;
    enum process_state state;
    uint64_t steps;
    double last_event_age_ns;
};

MUST_CHECK int status_brief_query(struct store *store,
                                  const struct selection *selection,
                                  struct status_brief *answer);

struct overhead_answer {
    struct answer head;
    enum wire_level level;
    enum wire_governor_state state;
    double budget_pct, measured_pct, ci95_low_pct, ci95_high_pct; /* NaN unknown */
    double detail_pct, burst_pct, fixed_pct;
    double recorded_share, phases_share; /* of the steps, 0 to 1 */
    uint64_t recorded_steps, control_steps, steps_needed;
    struct status_capability *sources;
    uint32_t source_count;
};

MUST_CHECK int overhead_query(struct store *store, const struct selection *selection,
                              struct overhead_answer *answer);

#endif
