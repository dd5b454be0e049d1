/* A row per step, statistics, slow steps, markers, epochs. */
#include "document/document.h"
#include "document/json.h"
#include "query/steps_query.h"
#include "wire/words.h"

/* A trace has about four times the bytes of the events in it. */
#define TRACE_BYTES_PER_RAW_BYTE 4u

static const char *const phase_keys[EVENT_PHASES] = {"data_ms", "forward_ms",
                                                     "backward_ms", "optimizer_ms"};

cJSON *step_json(const struct step_row *row)
{
    cJSON *step = cJSON_CreateObject();

    json_integer(step, "number", row->number);
    json_integer(step, "epoch", row->epoch == 0 ? NOT_KNOWN : (int64_t)row->epoch);
    json_stamp(step, "start_ms", row->start_ns);
    json_ms(step, "duration_ms", row->duration_ns);
    for (int i = 0; i < EVENT_PHASES; i++)
        json_ms(step, phase_keys[i], row->phase_ns[i]);
    json_ms(step, "other_ms", row->other_ns);
    cJSON_AddBoolToObject(step, "validation",
                          (row->flags & EVENT_STEP_VALIDATION) != 0);
    cJSON_AddStringToObject(step, "recorded", step_recorded_name(row->flags));
    if ((row->flags & EVENT_STEP_TAGGED) != 0)
        cJSON_AddTrueToObject(step, "tagged");
    if ((row->flags & EVENT_STEP_WINDOW) != 0)
        cJSON_AddTrueToObject(step, "window");
    if (row->slow)
        cJSON_AddTrueToObject(step, "slow");
    return step;
}

/* The 95 % intervals of what a gate may ask for; nulls where too few steps say nothing. */
static void add_intervals(cJSON *body, const struct steps_summary *summary)
{
    cJSON *part = cJSON_AddObjectToObject(body, "ci95_ms");
    double half = summary->mean_ns * summary->error_pct / 100;

    json_interval_ms(part, "step", summary->mean_ns - half, summary->mean_ns + half);
    json_interval_ms(part, "step.p95", summary->p95_low_ns, summary->p95_high_ns);
    for (uint32_t i = 0; i < EVENT_PHASES; i++)
        json_interval_ms(part, wire_phase_word(i),
                         summary->phase_ns[i] - summary->phase_error_ns[i],
                         summary->phase_ns[i] + summary->phase_error_ns[i]);
    json_interval_ms(part, "other", summary->other_ns - summary->other_error_ns,
                     summary->other_ns + summary->other_error_ns);
}

cJSON *steps_summary_json(const struct steps_summary *summary)
{
    cJSON *part = cJSON_CreateObject();

    json_count(part, "count", summary->count);
    json_ms(part, "mean_ms", summary->mean_ns);
    json_ms(part, "p50_ms", summary->p50_ns);
    json_ms(part, "p95_ms", summary->p95_ns);
    json_ms(part, "p99_ms", summary->p99_ns);
    json_ms(part, "std_ms", summary->std_ns);
    json_ms(part, "min_ms", summary->min_ns);
    json_ms(part, "max_ms", summary->max_ns);
    json_share(part, "error_pct", summary->error_pct);
    for (int i = 0; i < EVENT_PHASES; i++)
        json_ms(part, phase_keys[i], summary->phase_ns[i]);
    json_ms(part, "other_ms", summary->other_ns);
    json_share(part, "steps_per_s", summary->steps_per_s);
    json_share(part, "samples_per_s", summary->samples_per_s);
    add_intervals(part, summary);
    json_count(part, "recorded_steps", summary->recorded);
    json_count(part, "phase_steps", summary->phase_steps);
    json_count(part, "kernel_steps", summary->kernels);
    return part;
}

static cJSON *slow_json(const struct slow_step *slow)
{
    cJSON *step = cJSON_CreateObject();

    json_integer(step, "number", slow->number);
    json_stamp(step, "start_ms", slow->start_ns);
    json_ms(step, "duration_ms", slow->duration_ns);
    json_ms(step, "over_ms", slow->over_ns);
    json_text(step, "cause", slow->cause);
    json_ms(step, "age_ms", slow->age_ns);
    cJSON_AddStringToObject(step, "recorded", step_recorded_name(slow->flags));
    if (slow->remembered)
        json_count(step, "trace_bytes", slow->raw_bytes * TRACE_BYTES_PER_RAW_BYTE);
    else
        cJSON_AddNullToObject(step, "trace_bytes");
    return step;
}

static cJSON *marker_json(const struct step_marker *marker)
{
    cJSON *mark = cJSON_CreateObject();

    json_stamp(mark, "time_ms", marker->time_ns);
    json_text(mark, "kind", marker->kind);
    json_text(mark, "label", marker->label);
    json_ms(mark, "duration_ms", marker->duration_ns);
    return mark;
}

static cJSON *epoch_json(const struct epoch_row *row)
{
    cJSON *epoch = cJSON_CreateObject();

    json_count(epoch, "epoch", row->epoch);
    json_stamp(epoch, "start_ms", row->start_ns);
    json_stamp(epoch, "end_ms", row->end_ns);
    json_count(epoch, "steps", row->steps);
    json_ms(epoch, "mean_ms", row->mean_ns);
    return epoch;
}

void add_steps_means_json(cJSON *body, const struct step_mean *means, uint32_t count)
{
    static const char *const columns[] = {"time_ms",     "steps",      "duration_ms",
                                          "data_ms",     "forward_ms", "backward_ms",
                                          "optimizer_ms"};
    cJSON *part = cJSON_AddObjectToObject(body, "means"), *list;

    json_columns(part, columns, 3 + EVENT_PHASES);
    list = cJSON_AddArrayToObject(part, "points");
    for (uint32_t i = 0; i < count; i++) {
        double values[3 + EVENT_PHASES] = {json_rounded_ms((double)means[i].time_ns),
                                           (double)means[i].steps,
                                           json_rounded_ms(means[i].duration_ns)};

        for (int phase = 0; phase < EVENT_PHASES; phase++)
            values[3 + phase] = json_rounded_ms(means[i].phase_ns[phase]);
        cJSON_AddItemToArray(list, json_numbers(values, 3 + EVENT_PHASES));
    }
}

cJSON *steps_json(const struct steps_answer *answer)
{
    cJSON *body = cJSON_CreateObject(), *summary;

    json_head(body, &answer->head);
    JSON_LIST(body, "steps", answer->rows, answer->row_count, step_json);
    cJSON_AddBoolToObject(body, "decimated", answer->decimated);
    if (answer->decimated)
        add_steps_means_json(body, answer->means, answer->mean_count);
    summary = cJSON_AddObjectToObject(body, "summary");
    cJSON_AddItemToObject(summary, "train", steps_summary_json(&answer->train));
    cJSON_AddItemToObject(summary, "validation",
                          steps_summary_json(&answer->validation));
    if (answer->windows.count > 0)
        cJSON_AddItemToObject(summary, "windows", steps_summary_json(&answer->windows));
    json_ms(summary, "outside_ms", answer->outside_ns);
    JSON_LIST(body, "slow", answer->slow, answer->slow_count, slow_json);
    JSON_LIST(body, "markers", answer->markers, answer->marker_count, marker_json);
    JSON_LIST(body, "epochs", answer->epochs, answer->epoch_count, epoch_json);
    return body;
}
