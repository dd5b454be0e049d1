/* POST /api/level {budget_pct | level, record_steps}: asks the running probes. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "control/control.h"
#include "document/json.h"
#include "wire/segment.h"
#include "wire/words.h"

#define BURST_STEPS_MAX 1000

static bool read_level(const cJSON *item, struct control_change *change)
{
    if (!cJSON_IsString(item))
        return false;
    for (uint32_t level = 0; level < WIRE_LEVELS; level++) {
        if (strcmp(item->valuestring, wire_level_word(level)) != 0)
            continue;
        change->level = level;
        return true;
    }
    return false;
}

/* One member of the body; false and what it should be in *expected. */
static bool read_member(const cJSON *item, struct control_change *change,
                        const char **expected)
{
    if (strcmp(item->string, "level") == 0) {
        *expected = "expected auto, off, phases, ops, kernels or all";
        return read_level(item, change);
    }
    if (strcmp(item->string, "budget_pct") == 0) {
        *expected = "expected a number from 0 to 100";
        if (!api_in_range(item, 0, 100))
            return false;
        change->budget_ppm = (int64_t)nearbyint(item->valuedouble * 1e4);
        return true;
    }
    if (strcmp(item->string, "record_steps") == 0) {
        *expected = "expected an integer from 1 to 1000";
        if (!api_in_range(item, 1, BURST_STEPS_MAX))
            return false;
        change->burst_steps = (uint32_t)item->valuedouble;
        return true;
    }
    *expected = "unknown member";
    return false;
}

cJSON *api_level(struct api_call *call)
{
    struct control_change change = {.level = -1, .budget_ppm = -1};
    char reason[CONTROL_REASON_BYTES] = "";
    const char *expected;
    cJSON *body;
    int asked;

    if (!api_select_body(call))
        return api_refused(call);
    for (const cJSON *item = call->body->child; item != NULL; item = item->next) {
        if (!api_is_selection(item->string) && !read_member(item, &change, &expected))
            return api_error(call, 400, item->string, expected);
    }
    if (change.level < 0 && change.budget_ppm < 0 && change.burst_steps == 0)
        return api_error(call, 400, "level",
                         "expected level, budget_pct or record_steps");
    asked = control_ask(call->api->store, &call->selection, &change, reason);
    if (asked == -ENOENT)
        return api_error(call, 404, "session", reason);
    if (asked < 0)
        return api_error(call, 409, NULL, reason);
    body = cJSON_CreateObject();
    json_count(body, "asked", (uint64_t)asked);
    return body;
}
