#include "ingest/proc_counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ingest/group.h"

bool proc_counters_read(uint32_t pid, struct proc_counters *now)
{
    char path[64], text[1024];
    uint64_t resident, shared;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
    /* The command's name may hold anything: fields are counted from its end. */
    const char *fields = strrchr(group_slurp(path, text, sizeof(text)), ')');

    if (fields == NULL ||
        sscanf(fields + 1,
               " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %" SCNu64
               " %" SCNu64 " %*d %*d %*d %*d %*d %*d %" SCNu64 " %*u %" SCNu64,
               &now->faults, &now->user, &now->kernel, &now->start, &now->pages) != 5)
        return false;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/schedstat", pid);
    if (sscanf(group_slurp(path, text, sizeof(text)), "%" SCNu64 " %" SCNu64,
               &now->run_ns, &now->delay_ns) != 2)
        now->run_ns = now->delay_ns = 0;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/statm", pid);
    if (sscanf(group_slurp(path, text, sizeof(text)), "%*u %" SCNu64 " %" SCNu64,
               &resident, &shared) != 2)
        resident = shared = 0;
    now->own_pages = resident > shared ? resident - shared : 0;
    return true;
}

bool proc_counters_read_thread(uint32_t pid, uint32_t tid,
                               struct proc_thread_counters *now)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", pid, tid);
    const char *fields = strrchr(group_slurp(path, text, sizeof(text)), ')');

    return fields != NULL &&
           sscanf(fields + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %*u %" SCNu64,
                  &now->faults, &now->kernel) == 2;
}
