#include "ingest/proc_counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ingest/group.h"

/* Behind the command's name, which may hold anything: fields are counted from its end. NULL
 * when it is gone. */
static const char *fields_of(const char *stat)
{
    const char *end = strrchr(stat, ')');

    return end == NULL ? NULL : end + 1;
}

bool proc_counters_read(uint32_t pid, struct proc_counters *now)
{
    char text[1024];
    uint64_t resident, shared;
    const char *fields =
        fields_of(group_slurp(text, sizeof(text), "/proc/%u/stat", pid));

    if (fields == NULL ||
        sscanf(fields,
               " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %" SCNu64
               " %" SCNu64 " %*d %*d %*d %*d %*d %*d %" SCNu64 " %*u %" SCNu64,
               &now->faults, &now->user, &now->kernel, &now->start, &now->pages) != 5)
        return false;
    if (sscanf(group_slurp(text, sizeof(text), "/proc/%u/schedstat", pid),
               "%" SCNu64 " %" SCNu64, &now->run_ns, &now->delay_ns) != 2)
        now->run_ns = now->delay_ns = 0;
    if (sscanf(group_slurp(text, sizeof(text), "/proc/%u/statm", pid),
               "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2)
        resident = shared = 0;
    now->own_pages = resident > shared ? resident - shared : 0;
    return true;
}

bool proc_counters_read_thread(uint32_t pid, uint32_t tid,
                               struct proc_thread_counters *now)
{
    char text[1024];
    const char *fields =
        fields_of(group_slurp(text, sizeof(text), "/proc/%u/task/%u/stat", pid, tid));

    return fields != NULL &&
           sscanf(fields,
                  " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %*u %" SCNu64,
                  &now->faults, &now->kernel) == 2;
}
