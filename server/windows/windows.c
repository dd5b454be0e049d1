#include "windows/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/control.h"
#include "document/json.h"
#include "files/trace_files.h"
#include "ingest/file/file.h"
#include "windows/inside.h"

static const char *const states[] = {"asked", "running", "done", "failed"};

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

static struct row *window_find(struct windows *windows, const char *id,
                               const char *segment)
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

static void window_fail(struct row *row, const char *reason)
{
    row->state = FAILED;
    (void)snprintf(row->reason, sizeof(row->reason), "%s", reason);
}

/* ---- the notes that jobs leave beside their segments: foreign bytes to rows --------- */

static const char *text_of(const cJSON *note, const char *key, size_t max)
{
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(note, key));

    return text != NULL && strlen(text) < max ? text : "";
}

static bool is_id(const char *text)
{
    return strncmp(text, "w-", 2) == 0 && strlen(text) == 10 &&
           strspn(text + 2, "0123456789abcdef") == 8;
}

/* The numbers of a note; what else stands there is nothing that we asked for. */
static cJSON *numbers_of(const cJSON *note)
{
    static const char *const keys[] = {"steps",    "asked_steps", "first_step",
                                       "bytes",    "seconds",     "validation_batches",
                                       "start_ms", "stop_ms",     "export_ms"};
    cJSON *numbers = cJSON_CreateObject();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(note, keys[i]);

        if (cJSON_IsNumber(item) && isfinite(item->valuedouble))
            json_number(numbers, keys[i], item->valuedouble);
    }
    return numbers;
}

static void take_note(struct windows *windows, const cJSON *note,
                      const struct status_session *session,
                      const struct status_process *process)
{
    const char *id = text_of(note, "id", 16), *state = text_of(note, "state", 16);
    struct row *row;

    if (!is_id(id))
        return;
    row = window_find(windows, id, process->segment_path);
    if (row == NULL)
        row = window_add(windows, id, session, process);
    if (row->state == DONE)
        return;
    for (int i = RUNNING; i <= FAILED; i++)
        if (strcmp(state, states[i]) == 0)
            row->state = (enum window_state)i;
    (void)snprintf(row->reason, sizeof(row->reason), "%s",
                   text_of(note, "reason", sizeof(row->reason)));
    (void)snprintf(row->path, sizeof(row->path), "%s",
                   text_of(note, "path", sizeof(row->path)));
    (void)snprintf(row->ended_by, sizeof(row->ended_by), "%s",
                   text_of(note, "ended_by", sizeof(row->ended_by)));
    cJSON_Delete(row->numbers);
    row->numbers = numbers_of(note);
    /* Those of jobs that ended before us are listed; to open them all takes long. */
    if (!windows->looked && process->state != PROCESS_RUNNING)
        row->trace_state = OPENED;
}

static cJSON *read_note(const char *segment, char *bytes)
{
    char path[PATH_BYTES];
    struct stat status;
    ssize_t size = -1;

    if (!control_sibling(segment, ".win", path, sizeof(path)))
        return NULL;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        size = read(file, bytes, NOTE_BYTES);
    close(file);
    return size > 0 && size < (ssize_t)NOTE_BYTES
               ? cJSON_ParseWithLength(bytes, (size_t)size)
               : NULL;
}

void windows_read_notes(struct windows *windows, const struct status_session *session,
                        char *bytes)
{
    for (uint32_t i = 0; i < session->process_count; i++) {
        const struct status_process *process = &session->processes[i];
        const cJSON *note;
        cJSON *document;
        uint32_t taken = 0;

        if (process->segment_path == NULL ||
            strlen(process->segment_path) >= PATH_BYTES)
            continue;
        document = read_note(process->segment_path, bytes);
        if (document == NULL)
            continue;
        pthread_mutex_lock(&windows->lock);
        cJSON_ArrayForEach(note, cJSON_GetObjectItemCaseSensitive(document, "windows"))
        {
            if (taken++ < 16)
                take_note(windows, note, session, process);
        }
        pthread_mutex_unlock(&windows->lock);
        cJSON_Delete(document);
    }
}

/* ---- the traces of windows, opened as sessions -------------------------------------- */

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
static void load_trace(struct windows *windows, struct row *row)
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
                   *added.result.error != '\0' ? added.result.error : strerror(-error));
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

/* Opens the traces of windows that are done, oldest first. */
static void open_traces(struct windows *windows)
{
    struct row copy;

    while (next_trace(windows, &copy)) {
        struct row *row;

        load_trace(windows, &copy);
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
    open_traces(windows);
}

/* ---- listing ----------------------------------------------------------------------------- */

static cJSON *row_json(const struct row *row)
{
    cJSON *document = row->numbers != NULL ? cJSON_Duplicate(row->numbers, true)
                                           : cJSON_CreateObject();

    json_text(document, "id", row->id);
    json_text(document, "session", row->session);
    json_integer(document, "rank", row->rank < 0 ? NOT_KNOWN : row->rank);
    json_count(document, "pid", row->pid);
    json_text(document, "state", states[row->state]);
    json_filled(document, "reason", row->reason);
    json_filled(document, "path", row->path);
    json_filled(document, "trace", row->trace);
    json_filled(document, "ended_by", row->ended_by);
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
