#include "files/trace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "document/analysis.h"
#include "files/reading.h"
#include "ingest/file/file.h"

struct entry {
    struct trace_file file;
    const char *path; /* borrowed; NULL: uploaded */
    int descriptor;   /* of an upload; else -1 */
    uint32_t readers; /* that opened it and have not closed it */
    /* Of an upload: all that it was read into, that of `file` among them; owned. */
    char (*sessions)[FILE_SESSION_BYTES];
    uint32_t session_count;
};

struct trace_files {
    struct store *store;
    uint64_t upload_bytes_max;
    pthread_mutex_t lock;    /* guards what follows */
    atomic_bool ending;      /* relaxed: nothing is handed over with it */
    pthread_mutex_t reading; /* one file is read at a time: memory is bounded */
    struct entry *entries;   /* served ones first, then uploads, oldest first */
    size_t count, capacity;
    uint32_t under_way;
};

struct trace_files *trace_files_new(struct store *store, size_t served,
                                    uint64_t upload_bytes_max)
{
    struct trace_files *files = calloc(1, sizeof(*files));

    if (files == NULL)
        return NULL;
    files->store = store;
    files->upload_bytes_max = upload_bytes_max;
    files->capacity = served + TRACE_FILES_UPLOADS;
    files->entries = calloc(files->capacity, sizeof(*files->entries));
    if (files->entries == NULL) {
        free(files);
        return NULL;
    }
    pthread_mutex_init(&files->lock, NULL);
    pthread_mutex_init(&files->reading, NULL);
    return files;
}

void trace_files_free(struct trace_files *files)
{
    if (files == NULL)
        return;
    for (size_t i = 0; i < files->count; i++) {
        if (files->entries[i].descriptor >= 0)
            close(files->entries[i].descriptor);
        free(files->entries[i].sessions);
    }
    pthread_mutex_destroy(&files->reading);
    pthread_mutex_destroy(&files->lock);
    free(files->entries);
    free(files);
}

uint64_t trace_files_upload_max(const struct trace_files *files)
{
    return files->upload_bytes_max;
}

size_t trace_files_most(const struct trace_files *files)
{
    return files->capacity;
}

void trace_files_name(const char *text, char name[TRACE_FILES_NAME])
{
    size_t size = 0;

    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '/' || *c == '\\')
            text = c + 1;
    }
    text += strspn(text, ".");
    for (; *text != '\0' && size < TRACE_FILES_NAME - 1; text++)
        name[size++] = strchr(TRACE_FILES_PLAIN, *text) != NULL ? *text : '_';
    name[size] = '\0';
    if (size == 0)
        (void)snprintf(name, TRACE_FILES_NAME, "trace.json");
}

static void describe(struct trace_file *file, const struct file_result *result,
                     const char *name)
{
    *file = (struct trace_file){.result = *result,
                                .bytes = result->file_bytes,
                                .events = result->events,
                                .skipped = analysis_skipped(result),
                                .is_gzip = result->is_gzip};
    (void)snprintf(file->session, sizeof(file->session), "%s", result->session);
    (void)snprintf(file->id, sizeof(file->id), "%s", result->session);
    trace_files_name(name, file->name);
}

/* One more entry of the command line, besides the room of uploads. */
static bool make_room(struct trace_files *files)
{
    size_t capacity = files->capacity + 1;
    struct entry *entries;

    if (files->count < files->capacity - TRACE_FILES_UPLOADS)
        return true;
    entries = realloc(files->entries, capacity * sizeof(*entries));
    if (entries == NULL)
        return false;
    files->entries = entries;
    files->capacity = capacity;
    return true;
}

void trace_files_serve(struct trace_files *files, const char *path,
                       const struct file_result *result, int error)
{
    struct entry entry = {.path = path, .descriptor = -1};
    uint32_t ranks = 1;

    describe(&entry.file, result, result->name);
    if (strncmp(result->name, path, strlen(path)) == 0 &&
        result->name[strlen(path)] == '/')
        entry.path = NULL; /* a member of an archive: no file to be given out */
    entry.file.is_unread = error != 0;
    if (entry.file.is_unread && *entry.file.result.error == '\0')
        (void)snprintf(entry.file.result.error, sizeof(entry.file.result.error), "%s",
                       strerror(-error));
    pthread_mutex_lock(&files->lock);
    for (size_t i = 0; i < files->count; i++)
        ranks += strcmp(files->entries[i].file.session, result->session) == 0;
    if (ranks > 1)
        (void)snprintf(entry.file.id, sizeof(entry.file.id), "%s.%" PRIu32,
                       result->session, ranks);
    if (make_room(files))
        files->entries[files->count++] = entry;
    pthread_mutex_unlock(&files->lock);
}

bool trace_files_begin(struct trace_files *files)
{
    bool may;

    pthread_mutex_lock(&files->lock);
    may = files->under_way < TRACE_FILES_AT_ONCE;
    files->under_way += may;
    pthread_mutex_unlock(&files->lock);
    return may;
}

void trace_files_end(struct trace_files *files)
{
    pthread_mutex_lock(&files->lock);
    files->under_way--;
    pthread_mutex_unlock(&files->lock);
}

/* ---- reading an upload ---------------------------------------------------------------- */

/* Until the server ends, or whoever asked is gone. */
struct wish {
    const struct trace_files *files;
    const struct reading_wish *asker; /* NULL: nobody in particular */
};

static bool is_gone(void *user)
{
    const struct wish *wish = user;

    return atomic_load_explicit(&wish->files->ending, memory_order_relaxed) ||
           (wish->asker != NULL && wish->asker->is_gone(wish->asker->user));
}

/* The traces of one upload: what the first says, and the counts of all. */
struct upload {
    struct file_result result;
    uint64_t events, skipped;
    bool any;
    char (*sessions)[FILE_SESSION_BYTES];
    uint32_t session_count;
    bool out_of_memory;
};

static void note_session(struct upload *upload, const char *session)
{
    for (uint32_t i = 0; i < upload->session_count; i++)
        if (strcmp(upload->sessions[i], session) == 0)
            return;
    void *grown = realloc(upload->sessions,
                          (upload->session_count + 1) * sizeof(*upload->sessions));

    upload->out_of_memory |= grown == NULL;
    if (grown == NULL)
        return;
    upload->sessions = grown;
    (void)snprintf(upload->sessions[upload->session_count++], FILE_SESSION_BYTES, "%s",
                   session);
}

static void take_part(void *user, const struct file_result *result, int error)
{
    struct upload *upload = user;

    if (!upload->any)
        upload->result = *result;
    if (error != 0)
        return;
    upload->any = true;
    note_session(upload, result->session);
    upload->events += result->events;
    upload->skipped += analysis_skipped(result);
}

static int read_apart(struct trace_files *files, const struct file_request *request,
                      struct upload *upload, const struct reading_wish *asker)
{
    struct wish wish = {files, asker};
    int error;

    pthread_mutex_lock(&files->reading);
    error = reading_run(files->store, request, take_part, upload,
                        &(struct reading_wish){is_gone, &wish});
    pthread_mutex_unlock(&files->reading);
    return error;
}

void trace_files_end_reading(struct trace_files *files)
{
    atomic_store_explicit(&files->ending, true, memory_order_relaxed);
}

static void forget_sessions(struct trace_files *files,
                            char (*sessions)[FILE_SESSION_BYTES], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        file_forget(files->store, sessions[i]);
}

/* The lock is held; the sessions stay. */
static void take_out(struct trace_files *files, struct entry *entry)
{
    size_t behind = (size_t)(&files->entries[files->count] - entry) - 1;

    close(entry->descriptor);
    files->count--;
    memmove(entry, entry + 1, behind * sizeof(*entry));
}

/* The oldest upload goes; the lock is held. False when there is none. */
static bool forget_oldest(struct trace_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        struct entry *oldest = &files->entries[i];

        if (!oldest->file.uploaded)
            continue;
        struct entry gone = *oldest;

        take_out(files, oldest);
        forget_sessions(files, gone.sessions, gone.session_count);
        free(gone.sessions);
        return true;
    }
    return false;
}

/* With one more upload, of so many bytes; the lock is held. */
static bool has_room(const struct trace_files *files, uint64_t bytes)
{
    uint32_t uploads = 1;

    for (size_t i = 0; i < files->count; i++) {
        uploads += files->entries[i].file.uploaded;
        bytes += files->entries[i].file.uploaded ? files->entries[i].file.bytes : 0;
    }
    return uploads <= TRACE_FILES_UPLOADS && bytes <= files->upload_bytes_max;
}

static void keep(struct trace_files *files, const struct entry *entry)
{
    pthread_mutex_lock(&files->lock);
    while (!has_room(files, entry->file.bytes) && forget_oldest(files)) {
    }
    files->entries[files->count++] = *entry;
    pthread_mutex_unlock(&files->lock);
}

int trace_files_add(struct trace_files *files, const char *name, int descriptor,
                    const struct reading_wish *asker, struct trace_file *added)
{
    struct entry entry = {.descriptor = descriptor};
    char path[40], session[16];
    uint64_t random = 0;
    struct file_request request = {.path = path,
                                   .session = session,
                                   .name = name,
                                   .groups = FILE_GROUPS_ALL,
                                   .twins_apart = true};
    struct upload upload = {.result = {.rank = -1}};
    struct stat status;
    int error;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random) ||
        fstat(descriptor, &status) != 0)
        return -EIO;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    (void)snprintf(session, sizeof(session), "t-%012" PRIx64, random >> 16);
    error = read_apart(files, &request, &upload, asker);
    added->result = upload.result;
    if (error == 0 && upload.out_of_memory) {
        forget_sessions(files, upload.sessions, upload.session_count);
        error = -ENOMEM;
    }
    if (error != 0) {
        free(upload.sessions);
        return error;
    }
    entry.sessions = upload.sessions;
    entry.session_count = upload.session_count;
    describe(&entry.file, &added->result, name);
    entry.file.events = upload.events;
    entry.file.skipped = upload.skipped;
    entry.file.bytes = (uint64_t)status.st_size;
    entry.file.uploaded = true;
    entry.file.is_window = added->is_window;
    keep(files, &entry);
    *added = entry.file;
    return 0;
}

/* ---- who asks ------------------------------------------------------------------------- */

size_t trace_files_list(struct trace_files *files, struct trace_file *list, size_t max)
{
    size_t count;

    pthread_mutex_lock(&files->lock);
    count = files->count < max ? files->count : max;
    for (size_t i = 0; i < count; i++)
        list[i] = files->entries[i].file;
    pthread_mutex_unlock(&files->lock);
    return count;
}

/* A file of the command line may be another by now, or a pipe that was read. */
static int open_path(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;

    if (descriptor < 0)
        return -ENOENT;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        return descriptor;
    close(descriptor);
    return -ENOENT;
}

/* The lock is held; NULL when there is none. */
static struct entry *find(struct trace_files *files, const char *id)
{
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->entries[i].file.id, id) == 0)
            return &files->entries[i];
    }
    return NULL;
}

int trace_files_open(struct trace_files *files, const char *id, struct trace_file *file)
{
    int descriptor = -ENOENT;
    struct entry *entry;

    pthread_mutex_lock(&files->lock);
    entry = find(files, id);
    if (entry != NULL) {
        *file = entry->file;
        descriptor = entry->path != NULL ? open_path(entry->path)
                                         : fcntl(entry->descriptor, F_DUPFD_CLOEXEC, 0);
        entry->readers += descriptor >= 0;
    }
    pthread_mutex_unlock(&files->lock);
    return descriptor < 0 ? -ENOENT : descriptor;
}

void trace_files_close(struct trace_files *files, const char *id, int descriptor)
{
    struct entry *entry;

    close(descriptor);
    pthread_mutex_lock(&files->lock);
    entry = find(files, id); /* a newer file may have taken its room */
    if (entry != NULL)
        entry->readers--;
    pthread_mutex_unlock(&files->lock);
}

int trace_files_remove(struct trace_files *files, const char *id,
                       struct trace_file *file)
{
    struct entry *entry, gone = {0};
    int error = 0;

    pthread_mutex_lock(&files->lock);
    entry = find(files, id);
    if (entry == NULL) {
        pthread_mutex_unlock(&files->lock);
        return -ENOENT;
    }
    *file = entry->file;
    if (!file->uploaded || file->is_window) {
        error = -EPERM;
    } else if (entry->readers > 0) {
        error = -EBUSY;
    } else {
        gone = *entry;
        take_out(files, entry);
    }
    pthread_mutex_unlock(&files->lock);
    /* Waits for who reads their tables. */
    forget_sessions(files, gone.sessions, gone.session_count);
    free(gone.sessions);
    return error;
}
