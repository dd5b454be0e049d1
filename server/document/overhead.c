/* What looking costs. */
#include <math.h>

#include "document/document.h"
#include "document/json.h"
#include "query/status_query.h"
#include "wire/words.h"

static const char *state_name(enum wire_governor_state state)
{
    static const char *const names[] = {[WIRE_GOVERNOR_MEASURING] = "measuring",
                                        [WIRE_GOVERNOR_SETTLED] = "settled",
                                        [WIRE_GOVERNOR_NOTHING_FITS] = "nothing_fits",
                                        [WIRE_GOVERNOR_FIXED] = "fixed"};

    return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static cJSON *source_json(const struct status_capability *source)
{
    cJSON *part = cJSON_CreateObject();

    cJSON_AddStringToObject(part, "source", status_source_word(source->source));
    cJSON_AddStringToObject(part, "state", wire_source_state_word(source->state));
    json_text(part, "reason", source->reason);
    json_text(part, "detail", source->detail);
    json_share(part, "ns_per_event", source->cost_ns);
    json_share(part, "events_per_s", source->events_per_s);
    json_share(part, "pct", source->cost_ns * source->events_per_s / 1e9 * 100);
    json_count(part, "events", source->events);
    json_count(part, "lost_events", source->lost);
    return part;
}

cJSON *overhead_json(const struct overhead_answer *answer, double server_cpu_pct)
{
    cJSON *body = cJSON_CreateObject();

    json_head(body, &answer->head);
    json_share(body, "budget_pct", answer->budget_pct);
    json_share(body, "measured_pct", answer->measured_pct);
    if (isfinite(answer->ci95_low_pct) && isfinite(answer->ci95_high_pct))
        cJSON_AddItemToObject(
            body, "ci95_pct",
            JSON_NUMBERS(answer->ci95_low_pct, answer->ci95_high_pct));
    else
        cJSON_AddNullToObject(body, "ci95_pct");
    json_share(body, "detail_pct", answer->detail_pct);
    json_share(body, "burst_pct", answer->burst_pct);
    json_share(body, "fixed_pct", answer->fixed_pct);
    json_share(body, "server_cpu_pct", server_cpu_pct);
    json_share(body, "recorded_share", answer->recorded_share);
    json_share(body, "phases_share", answer->phases_share);
    cJSON_AddStringToObject(body, "level", wire_level_word(answer->level));
    cJSON_AddStringToObject(body, "state", state_name(answer->state));
    json_count(body, "experiment_recorded_steps", answer->recorded_steps);
    json_count(body, "experiment_control_steps", answer->control_steps);
    json_integer(body, "experiment_steps_needed",
                 answer->steps_needed == 0 ? NOT_KNOWN : (int64_t)answer->steps_needed);
    JSON_LIST(body, "sources", answer->sources, answer->source_count, source_json);
    return body;
}
