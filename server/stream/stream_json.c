#include "stream/stream_json.h"

#include <math.h>
#include <string.h>

#include "document/document.h"
#include "document/json.h"
#include "query/bottlenecks_query.h"
#include "query/status_query.h"

cJSON *stream_status_json(const struct status_brief *brief)
{
    cJSON *body = cJSON_CreateObject();

    bool known = brief->head.session[0] != '\0';

    json_text(body, "session", known ? brief->head.session : NULL);
    json_integer(body, "rank", brief->head.rank < 0 ? NOT_KNOWN : brief->head.rank);
    if (known)
        cJSON_AddStringToObject(body, "state", status_state_word(brief->state));
    else
        cJSON_AddNullToObject(body, "state");
    json_count(body, "steps", brief->steps);
    json_ms(body, "last_event_age_ms", brief->last_event_age_ns);
    json_stamp(body, "now_ms", brief->head.now_ns);
    json_count(body, "lost_events", brief->head.lost_events);
    json_count(body, "rev", brief->head.rev);
    if (!known)
        json_forget(body);
    return body;
}

/* The first of them, without evidence. */
static void keep_first(cJSON *findings)
{
    while (cJSON_GetArraySize(findings) > STREAM_FINDINGS)
        cJSON_DeleteItemFromArray(findings, STREAM_FINDINGS);
    for (int i = 0; i < cJSON_GetArraySize(findings); i++)
        cJSON_DeleteItemFromObject(cJSON_GetArrayItem(findings, i), "evidence");
}

cJSON *stream_bottlenecks_json(const struct bottlenecks_answer *answer,
                               const struct judgement *judgement)
{
    cJSON *body = bottlenecks_judged_json(answer, judgement);

    keep_first(cJSON_GetObjectItem(body, "findings"));
    keep_first(cJSON_GetObjectItem(body, "fixed"));
    /* Whoever shows them asks for the whole. */
    cJSON_DeleteItemFromObject(body, "dismissed");
    cJSON_DeleteItemFromObject(body, "top_cpu_ops");
    cJSON_DeleteItemFromObject(body, "top_cuda_ops");
    return body;
}

static bool is_empty(const char *text)
{
    return text == NULL || *text == '\0';
}

static cJSON *row_json(const struct op_row *row)
{
    cJSON *op = cJSON_CreateObject();

    json_text_cut(op, "name", row->name, STREAM_NAME_BYTES);
    if (row->kind != NULL && strcmp(row->kind, "kernel") == 0)
        json_text_cut(op, "short_name",
                      is_empty(row->short_name) ? NULL : row->short_name,
                      STREAM_SHORT_BYTES);
    json_text(op, "kind", row->kind);
    json_number(op, "count", row->count);
    json_ms(op, "self_ms", row->self_ns);
    json_ms(op, "per_step_ms", row->per_step_ns);
    json_share(op, "per_step_count", row->per_step_count);
    json_us(op, "mean_us", row->mean_ns);
    json_us(op, "p95_us", row->p95_ns);
    json_us(op, "max_us", row->max_ns);
    json_share(op, "share", row->share);
    json_share(op, "error_pct", row->error_pct);
    return op;
}

static void add_rows(cJSON *body, const char *key, const struct ops_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(body, key);

    for (uint32_t i = 0; i < answer->row_count && i < STREAM_OPS; i++)
        cJSON_AddItemToArray(list, row_json(&answer->rows[i]));
}

cJSON *stream_ops_json(const struct ops_answer *cpu, const struct ops_answer *cuda)
{
    cJSON *body = cJSON_CreateObject();

    json_count(body, "steps", cpu->head.steps);
    json_count(body, "recorded_steps", cpu->head.recorded_steps);
    json_count(body, "rev", cpu->head.rev);
    json_count(body, "total_cpu_ops", cpu->total_ops);
    json_count(body, "total_cuda_ops", cuda->total_ops);
    add_rows(body, "cpu", cpu);
    add_rows(body, "cuda", cuda);
    return body;
}

/* Shortest and longest of rows `from` to `to`, in their order. */
static void add_extremes(cJSON *list, const struct steps_answer *answer, uint32_t from,
                         uint32_t to)
{
    uint32_t low = from, high = from;

    for (uint32_t i = from; i < to; i++) {
        if (answer->rows[i].duration_ns < answer->rows[low].duration_ns)
            low = i;
        if (answer->rows[i].duration_ns > answer->rows[high].duration_ns)
            high = i;
    }
    cJSON_AddItemToArray(list, step_json(&answer->rows[low < high ? low : high]));
    if (low != high)
        cJSON_AddItemToArray(list, step_json(&answer->rows[low < high ? high : low]));
}

/* Of all rows: the ones that are sent are extremes. */
static void add_mean(cJSON *body, const struct steps_answer *answer)
{
    struct step_mean mean = {0};
    uint32_t known[EVENT_PHASES] = {0};

    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct step_row *row = &answer->rows[i];

        if ((row->flags & EVENT_STEP_VALIDATION) != 0)
            continue;
        mean.time_ns = row->start_ns;
        mean.steps++;
        mean.duration_ns += row->duration_ns;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
            if (isnan(row->phase_ns[phase]))
                continue;
            mean.phase_ns[phase] += row->phase_ns[phase];
            known[phase]++;
        }
    }
    mean.duration_ns /= (double)mean.steps;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        mean.phase_ns[phase] =
            known[phase] == 0 ? (double)NAN : mean.phase_ns[phase] / known[phase];
    add_steps_means_json(body, &mean, mean.steps > 0 ? 1 : 0);
}

cJSON *stream_steps_json(const struct steps_answer *answer)
{
    cJSON *body = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(body, "steps");
    uint32_t count = answer->row_count, buckets = STREAM_STEPS_MAX / 2;
    bool decimated = count > STREAM_STEPS_MAX;

    for (uint32_t i = 0; !decimated && i < count; i++)
        cJSON_AddItemToArray(list, step_json(&answer->rows[i]));
    for (uint32_t i = 0; decimated && i < buckets; i++)
        add_extremes(list, answer, i * count / buckets, (i + 1) * count / buckets);
    cJSON_AddBoolToObject(body, "decimated", decimated);
    if (decimated)
        add_mean(body, answer);
    json_count(body, "rev", answer->head.rev);
    return body;
}
