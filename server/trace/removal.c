/* DELETE /api/traces/{id}: an upload goes, with its session. Files of the command line and
 * those of a job's deep window are not this server's to delete. */
#include <errno.h>
#include <stdio.h>

#include "api/api.h"
#include "api/json.h"
#include "http/cache.h"
#include "http/http.h"
#include "trace/document.h"
#include "trace/upload.h"
#include "trace_files.h"

static void answer(struct http_call *call, const struct trace_file *file)
{
    cJSON *body = cJSON_CreateObject();

    json_text(body, "id", file->id);
    json_text(body, "name", file->name);
    json_count(body, "freed_bytes", file->bytes);
    document_answer(call, 200, body);
}

static void refuse(struct http_call *call, int error, const struct trace_file *file)
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

void removal_serve(struct http_call *call, struct api *api, struct cache *cache)
{
    struct trace_file file = {0};
    struct query query;
    int error;

    query_parse(&query, http_request(call)->query);
    (void)query_text(&query, "token"); /* judged before */
    if (!query_done(&query)) {
        http_refuse(call, 400, query.field, query.error);
        return;
    }
    error = trace_files_remove(api->files, http_request(call)->tail, &file);
    cache_forget(cache); /* before the client can know and ask */
    if (error == 0)
        answer(call, &file);
    else
        refuse(call, error, &file);
}
