/* The rows behind windows.h: what is known of each window. Notes, traces and requests
 * write them, under the lock. For the files of this folder, and the fuzz target of notes. */
#ifndef SERVER_WINDOWS_INSIDE_H
#define SERVER_WINDOWS_INSIDE_H

#include <pthread.h>

#include "query/status_query.h"
#include "windows/windows.h"
#include "wire/clock.h"

#define PATH_BYTES 1024u
#define NOTE_BYTES 65536u /* 16 windows of at most 4 KiB */

enum window_state { ASKED, RUNNING, DONE, FAILED };

struct row {
    char id[16], session[64], segment[PATH_BYTES];
    uint32_t pid;
    int32_t rank;
    enum window_state state;
    char reason[WINDOWS_REASON_BYTES], path[PATH_BYTES], trace[80], ended_by[64];
    cJSON *numbers;    /* what the note says besides */
    int64_t until_ms;  /* Unix time; 0: not asked for by us */
    uint32_t seconds;  /* that it was to take at most */
    uint64_t steps_at; /* of the process when it was asked */
    enum { UNOPENED, OPENING, OPENED } trace_state; /* OPENED: or it never will be */
};

struct windows {
    struct store *store;
    struct trace_files *files;
    pthread_mutex_t lock; /* guards the rows */
    struct row rows[WINDOWS_MAX];
    uint32_t count; /* oldest first */
    bool looked;
};

static inline int64_t windows_unix_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000);
}

/* A new row, in the place of the oldest when there are WINDOWS_MAX; the lock is held. */
struct row *window_add(struct windows *windows, const char *id,
                       const struct status_session *session,
                       const struct status_process *process);

/* Takes what the session's processes left. `bytes`: NOTE_BYTES of scratch. */
void windows_read_notes(struct windows *windows, const struct status_session *session,
                        char *bytes);

#endif
