/* The notes that jobs leave beside their segments: foreign bytes to rows. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json.h"
#include "windows/inside.h"

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
    static const char *const states[] = {"asked", "running", "done", "failed"};
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

/* "<dir>/<random>.seg" to "<dir>/<random>.win", opened; -1. */
static int open_note(const char *segment)
{
    char path[PATH_BYTES];
    int length = (int)strlen(segment) - 4;

    if (length <= 0 || strcmp(segment + length, ".seg") != 0 ||
        snprintf(path, sizeof(path), "%.*s.win", length, segment) >= (int)sizeof(path))
        return -1;
    return open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static cJSON *read_note(const char *segment, char *bytes)
{
    int file = open_note(segment);
    struct stat status;
    ssize_t size = -1;

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
