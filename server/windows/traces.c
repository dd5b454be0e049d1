/* The traces of windows, opened as sessions. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/file/file.h"
#include "trace_files.h"
#include "windows/inside.h"

/* A regular file of the segment's owner, and no link; else -errno. */
static int open_trace(const struct row *row)
{
    struct stat segment, trace;
    int file;

    if (row->path[0] != '/' || lstat(row->segment, &segment) != 0)
        return -ENOENT;
    file = open(row->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return -errno;
    if (fstat(file, &trace) == 0 && S_ISREG(trace.st_mode) &&
        trace.st_uid == segment.st_uid)
        return file;
    close(file);
    return -EPERM;
}

/* Without the lock: it may take long. Says in the row's copy what became of it. */
static void load(struct windows *windows, struct row *row)
{
    const char *name = strrchr(row->path, '/');
    struct trace_file added = {.is_window = true};
    int file = open_trace(row), error;

    if (file < 0) {
        (void)snprintf(row->reason, sizeof(row->reason),
                       "this server cannot open the file: %s", strerror(-file));
        return;
    }
    error = trace_files_add(windows->files, name + 1, file, NULL, &added);
    if (error == 0) {
        (void)snprintf(row->trace, sizeof(row->trace), "%s", added.session);
        return;
    }
    close(file);
    (void)snprintf(row->reason, sizeof(row->reason), "the trace cannot be read: %.200s",
                   *added.result.error != '\0' ? added.result.error
                                                : strerror(-error));
}

/* A copy of the oldest row whose trace is to be opened; false when there is none. */
static bool next_trace(struct windows *windows, struct row *copy)
{
    bool found = false;

    pthread_mutex_lock(&windows->lock);
    for (uint32_t i = 0; i < windows->count && !found; i++) {
        struct row *row = &windows->rows[i];

        found = row->state == DONE && row->trace_state == UNOPENED;
        if (!found)
            continue;
        row->trace_state = OPENING;
        *copy = *row;
    }
    pthread_mutex_unlock(&windows->lock);
    return found;
}

void windows_open_traces(struct windows *windows)
{
    struct row copy;

    while (next_trace(windows, &copy)) {
        struct row *row;

        load(windows, &copy);
        pthread_mutex_lock(&windows->lock);
        row = window_find(windows, copy.id, copy.segment);
        if (row != NULL) {
            memcpy(row->reason, copy.reason, sizeof(row->reason));
            memcpy(row->trace, copy.trace, sizeof(row->trace));
            row->trace_state = OPENED;
        }
        pthread_mutex_unlock(&windows->lock);
    }
}
