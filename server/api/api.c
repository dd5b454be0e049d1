#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "document/json.h"
#include "query/steps_query.h"
#include "query/window.h"

bool api_select_points(struct api_call *call, uint32_t *points)
{
    int64_t asked = 600;

    (void)query_number(&call->query, "points", 2, STEPS_POINTS_MAX, &asked);
    if (!api_select(call))
        return false;
    *points = (uint32_t)asked;
    return true;
}

bool api_select_trace(struct api_call *call, bool all_ranks)
{
    struct selection *selection = &call->selection;
    const char *session = query_text(&call->query, "session");
    int64_t number;

    *selection = (struct selection){.rank = SELECT_ANY};
    if (session != NULL && strlen(session) >= sizeof(selection->session))
        query_refuse(&call->query, "session", "no session has a name that long");
    else if (session != NULL)
        memcpy(selection->session, session, strlen(session) + 1);
    if (!all_ranks && query_number(&call->query, "rank", 0, INT32_MAX, &number))
        selection->rank = (int32_t)number;
    if (query_number(&call->query, "pid", 1, INT32_MAX, &number))
        selection->pid = (uint32_t)number;
    return query_done(&call->query);
}

bool api_select(struct api_call *call)
{
    const char *text = query_text(&call->query, "window");
    const char *reason;
    struct window window;

    if (window_parse(text, &window, &reason) != 0)
        query_refuse(&call->query, "window", "%s", reason);
    if (!api_select_trace(call, false))
        return false;
    call->selection.window = window;
    return true;
}

bool api_is_selection(const char *member)
{
    return strcmp(member, "session") == 0 || strcmp(member, "rank") == 0 ||
           strcmp(member, "pid") == 0;
}

bool api_in_range(const cJSON *item, double low, double high)
{
    return cJSON_IsNumber(item) && item->valuedouble >= low &&
           item->valuedouble <= high;
}

static void select_number(struct api_call *call, const char *key, int32_t low,
                          int64_t *number)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(call->body, key);

    if (item == NULL || cJSON_IsNull(item))
        return;
    if (!api_in_range(item, low, INT32_MAX) ||
        item->valuedouble != (double)(int64_t)item->valuedouble)
        query_refuse(&call->query, key, "expected an integer from %d to %d", low,
                     INT32_MAX);
    else
        *number = (int64_t)item->valuedouble;
}

bool api_select_body(struct api_call *call)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(call->body, "session");
    struct selection *selection = &call->selection;
    int64_t rank, pid;

    if (!api_select(call))
        return false;
    rank = selection->rank;
    pid = selection->pid;
    if (cJSON_IsString(item) && strlen(item->valuestring) < sizeof(selection->session))
        memcpy(selection->session, item->valuestring, strlen(item->valuestring) + 1);
    else if (item != NULL && !cJSON_IsNull(item))
        query_refuse(&call->query, "session", "expected the name of a session");
    select_number(call, "rank", 0, &rank);
    select_number(call, "pid", 1, &pid);
    selection->rank = (int32_t)rank;
    selection->pid = (uint32_t)pid;
    return query_done(&call->query);
}

cJSON *api_error(struct api_call *call, int status, const char *field,
                 const char *message)
{
    cJSON *body = cJSON_CreateObject();

    call->status = status;
    json_text(body, "error", message);
    if (field != NULL && *field != '\0')
        json_text(body, "field", field);
    return body;
}

cJSON *api_refused(struct api_call *call)
{
    return api_error(call, 400, call->query.field, call->query.error);
}

bool api_answers(const struct api_call *call, int error)
{
    const struct selection *selection = &call->selection;

    return error == 0 || (error == -ENOENT && selection->session[0] == '\0' &&
                          selection->rank == SELECT_ANY && selection->pid == 0);
}

cJSON *api_finish(struct api_call *call, int error, struct answer *head,
                  cJSON *document)
{
    const char *reason = head->reason != NULL ? head->reason : "";

    if (document != NULL && error != 0)
        json_forget(document);
    else if (error == -ENOENT)
        document = api_error(call, 404,
                             call->selection.session[0] != '\0' ? "session" : "rank",
                             *reason != '\0' ? reason : "no such session or rank");
    else if (error == -EINVAL)
        document =
            api_error(call, 400, "window", *reason != '\0' ? reason : "out of bounds");
    answer_free(head);
    return document;
}
