#include "windows/windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "windows/inside.h"

#define LATE_MS 3000 /* an answer that is under way when the time is over */

struct windows *windows_new(struct store *store, struct trace_files *files)
{
    struct windows *windows = calloc(1, sizeof(*windows));

    if (windows == NULL)
        return NULL;
    windows->store = store;
    windows->files = files;
    pthread_mutex_init(&windows->lock, NULL);
    return windows;
}

void windows_free(struct windows *windows)
{
    if (windows == NULL)
        return;
    for (uint32_t i = 0; i < windows->count; i++)
        cJSON_Delete(windows->rows[i].numbers);
    pthread_mutex_destroy(&windows->lock);
    free(windows);
}

struct row *window_find(struct windows *windows, const char *id, const char *segment)
{
    for (uint32_t i = 0; i < windows->count; i++) {
        struct row *row = &windows->rows[i];

        if (strcmp(row->id, id) == 0 && strcmp(row->segment, segment) == 0)
            return row;
    }
    return NULL;
}

struct row *window_add(struct windows *windows, const char *id,
                       const struct status_session *session,
                       const struct status_process *process)
{
    struct row *row;

    if (windows->count == WINDOWS_MAX) {
        cJSON_Delete(windows->rows[0].numbers);
        memmove(&windows->rows[0], &windows->rows[1],
                (WINDOWS_MAX - 1) * sizeof(windows->rows[0]));
        windows->count--;
    }
    row = &windows->rows[windows->count++];
    *row = (struct row){.pid = process->pid, .rank = process->rank};
    (void)snprintf(row->id, sizeof(row->id), "%s", id);
    (void)snprintf(row->session, sizeof(row->session), "%s", session->id);
    (void)snprintf(row->segment, sizeof(row->segment), "%s", process->segment_path);
    return row;
}

void window_fail(struct row *row, const char *reason)
{
    row->state = FAILED;
    (void)snprintf(row->reason, sizeof(row->reason), "%s", reason);
}

/* ---- what no note says ----------------------------------------------------------------- */

static const struct status_process *process_of(const struct status_answer *status,
                                               const char *segment)
{
    for (uint32_t i = 0; i < status->session_count; i++) {
        const struct status_session *session = &status->sessions[i];

        for (uint32_t j = 0; j < session->process_count; j++) {
            const char *path = session->processes[j].segment_path;

            if (path != NULL && strcmp(path, segment) == 0)
                return &session->processes[j];
        }
    }
    return NULL;
}

static void judge(struct row *row, const struct status_process *process)
{
    char reason[WINDOWS_REASON_BYTES];
    bool alive = process != NULL && process->state == PROCESS_RUNNING;

    if (row->state > RUNNING)
        return;
    if (!alive) {
        window_fail(row, row->state == RUNNING
                             ? "the job ended inside the window"
                             : "the job ended before the window began");
        return;
    }
    if (row->state != ASKED || row->until_ms == 0 ||
        windows_unix_ms() < row->until_ms + LATE_MS)
        return;
    /* What had ended when it was asked may have been told only afterwards. */
    bool silent = process->last_event_age_ns > 1e9 * row->seconds;

    (void)snprintf(reason, sizeof(reason),
                   process->steps > row->steps_at && !silent
                       ? "the job made steps and gave no answer within %u s"
                       : "the job ended no step within %u s",
                   row->seconds);
    window_fail(row, reason);
}

static void judge_all(struct windows *windows, const struct status_answer *status)
{
    pthread_mutex_lock(&windows->lock);
    for (uint32_t i = 0; i < windows->count; i++)
        judge(&windows->rows[i], process_of(status, windows->rows[i].segment));
    windows->looked = true;
    pthread_mutex_unlock(&windows->lock);
}

void windows_look(struct windows *windows)
{
    struct selection everybody = {.rank = SELECT_ANY};
    char *bytes = malloc(NOTE_BYTES);
    struct status_answer status;

    if (bytes != NULL && status_query(windows->store, &everybody, &status) == 0) {
        for (uint32_t i = 0; i < status.session_count; i++)
            if (!status.sessions[i].from_file)
                windows_read_notes(windows, &status.sessions[i], bytes);
        judge_all(windows, &status);
        answer_free(&status.head);
    }
    free(bytes);
    windows_open_traces(windows);
}

/* ---- listing ----------------------------------------------------------------------------- */

static cJSON *row_json(const struct row *row)
{
    static const char *const states[] = {"asked", "running", "done", "failed"};
    cJSON *document = row->numbers != NULL ? cJSON_Duplicate(row->numbers, true)
                                           : cJSON_CreateObject();

    json_text(document, "id", row->id);
    json_text(document, "session", row->session);
    json_integer(document, "rank", row->rank < 0 ? NOT_KNOWN : row->rank);
    json_count(document, "pid", row->pid);
    json_text(document, "state", states[row->state]);
    json_text(document, "reason", *row->reason != '\0' ? row->reason : NULL);
    json_text(document, "path", *row->path != '\0' ? row->path : NULL);
    json_text(document, "trace", *row->trace != '\0' ? row->trace : NULL);
    json_text(document, "ended_by", *row->ended_by != '\0' ? row->ended_by : NULL);
    /* The file may still be on its way to a session. */
    cJSON_AddBoolToObject(document, "settled",
                          row->state == FAILED ||
                              (row->state == DONE && row->trace_state == OPENED));
    return document;
}

void windows_list(struct windows *windows, const char *session, cJSON *rows)
{
    pthread_mutex_lock(&windows->lock);
    for (uint32_t i = windows->count; i-- > 0;)
        if (*session == '\0' || strcmp(windows->rows[i].session, session) == 0)
            cJSON_AddItemToArray(rows, row_json(&windows->rows[i]));
    pthread_mutex_unlock(&windows->lock);
}
