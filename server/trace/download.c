/* GET /api/traces/{id}: the file as it came. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "http/http.h"
#include "trace/upload.h"
#include "trace_files.h"

#define PIECE_BYTES ((size_t)256 * 1024)

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

static void answer(struct http_call *call, int descriptor,
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

void download_serve(struct http_call *call, struct api *api)
{
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
    answer(call, descriptor, &file);
    trace_files_close(api->files, file.id, descriptor);
}
