/* The machine under the jobs: one sample of /proc, of the control group and of what the
 * GPUs say of themselves. */
#ifndef INGEST_HOST_H
#define INGEST_HOST_H

#include "aggregate/state.h"
#include "ingest/group.h"

struct host_counters {
    uint64_t busy, idle, iowait, steal; /* jiffies of all cores */
    uint64_t disk_read, disk_written;   /* bytes */
    uint64_t received, sent;            /* bytes, all interfaces but lo */
    uint64_t periods, throttled;        /* of the control group's quota */
};

struct host_process_counters {
    uint32_t serial;
    uint64_t ticks;    /* CPU time */
    uint64_t made;     /* pages that the kernel made, without a disk */
    uint32_t tid;      /* of the training thread; 0 unknown */
    uint64_t system;   /* it was in the kernel: ticks */
    uint64_t faults;   /* of the pages made: for it */
    uint64_t run_ns;   /* its first thread had a core */
    uint64_t delay_ns; /* it could run and had none */
    int64_t seen_ns;
};

struct host {
    struct host_counters before;
    uint64_t core_busy[STATE_CORES], core_idle[STATE_CORES];
    int64_t sampled_ns; /* 0 before the first */
    struct host_process_counters processes[256];
    uint32_t process_count;
    struct group group; /* our control group */
    struct nvml *nvml;  /* NULL before the first sample, or where no thread starts */
};

/* Finds the control group. */
void host_open(struct host *host);
void host_close(struct host *host);

/* Takes a sample into the store, with the CPU time and memory of every running process
 * whose pid means something here. Takes the lock for the result only. */
void host_sample(struct host *host, struct store *store, int64_t now_ns);

#endif
