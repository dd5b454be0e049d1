/* The trace files that are sessions. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "document/analysis.h"
#include "document/json.h"
#include "files/trace_files.h"
#include "query/status_query.h"

/* Newest first; a file whose session made room for others is not shown any more. */
static void add_files(cJSON *list, const struct trace_file *files, size_t count,
                      const struct status_answer *status)
{
    for (size_t i = count; i-- > 0;) {
        const struct trace_file *file = &files[i];
        const struct status_session *session =
            file->is_unread ? NULL : status_session_find(status, file->session);
        cJSON *row;

        if (session == NULL && !file->is_unread)
            continue;
        row = cJSON_CreateObject();
        json_text(row, "id", file->id);
        json_text(row, "session", file->is_unread ? NULL : file->session);
        json_text(row, "name", file->name);
        json_text(row, "error", file->is_unread ? file->result.error : NULL);
        cJSON_AddItemToArray(list, row);
        if (session == NULL)
            continue;
        json_count(row, "bytes", file->bytes);
        json_count(row, "steps", session->steps);
        json_text(row, "steps_from",
                  session->steps == 0 ? NULL : analysis_steps_from(&file->result));
        json_text(row, "rank_from", file_rank_text(file->result.rank_from));
        json_count(row, "events", file->events);
        json_count(row, "skipped", file->skipped);
        cJSON_AddItemToObject(row, "reasons", analysis_reasons_json(&file->result));
        cJSON_AddItemToObject(row, "incomplete",
                              analysis_incomplete_json(&file->result));
        cJSON_AddBoolToObject(row, "uploaded", file->uploaded && !file->is_window);
        cJSON_AddBoolToObject(row, "window", file->is_window);
    }
}

cJSON *api_traces(struct api_call *call)
{
    struct trace_files *files = call->api->files;
    struct selection everybody = {.rank = SELECT_ANY};
    struct status_answer status;
    struct trace_file *list;
    cJSON *body, *rows;

    if (!api_select(call))
        return api_refused(call);
    list = calloc(trace_files_most(files), sizeof(*list));
    if (list == NULL)
        return NULL;
    body = cJSON_CreateObject();
    rows = cJSON_AddArrayToObject(body, "traces");
    if (status_query(call->api->store, &everybody, &status) == 0)
        add_files(rows, list, trace_files_list(files, list, trace_files_most(files)),
                  &status);
    answer_free(&status.head);
    free(list);
    json_count(body, "upload_max_bytes", trace_files_upload_max(files));
    if (cJSON_GetArraySize(rows) == 0)
        json_text(body, "reason", "no trace file is open");
    return body;
}
