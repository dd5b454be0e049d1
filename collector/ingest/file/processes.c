#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

/* ---- who they are ---------------------------------------------------------------------- */

static const char *pid_text(const struct file *file, uint32_t pid)
{
    return trace_names_get(file->names, pid, NULL);
}

/* Has the process ops? Copies of its ranges on a device have none. */
static bool has_ops(const struct file *file, uint32_t pid)
{
    for (uint32_t i = 0; i < file->thread_count; i++)
        if (file->threads[i].pid == pid && file->threads[i].ops > 0)
            return true;
    return file->own;
}

static uint32_t process_of(const struct file_processes *processes, const char *pid)
{
    for (uint32_t i = 0; i < processes->count; i++)
        if (strcmp(processes->pids[i], pid) == 0)
            return i;
    return FILE_OF_NO_PROCESS;
}

static int by_number(const void *left, const void *right)
{
    return strverscmp(left, right);
}

static void collect(const struct file *file, struct file_processes *processes)
{
    for (uint32_t i = 0; i < file->thread_count; i++) {
        const struct file_thread *thread = &file->threads[i];
        const char *pid = pid_text(file, thread->pid);

        if (thread->steps + thread->updates == 0 || !has_ops(file, thread->pid) ||
            strlen(pid) >= FILE_PID_BYTES || processes->count == FILE_PROCESSES_MAX ||
            process_of(processes, pid) != FILE_OF_NO_PROCESS)
            continue;
        (void)snprintf(processes->pids[processes->count++], FILE_PID_BYTES, "%s", pid);
    }
    qsort(processes->pids, processes->count, FILE_PID_BYTES, by_number);
}

/* ---- whose a device's work is ------------------------------------------------------------ */

static int by_correlation(const void *left, const void *right)
{
    const struct file_call *a = left, *b = right;

    if (a->correlation != b->correlation)
        return a->correlation < b->correlation ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* The calls of a thread, as far as there is room. */
static int collect_calls(struct file *file, uint32_t thread, struct file_list *calls,
                         uint32_t process)
{
    const struct track_record *taken;
    struct track_reader reader;
    int error = track_drain(&reader, &file->threads[thread].taken);

    for (; error == 0 && (taken = track_peek(&reader)) != NULL; track_next(&reader)) {
        uint8_t kind = EVENT_KIND(taken->event.meta);

        if ((kind == EVENT_LAUNCH || kind == EVENT_RUNTIME) && taken->event.aux != 0) {
            (void)FILE_LIST_ADD(file, calls, FILE_REMARK_MARKS, struct file_call,
                                {.correlation = taken->event.aux,
                                 .start_ns = (int64_t)taken->event.time,
                                 .process = process});
        }
    }
    track_end(&reader);
    return error != 0 || reader.failed || file->out_of_memory ? -ENOMEM : 0;
}

/* Each process counts its correlations for itself: of several calls with one the last that
 * began before the work is its own. */
static uint32_t process_of_work(const struct file_processes *processes,
                                uint64_t correlation, int64_t start_ns)
{
    uint32_t low = 0, high = processes->call_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct file_call *call = &processes->calls[middle];

        if (call->correlation < correlation ||
            (call->correlation == correlation && call->start_ns <= start_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && processes->calls[low - 1].correlation == correlation)
        return processes->calls[low - 1].process;
    /* Clocks of device and host may be a little apart. */
    if (low < processes->call_count && processes->calls[low].correlation == correlation)
        return processes->calls[low].process;
    return FILE_OF_NO_PROCESS;
}

static int vote(struct file *file, struct file_processes *processes)
{
    uint32_t(*votes)[FILE_PROCESSES_MAX] = calloc(256, sizeof(*votes));
    const struct track_record *work;
    struct track_reader reader;
    int error = track_drain(&reader, &file->works);

    if (votes == NULL)
        error = -ENOMEM;
    for (; error == 0 && (work = track_peek(&reader)) != NULL; track_next(&reader)) {
        uint32_t process =
            process_of_work(processes, work->event.aux, (int64_t)work->event.time);

        if (process != FILE_OF_NO_PROCESS)
            votes[EVENT_DEVICE_INDEX(EVENT_AUX16(work->event.meta))][process]++;
    }
    /* Most devices are one process's: there a call of another one with the same number at
     * about the same time is no doubt. */
    for (uint32_t device = 0; error == 0 && device < 256; device++) {
        uint64_t sum = 0;
        uint32_t best = 0;

        for (uint32_t i = 0; i < processes->count; i++) {
            sum += votes[device][i];
            best = votes[device][i] > votes[device][best] ? i : best;
        }
        processes->of_device[device] =
            votes[device][best] * UINT64_C(10) >= sum * 7 ? best : FILE_OF_NO_PROCESS;
    }
    track_end(&reader);
    free(votes);
    return error != 0 || reader.failed ? -ENOMEM : 0;
}

int file_processes_find(struct file *file, struct file_processes *processes)
{
    struct file_list calls = {0};
    int error = 0;

    collect(file, processes);
    if (processes->count < 2)
        return 0;
    for (uint32_t i = 0; i < file->thread_count && error == 0; i++) {
        uint32_t process = process_of(processes, pid_text(file, file->threads[i].pid));

        if (process != FILE_OF_NO_PROCESS)
            error = collect_calls(file, i, &calls, process);
    }
    processes->calls = calls.items;
    processes->call_count = calls.count;
    file_list_sort(&calls, sizeof(struct file_call), by_correlation);
    return error == 0 ? vote(file, processes) : error;
}

void file_processes_free(struct file_processes *processes)
{
    free(processes->calls);
    *processes = (struct file_processes){0};
}

bool file_is_of_process(struct file *file, const struct trace_event *event)
{
    const struct file_processes *processes = file->processes;
    uint32_t process;

    if (event->category == TRACE_KERNEL || event->category == TRACE_MEMCPY ||
        event->category == TRACE_MEMSET) {
        process = processes->of_device[file_work_device(file, event)];
        if (process == FILE_OF_NO_PROCESS)
            process = process_of_work(processes, (uint64_t)event->correlation,
                                      event->time_ns);
    } else {
        if (event->pid != file->pid)
            file->pid_process = process_of(processes, pid_text(file, event->pid));
        file->pid = event->pid;
        process = file->pid_process;
    }
    /* What is no process's own, such as a helper's, is shown once. */
    return process == file->process ||
           (process == FILE_OF_NO_PROCESS && file->process == 0);
}
