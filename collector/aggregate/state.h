/* The inside of the store, for those who fill it and those who ask it. Server and
 * findings use store.h and the queries. */
#ifndef AGGREGATE_STATE_H
#define AGGREGATE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/hardware.h"
#include "aggregate/history.h"
#include "aggregate/process.h"
#include "aggregate/store.h"

#define STATE_HOST_POINTS 3600u /* an hour */
#define STATE_CORES       512u
#define STATE_WATCHES     64u
#define STATE_COMMANDS    32u
#define STATE_PROCESSES   1024u /* per session */

/* Note of `trainglass run` about its command (wire/end_note.h). */
struct state_end {
    bool known;
    int exit_code;    /* -1 none */
    int signal;       /* 0 none */
    int stopped_by;   /* INT, TERM or HUP by which somebody ended the job; 0 none */
    uint32_t pid;     /* of the command itself; 0 unknown */
    bool oom;
    int64_t realtime_ns; /* 0 unknown */
};

struct session {
    char id[WIRE_TEXT];
    char name[WIRE_TEXT];
    int64_t zero_monotonic_ns, zero_realtime_ns;
    bool from_file;
    bool own_file; /* we wrote it, of a live run: its tables are that run's */
    struct state_end end;
    struct process *processes; /* in the order they came */
    uint32_t process_count;
    uint64_t processes_dropped; /* workers that made way for newer processes */
    uint64_t order; /* larger = newer */
};

struct host_sample {
    int64_t unix_ns;
    float cpu_share, steal_share, iowait_share;
    float disk_read, disk_write, net_receive, net_send; /* bytes per second */
    float throttled_share;                              /* NaN without a limit */
    double memory_used_bytes;
};

struct host_state {
    struct host_sample points[STATE_HOST_POINTS]; /* ring */
    uint64_t count;
    float core_share[STATE_CORES];
    uint32_t core_count;
    double cpu_limit;          /* cores; NaN unlimited */
    double memory_limit_bytes; /* NaN unknown */
    bool memory_limited_by_container;
};

struct watch_state {
    char path[WIRE_PATH_BYTES];
    bool readable;
    char reason[160];
    uint32_t segments;
};

/* A command of `trainglass run` (wire/run_note.h): one that runs, or one that ended and of
 * which nothing was recorded. */
struct command_state {
    char session[WIRE_TEXT];
    char command[200];
    uint32_t pid;
    int64_t realtime_ns; /* of its start */
    bool ended;
};

struct store {
    pthread_rwlock_t lock; /* writer: the collector's thread */
    _Atomic uint64_t rev;  /* relaxed: a hint to look again */
    uint64_t digest_bytes;
    uint32_t next_serial;
    uint64_t next_order;
    struct history history;      /* of jobs */
    struct history file_history; /* of trace files: none of these costs a job its own */
    struct session *sessions[STORE_SESSIONS_MAX]; /* by order, newest last */
    uint32_t session_count;
    uint64_t sessions_dropped;
    struct host_state host;
    struct hardware hardware; /* the machine's GPUs */
    struct watch_state watches[STATE_WATCHES];
    uint32_t watch_count;
    struct command_state commands[STATE_COMMANDS];
    uint32_t command_count;
};

/* The session with this id, made when there is none; the oldest without a running
 * process goes when there are too many. NULL when none can go or memory is short. */
struct session *state_session(struct store *store, const char *id);

/* Adds a process to a session; where it is full, its oldest worker that has ended goes.
 * NULL when none can go or memory is short. */
struct process *state_process(struct store *store, struct session *session,
                              const struct process_identity *identity);

/* The process with this serial number; NULL when it was dropped. */
struct process *state_find(struct store *store, uint32_t serial,
                           struct session **session);

/* The session that is shown when nobody chose: with a step before without one, then one
 * that runs, then the newest; NULL when there is none. */
struct session *state_newest(const struct store *store);

/* Drops a session and all that is known of it. */
void state_drop(struct store *store, struct session *session);

/* Drops one process of it, and the session with its last. */
void state_drop_process(struct store *store, struct session *session,
                        struct process *process);

/* After a change, by the writer. */
void state_changed(struct store *store);

#endif
