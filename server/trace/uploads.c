/* Trace files over HTTP: uploaded, downloaded, removed.
 *
 * An upload goes to a file without a name, and that to a session: nothing is left behind
 * whatever ends it. Files of the command line and those of a job's deep window are not this
 * server's to delete. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/context.h"
#include "document/json.h"
#include "files/reading.h"
#include "files/trace_files.h"
#include "http/cache.h"
#include "http/http.h"
#include "ingest/file/file.h"
#include "trace/trace.h"

#define PIECE_BYTES ((size_t)256 * 1024)

/* A file in `folder` that has no name, or not for longer than it takes; -errno. */
static int open_nameless(const char *folder)
{
    char path[PATH_MAX];
    int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (descriptor >= 0)
        return descriptor;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -errno;
    if (snprintf(path, sizeof(path), "%s/upload-XXXXXX", folder) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    (void)unlink(path);
    return descriptor;
}

static int write_all(int descriptor, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(descriptor, data, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        data += written;
        size -= (size_t)written;
    }
    return 0;
}

static int receive(struct http_call *call, int descriptor)
{
    char *piece = malloc(PIECE_BYTES);
    ssize_t got = -ENOMEM;
    int error = 0;

    /* Full disks are known at once; where this is not supported, when they are. */
    if (http_request(call)->body_bytes > 0 &&
        fallocate(descriptor, 0, 0, (off_t)http_request(call)->body_bytes) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        error = -errno;
    while (piece != NULL && error == 0 &&
           (got = http_body_read(call, piece, PIECE_BYTES)) > 0)
        error = write_all(descriptor, piece, (size_t)got);
    free(piece);
    return error != 0 ? error : (int)got;
}

static void refuse(struct http_call *call, int error)
{
    if (error == -ENOSPC || error == -EDQUOT || error == -EFBIG)
        http_refuse(call, 507, NULL, "no space for the file in the state folder");
    else if (error == -ETIMEDOUT)
        http_refuse(call, 408, NULL, "the file came too slowly");
    else if (error == -ECONNABORTED)
        http_refuse(call, 400, NULL, "the file ended early");
    else if (error == -ENOMEM)
        http_refuse(call, 503, NULL, "out of memory");
    else
        http_refuse(call, 409, NULL, "no file can be written in the state folder");
}

static void answer(struct http_call *call, const struct trace_file *file)
{
    cJSON *body = cJSON_CreateObject();

    json_text(body, "id", file->id);
    json_text(body, "name", file->name);
    json_count(body, "bytes", file->bytes);
    json_text(body, "session", file->session);
    json_count(body, "events", file->events);
    json_count(body, "skipped", file->skipped);
    if (*file->result.error != '\0')
        json_text(body, "reason", file->result.error);
    document_answer(call, 201, body);
}

/* What became of it: -errno of the receiving, or of the reading. */
struct outcome {
    int received, read;
    struct trace_file file;
};

static bool is_gone(void *call)
{
    return http_is_gone(call);
}

static void take(struct http_call *call, struct api *api, const char *name,
                 struct outcome *outcome)
{
    const char *folder = api->state_dir;
    const struct reading_wish wish = {is_gone, call};
    int descriptor;

    (void)mkdir(folder, 0700); /* it is there, except before the first run */
    descriptor = open_nameless(folder);
    outcome->received = descriptor < 0 ? descriptor : receive(call, descriptor);
    if (outcome->received == 0)
        outcome->read =
            trace_files_add(api->files, name, descriptor, &wish, &outcome->file);
    if (descriptor >= 0 && (outcome->received != 0 || outcome->read != 0))
        close(descriptor);
}

/* The reader's sentences follow a name and a colon: some say of it that it "is empty". */
static void refuse_content(struct http_call *call, const char *sentence)
{
    char text[sizeof(((struct file_result *)NULL)->error) + 16];

    (void)snprintf(text, sizeof(text), "%s%s",
                   strncmp(sentence, "is ", 3) == 0 ? "the file " : "", sentence);
    http_refuse(call, 422, NULL, text);
}

static void tell(struct http_call *call, const struct outcome *outcome)
{
    if (outcome->received != 0)
        refuse(call, outcome->received);
    else if (outcome->read == 0)
        answer(call, &outcome->file);
    else if (outcome->read == -ECANCELED) /* heard by nobody, or the server ends */
        http_refuse(call, 503, NULL, "the reading was ended");
    else if (outcome->read == -ENOMEM || outcome->read == -EAGAIN)
        http_refuse(call, 503, NULL, "out of memory");
    else
        refuse_content(call, *outcome->file.result.error != '\0'
                                 ? outcome->file.result.error
                                 : strerror(-outcome->read));
}

/* Nothing was wrong, and no parameter but `token`, judged before, is left; else answers. */
static bool takes_query(struct http_call *call, struct query *query)
{
    (void)query_text(query, "token");
    if (query_done(query))
        return true;
    http_refuse(call, 400, query->field, query->error);
    return false;
}

void upload_serve(struct http_call *call, void *context)
{
    struct api *api = &((struct server_context *)context)->api;
    struct outcome outcome = {0};
    char name[TRACE_FILES_NAME];
    struct query query;
    const char *text;

    query_parse(&query, http_request(call)->query);
    text = query_text(&query, "name");
    if (!takes_query(call, &query))
        return;
    if (*api->state_dir == '\0') {
        http_refuse(call, 409, NULL, "there is no state folder to keep the file in");
        return;
    }
    trace_files_name(text != NULL ? text : "", name);
    if (!trace_files_begin(api->files)) {
        http_refuse(call, 503, NULL, "other files are being uploaded; try again");
        return;
    }
    take(call, api, name, &outcome);
    trace_files_end(api->files); /* before the client can know and come again */
    tell(call, &outcome);
}

/* ---- download ---- */

/* False when the client is gone or the file cannot be read: a cut answer is noticed. */
static bool send_file(struct http_call *call, int descriptor)
{
    char *piece = malloc(PIECE_BYTES);
    off_t at = 0;
    ssize_t got = -1;

    while (piece != NULL && (got = pread(descriptor, piece, PIECE_BYTES, at)) > 0) {
        if (!http_stream_write(call, piece, (size_t)got))
            break;
        at += got;
    }
    free(piece);
    return got == 0;
}

static void send_trace(struct http_call *call, int descriptor,
                       const struct trace_file *file)
{
    char headers[64 + TRACE_FILES_NAME];
    struct http_answer head = {.status = 200,
                               .type = file->is_gzip ? "application/gzip"
                                                     : "application/json",
                               .headers = headers,
                               .chunked = true};

    (void)snprintf(headers, sizeof(headers),
                   "Content-Disposition: attachment; filename=\"%s\"\r\n", file->name);
    if (http_request(call)->method == HTTP_HEAD)
        http_answer(call, &head);
    else if (http_stream_begin(call, &head) && send_file(call, descriptor))
        (void)http_stream_end(call);
}

void download_serve(struct http_call *call, void *context)
{
    struct api *api = &((struct server_context *)context)->api;
    struct trace_file file;
    struct query query;
    int descriptor;

    query_parse(&query, http_request(call)->query);
    if (!query_done(&query)) {
        http_refuse(call, 400, query.field, query.error);
        return;
    }
    descriptor = trace_files_open(api->files, http_request(call)->tail, &file);
    if (descriptor < 0) {
        http_refuse(call, 404, "id", "no trace file has this id");
        return;
    }
    send_trace(call, descriptor, &file);
    trace_files_close(api->files, file.id, descriptor);
}

/* ---- removal ---- */

static void answer_removed(struct http_call *call, const struct trace_file *file)
{
    cJSON *body = cJSON_CreateObject();

    json_text(body, "id", file->id);
    json_text(body, "name", file->name);
    json_count(body, "freed_bytes", file->bytes);
    document_answer(call, 200, body);
}

static void refuse_removal(struct http_call *call, int error,
                           const struct trace_file *file)
{
    char text[TRACE_FILES_NAME + 120];
    const char *why = "was given on the command line: it stays on disk, and is shown "
                      "until the server ends";

    if (error == -ENOENT) {
        http_refuse(call, 404, "id", "no trace file has this id");
        return;
    }
    if (error == -EBUSY)
        why = "is being downloaded: try again when that is over";
    else if (file->is_window)
        why = "is the window of a job, and goes when newer files need its room";
    (void)snprintf(text, sizeof(text), "%s %s", file->name, why);
    http_refuse(call, 409, "id", text);
}

void removal_serve(struct http_call *call, void *context)
{
    struct server_context *parts = context;
    struct trace_file file = {0};
    struct query query;
    int error;

    query_parse(&query, http_request(call)->query);
    if (!takes_query(call, &query))
        return;
    error = trace_files_remove(parts->api.files, http_request(call)->tail, &file);
    cache_forget(parts->cache); /* before the client can know and ask */
    if (error == 0)
        answer_removed(call, &file);
    else
        refuse_removal(call, error, &file);
}
