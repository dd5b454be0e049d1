/* The ops that take the time. */
#include <math.h>
#include <string.h>

#include "document/document.h"
#include "document/json.h"
#include "query/ops_query.h"

static void add_interval(cJSON *op, const struct op_row *row)
{
    double low = row->per_step_ns - row->per_step_half_ns;

    if (isfinite(low))
        json_interval_ms(op, "per_step_ci95_ms", low,
                         row->per_step_ns + row->per_step_half_ns);
    else
        cJSON_AddNullToObject(op, "per_step_ci95_ms");
}

static void add_triple(cJSON *op, const char *key, const struct op_row *row,
                       const uint32_t numbers[3])
{
    cJSON_AddItemToObject(op, key,
                          row->launch.known
                              ? JSON_NUMBERS(numbers[0], numbers[1], numbers[2])
                              : cJSON_CreateNull());
}

/* Of kernels alone. */
static void add_kernel(cJSON *op, const struct op_row *row)
{
    const struct op_launch *launch = &row->launch;
    double unknown = (double)NAN;

    if (row->kind == NULL || strcmp(row->kind, "kernel") != 0)
        return;
    json_filled(op, "short_name", row->short_name);
    add_triple(op, "grid", row, launch->grid);
    add_triple(op, "block", row, launch->block);
    if (launch->known)
        cJSON_AddBoolToObject(op, "launch_varies", launch->varies);
    json_number(op, "registers", launch->known ? launch->registers : unknown);
    json_number(op, "shared_memory_bytes",
                launch->known ? launch->shared_bytes : unknown);
    json_share(op, "occupancy_pct", launch->occupancy_pct);
    if (row->family == KERNEL_GRAPH)
        cJSON_AddNullToObject(op, "tensor_cores");
    else
        cJSON_AddBoolToObject(op, "tensor_cores", row->tensor_cores);
}

/* Of ranges alone. */
static void add_range(cJSON *op, const struct op_row *row)
{
    if (row->kind == NULL || strcmp(row->kind, "range") != 0)
        return;
    json_count(op, "workers", row->workers);
    cJSON_AddBoolToObject(op, "watched", row->watched);
    json_ms(op, "validation_batch_ms", row->validation_batch_ns);
    json_share(op, "validation_share", row->validation_share);
}

static cJSON *op_json(const struct op_row *row)
{
    cJSON *op = cJSON_CreateObject();

    json_text(op, "name", row->name);
    json_text(op, "kind", row->kind);
    json_number(op, "count", row->count);
    json_ms(op, "total_ms", row->total_ns);
    json_ms(op, "self_ms", row->self_ns);
    json_ms(op, "per_step_ms", row->per_step_ns);
    add_interval(op, row);
    json_share(op, "per_step_count", row->per_step_count);
    json_ms(op, "device_total_ms", row->device_total_ns);
    json_ms(op, "device_self_ms", row->device_self_ns);
    json_number(op, "self_memory_bytes", row->host_bytes);
    json_number(op, "self_device_memory_bytes", row->device_bytes);
    json_number(op, "memory_bytes", row->host_total_bytes);
    json_number(op, "device_memory_bytes", row->device_total_bytes);
    json_us(op, "mean_us", row->mean_ns);
    json_us(op, "min_us", row->min_ns);
    json_us(op, "max_us", row->max_ns);
    json_us(op, "p50_us", row->p50_ns);
    json_us(op, "p95_us", row->p95_ns);
    json_us(op, "p99_us", row->p99_ns);
    json_share(op, "share", row->share);
    json_share(op, "error_pct", row->error_pct);
    json_count(op, "recorded_count", row->recorded_count);
    json_ms(op, "recorded_total_ms", (double)row->recorded_total_ns);
    add_kernel(op, row);
    add_range(op, row);
    return op;
}

cJSON *ops_list_json(const struct ops_answer *answer)
{
    cJSON *list = cJSON_CreateArray();

    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct op_row *row = &answer->rows[i];
        cJSON *op = op_json(row);

        if (answer->by != GROUP_NAME)
            json_filled(op, ops_group_words[answer->by], row->detail);
        cJSON_AddItemToArray(list, op);
    }
    return list;
}

cJSON *ops_json(const struct ops_answer *answer, const char *sort, const char *device)
{
    cJSON *body = cJSON_CreateObject(), *other;

    cJSON_AddStringToObject(body, "device", device);
    cJSON_AddStringToObject(body, "sort", sort);
    cJSON_AddStringToObject(body, "group", ops_group_words[answer->by]);
    json_count(body, "k", answer->row_count);
    json_count(body, "total_ops", answer->total_ops);
    json_count(body, "steps", answer->head.steps);
    json_head(body, &answer->head);
    json_ms(body, "step_time_ms", answer->step_ns);
    json_text(body, "share_of",
              answer->of_file          ? "file"
              : isnan(answer->step_ns) ? "span"
                                       : "steps");
    json_share(body, "error_pct", answer->scale_error_pct);
    json_count(body, "overflowed_events", answer->overflowed);
    cJSON_AddItemToObject(body, "ops", ops_list_json(answer));
    other = op_json(&answer->other);
    json_count(other, "ops", answer->other_ops);
    cJSON_AddItemToObject(body, "other", other);
    return body;
}
