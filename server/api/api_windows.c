/* GET /api/windows: deep windows and what became of them. POST: asks for one. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "document/json.h"
#include "query/status_query.h"
#include "windows/windows.h"
#include "wire/control.h"

#define STEPS_DEFAULT   10u
#define SECONDS_DEFAULT 60u
#define BYTES_DEFAULT   (UINT64_C(512) << 20)
#define BYTES_MAX       (UINT64_C(64) << 30)

cJSON *api_windows(struct api_call *call)
{
    cJSON *body, *rows;

    if (!api_select(call))
        return api_refused(call);
    body = cJSON_CreateObject();
    rows = cJSON_AddArrayToObject(body, "windows");
    windows_list(call->api->windows, call->selection.session, rows);
    if (cJSON_GetArraySize(rows) == 0)
        json_text(body, "reason", "no deep window was asked for");
    return body;
}

/* shapes, stacks, memory, modules: true or false. */
static bool read_switch(const cJSON *item, struct windows_wish *wish, bool *known)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } switches[] = {{"shapes", CONTROL_WINDOW_SHAPES},
                    {"stacks", CONTROL_WINDOW_STACKS},
                    {"memory", CONTROL_WINDOW_MEMORY},
                    {"modules", CONTROL_WINDOW_MODULES}};

    *known = false;
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        if (strcmp(item->string, switches[i].name) != 0)
            continue;
        *known = true;
        if (cJSON_IsTrue(item))
            wish->flags |= switches[i].flag;
        return cJSON_IsBool(item);
    }
    return false;
}

/* One member of the body; false and what it should be in *expected. */
static bool read_member(const cJSON *item, struct windows_wish *wish,
                        const char **expected)
{
    bool known, is_good = read_switch(item, wish, &known);

    *expected = known ? "expected true or false" : "unknown member";
    if (known)
        return is_good;
    if (strcmp(item->string, "steps") == 0) {
        *expected = "expected an integer from 1 to 1000";
        is_good = api_in_range(item, 1, CONTROL_WINDOW_STEPS_MAX);
        wish->steps = is_good ? (uint32_t)item->valuedouble : 0;
    } else if (strcmp(item->string, "max_seconds") == 0) {
        *expected = "expected an integer from 1 to 3600";
        is_good = api_in_range(item, 1, CONTROL_WINDOW_SECONDS_MAX);
        wish->seconds = is_good ? (uint32_t)item->valuedouble : 0;
    } else if (strcmp(item->string, "max_bytes") == 0) {
        *expected = "expected a number of bytes, 0 for no bound";
        is_good = api_in_range(item, 0, (double)BYTES_MAX);
        wish->bytes = is_good ? (uint64_t)item->valuedouble : 0;
    } else if (strcmp(item->string, "ranks") == 0) {
        *expected = "expected all, or rank in its place";
        is_good = cJSON_IsString(item) && strcmp(item->valuestring, "all") == 0;
        wish->all_ranks = is_good;
    }
    return is_good;
}

cJSON *api_windows_ask(struct api_call *call)
{
    struct windows_wish wish = {
        .steps = STEPS_DEFAULT, .seconds = SECONDS_DEFAULT, .bytes = BYTES_DEFAULT};
    char reason[WINDOWS_REASON_BYTES] = "", id[16];
    const char *expected;
    cJSON *body;
    int asked;

    if (!api_select_body(call))
        return api_refused(call);
    for (const cJSON *item = call->body->child; item != NULL; item = item->next) {
        if (!api_is_selection(item->string) && !read_member(item, &wish, &expected))
            return api_error(call, 400, item->string, expected);
    }
    asked = windows_ask(call->api->windows, &call->selection, &wish, id, reason);
    if (asked == -ENOENT)
        return api_error(call, 404, "session", reason);
    if (asked < 0)
        return api_error(call, 409, NULL, reason);
    body = cJSON_CreateObject();
    call->status = 202;
    json_text(body, "id", id);
    json_text(body, "state", "asked");
    json_count(body, "asked", (uint64_t)asked);
    return body;
}
