/* Asking for a window, through the control files of the processes that are meant. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "control/control.h"
#include "query/status_query.h"
#include "windows/inside.h"

/* Ranks begin together when all know it before: a request is read every 50 ms or step,
 * and our tables are up to 100 ms old. */
#define LEAD_STEPS 3u
#define LEAD_NS    4e8

/* Why this process can have no window now; NULL: it can. The lock is held. */
static const char *obstacle(struct windows *windows,
                            const struct status_process *process)
{
    bool python = false;

    if (process->state != PROCESS_RUNNING)
        return "the process does not run";
    for (uint32_t i = 0; i < process->capability_count; i++)
        python |= process->capabilities[i].source == WIRE_SOURCE_PYTHON &&
                  process->capabilities[i].state == WIRE_STATE_ACTIVE;
    if (!python)
        return "a window is made by torch.profiler, and no Python was seen in the "
               "process so far";
    for (uint32_t i = 0; i < windows->count; i++) {
        const struct row *row = &windows->rows[i];

        if (row->state <= RUNNING && strcmp(row->segment, process->segment_path) == 0)
            return "another window of this process is not done";
    }
    return NULL;
}

static bool is_meant(const struct status_process *process, bool all_ranks)
{
    return process->segment_path != NULL &&
           strlen(process->segment_path) < PATH_BYTES &&
           (all_ranks ? process->role == WIRE_ROLE_TRAINER &&
                            process->state == PROCESS_RUNNING
                      : process->selected);
}

static uint64_t first_step_of(const struct status_session *session)
{
    double lead = session->step_ns > 0 ? ceil(LEAD_NS / session->step_ns) : 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < session->process_count; i++)
        most = session->processes[i].steps > most ? session->processes[i].steps : most;
    return most + LEAD_STEPS + (lead > 0 && lead < 1e6 ? (uint64_t)lead : 0);
}

static int ask_process(struct windows *windows, const struct status_session *session,
                       const struct status_process *process,
                       const struct control_change *change, char *reason)
{
    const char *why = obstacle(windows, process);
    char path[PATH_BYTES], id[16];
    struct row *row;
    int error;

    if (why != NULL) {
        (void)snprintf(reason, WINDOWS_REASON_BYTES, "%s", why);
        return -EBUSY;
    }
    if (!control_path(process->segment_path, path, sizeof(path)))
        return -EINVAL;
    error = control_write(path, change);
    if (error != 0) {
        (void)snprintf(reason, WINDOWS_REASON_BYTES,
                       "cannot write beside the job's segments: %s", strerror(-error));
        return error;
    }
    (void)snprintf(id, sizeof(id), "w-%08x", change->window->id);
    row = window_add(windows, id, session, process);
    row->until_ms = (int64_t)change->window->until_unix_ms;
    row->seconds = change->window->seconds;
    row->steps_at = process->steps;
    return 0;
}

static int ask_session(struct windows *windows, const struct status_session *session,
                       const struct control_change *change, bool all_ranks,
                       char *reason)
{
    int asked = 0, error = 0;

    (void)snprintf(reason, WINDOWS_REASON_BYTES, "the session does not run");
    for (uint32_t i = 0; i < session->process_count; i++) {
        const struct status_process *process = &session->processes[i];
        int result;

        if (!is_meant(process, all_ranks))
            continue;
        result = ask_process(windows, session, process, change, reason);
        asked += result == 0;
        error = result != 0 ? result : error;
    }
    if (asked > 0)
        return asked;
    return error != 0 ? error : -ESRCH;
}

int windows_ask(struct windows *windows, const struct selection *selection,
                const struct windows_wish *wish, char id[16],
                char reason[WINDOWS_REASON_BYTES])
{
    struct control in_force = control_in_force(windows->store, selection);
    struct control_window window = {.steps = wish->steps,
                                    .seconds = wish->seconds,
                                    .flags = wish->flags,
                                    .bytes = wish->bytes,
                                    .until_unix_ms = (uint64_t)windows_unix_ms() +
                                                     wish->seconds * UINT64_C(1000)};
    struct control_change change = {
        .level = -1, .budget_ppm = -1, .in_force = &in_force, .window = &window};
    const struct status_session *session = NULL;
    struct status_answer status;
    int result = status_query(windows->store, selection, &status);

    if (result == 0)
        session = status_session_find(&status, status.head.session);
    while (window.id == 0)
        if (getrandom(&window.id, sizeof(window.id), 0) != sizeof(window.id))
            window.id = (uint32_t)windows_unix_ms() | 1u;
    (void)snprintf(id, 16, "w-%08x", window.id);
    if (session == NULL) {
        (void)snprintf(reason, WINDOWS_REASON_BYTES, "no such session");
        answer_free(&status.head);
        return -ENOENT;
    }
    if (wish->all_ranks && session->process_count > 1)
        window.first_step = first_step_of(session);
    pthread_mutex_lock(&windows->lock);
    result = ask_session(windows, session, &change, wish->all_ranks, reason);
    pthread_mutex_unlock(&windows->lock);
    answer_free(&status.head);
    return result;
}
