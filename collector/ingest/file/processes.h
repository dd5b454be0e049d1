/* Several processes with steps of their own in one file, as where ranks were merged: who they
 * are, and whose each device's work is. */
#ifndef INGEST_FILE_PROCESSES_H
#define INGEST_FILE_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

#define FILE_PROCESSES_MAX 64u
#define FILE_PID_BYTES     64u
#define FILE_OF_NO_PROCESS UINT32_MAX

struct file;
struct trace_event;

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

/* When all of the file was read: fills *processes where two or more of them have steps or
 * updates; the events of `file` are then gone. 0 or -ENOMEM. */
MUST_CHECK int file_processes_find(struct file *file, struct file_processes *processes);
void file_processes_free(struct file_processes *processes);

/* Is the event of the process that `file` is being read for? */
bool file_is_of_process(struct file *file, const struct trace_event *event);

#endif
