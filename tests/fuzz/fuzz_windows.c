/* The notes that jobs leave of their deep windows: any bytes beside a segment. Whatever they
 * say, the list of windows stays bounded, is JSON and UTF-8, and is the same when the same
 * note is read again. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "windows/inside.h"
#include "wire/utf8.h"

#define NOTED_MAX 16u

static char folder[64], segment[80], note[80];

static void clean(void)
{
    (void)unlink(note);
    (void)rmdir(folder);
}

static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(folder, sizeof(folder), "%s/trainglass-fuzz-XXXXXX", base);
    if (mkdtemp(folder) == NULL)
        abort();
    (void)snprintf(segment, sizeof(segment), "%.63s/a.seg", folder);
    (void)snprintf(note, sizeof(note), "%.63s/a.win", folder);
    (void)atexit(clean);
}

static void leave_note(const uint8_t *data, size_t size)
{
    int file = open(note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    close(file);
}

static char *list(struct windows *windows)
{
    cJSON *rows = cJSON_CreateArray();

    windows_list(windows, "", rows);
    char *text = cJSON_PrintUnformatted(rows);

    if (text == NULL || cJSON_GetArraySize(rows) != (int)windows->count)
        abort();
    cJSON_Delete(rows);
    return text;
}

static void check(const char *text, uint32_t count)
{
    cJSON *rows = cJSON_Parse(text);
    const cJSON *row;

    if (cJSON_GetArraySize(rows) != (int)count || count > NOTED_MAX)
        abort();
    for (const char *at = text; *at != '\0';) {
        uint32_t code;
        size_t length = utf8_decode((const unsigned char *)at, strlen(at), &code);

        if (length == 0)
            abort();
        at += length;
    }
    cJSON_ArrayForEach(row, rows)
    {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(row, "id"));

        if (id == NULL || strncmp(id, "w-", 2) != 0)
            abort();
    }
    cJSON_Delete(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char bytes[NOTE_BYTES];
    struct status_process process = {
        .pid = 7, .state = PROCESS_RUNNING, .segment_path = segment};
    struct status_session session = {
        .id = "s", .processes = &process, .process_count = 1};
    struct windows *windows = windows_new(NULL, NULL);

    if (folder[0] == '\0')
        prepare();
    if (windows == NULL)
        return 0;
    leave_note(data, size);
    windows_read_notes(windows, &session, bytes);
    char *once = list(windows);

    check(once, windows->count);
    windows_read_notes(windows, &session, bytes);
    char *twice = list(windows);

    if (strcmp(once, twice) != 0)
        abort();
    free(once);
    free(twice);
    windows_free(windows);
    return 0;
}
