/* What the kernel counts of a process: /proc/PID/stat, statm and schedstat. */
#ifndef INGEST_PROC_COUNTERS_H
#define INGEST_PROC_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

struct proc_counters {
    uint64_t user, kernel; /* CPU time of all its threads, in ticks */
    uint64_t faults;       /* minor ones, of all its threads */
    uint64_t start;        /* when it began, in ticks since the machine did */
    uint64_t pages;        /* resident */
    uint64_t own_pages; /* of those, its own: no file's and nobody else's; 0 unknown */
    uint64_t run_ns,
        delay_ns; /* the first thread had a core, and waited for one; 0 where
                                  the kernel does not say */
};

/* What it counts of one thread: /proc/PID/task/TID/stat. */
struct proc_thread_counters {
    uint64_t kernel; /* CPU time in it, in ticks */
    uint64_t faults; /* minor ones */
};

/* False when it is gone. */
bool proc_counters_read(uint32_t pid, struct proc_counters *now);
bool proc_counters_read_thread(uint32_t pid, uint32_t tid,
                               struct proc_thread_counters *now);

#endif
