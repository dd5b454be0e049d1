/* Each instant of a device once, by use or by what it waits for; and what
 * the devices say of themselves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "document/document.h"
#include "document/json.h"
#include "query/gpu_query.h"

static const char *const uses[GPU_USES] = {"compute", "communication", "copy"};
static const char *const idles[GPU_IDLES] = {"data",       "sync",   "launch",
                                             "copy",       "alloc",  "setup",
                                             "collective", "python", "unknown"};
static const char *const columns[1 + GPU_USES + GPU_IDLES] = {
    "time_ms",         "compute",     "communication", "copy",       "idle_data",
    "idle_sync",       "idle_launch", "idle_copy",     "idle_alloc", "idle_setup",
    "idle_collective", "idle_python", "idle_unknown"};

static cJSON *point_json(const struct gpu_point *point)
{
    double values[1 + GPU_USES + GPU_IDLES] = {json_rounded_ms((double)point->time_ns)};

    memcpy(values + 1, point->use_share, sizeof(point->use_share));
    memcpy(values + 1 + GPU_USES, point->idle_share, sizeof(point->idle_share));
    return json_numbers(values, 1 + GPU_USES + GPU_IDLES);
}

static void add_points(cJSON *part, const struct gpu_device *device)
{
    json_columns(part, columns, 1 + GPU_USES + GPU_IDLES);
    JSON_LIST(part, "points", device->points, device->point_count, point_json);
}

static void put_bytes(cJSON *row, bool unsized, uint64_t bytes)
{
    if (unsized)
        cJSON_AddNullToObject(row, "bytes");
    else
        json_count(row, "bytes", bytes);
}

/* As the file names the stream, where that is no number. */
static void put_label(cJSON *row, const struct gpu_run *run, uint32_t stream)
{
    uint32_t at = stream - GPU_STREAM_LABELS;
    char label[24];

    if (stream < GPU_STREAM_LABELS || at >= GPU_STREAM_ADDRESSES ||
        run->stream_addresses[at] == 0)
        return;
    (void)snprintf(label, sizeof(label), "0x%" PRIx64, run->stream_addresses[at]);
    json_text(row, "label", label);
}

/* Of all that was recorded of the run, whatever the window is. */
static void add_run(cJSON *part, const struct gpu_run *run)
{
    static const char *const ways[] = {"unknown", "h2d", "d2h", "d2d", "p2p", "h2h"};
    cJSON *all = cJSON_AddObjectToObject(part, "run"), *list, *row;

    json_count(all, "steps", run->steps);
    json_count(all, "recorded_steps", run->recorded_steps);
    list = cJSON_AddArrayToObject(all, "copies");
    for (uint32_t i = 0; i < run->copy_count; i++) {
        const struct gpu_run_copies *copies = &run->copies[i];

        cJSON_AddItemToArray(list, row = cJSON_CreateObject());
        json_text(row, "direction", ways[copies->way]);
        if (copies->unknown)
            cJSON_AddNullToObject(row, "pageable");
        else
            cJSON_AddBoolToObject(row, "pageable", copies->pageable);
        json_count(row, "count", copies->count);
        put_bytes(row, copies->unsized, copies->bytes);
        json_ms(row, "total_ms", copies->ns);
        json_number(row, "bytes_per_s", copies->bytes_per_s);
    }
    row = cJSON_AddObjectToObject(all, "memsets");
    json_count(row, "count", run->memset_count);
    put_bytes(row, run->memset_unsized, run->memset_bytes);
    json_ms(row, "total_ms", run->memset_ns);
    row = cJSON_AddObjectToObject(all, "launch_delay");
    json_count(row, "count", run->delays);
    json_us(row, "mean_us", run->delay_mean_ns);
    json_us(row, "p50_us", run->delay_p50_ns);
    json_us(row, "p95_us", run->delay_p95_ns);
    json_us(row, "p99_us", run->delay_p99_ns);
    json_us(row, "max_us", run->delay_max_ns);
    json_number(all, "queue_depth", run->queue_depth);
    list = cJSON_AddArrayToObject(all, "streams");
    for (uint32_t i = 0; i < run->stream_count; i++) {
        cJSON_AddItemToArray(list, row = cJSON_CreateObject());
        json_count(row, "stream", run->streams[i].id);
        put_label(row, run, run->streams[i].id);
        json_count(row, "work_count", run->streams[i].works);
        json_ms(row, "busy_ms", run->streams[i].busy_ns);
    }
    json_count(all, "work_of_other_streams", run->streams_not_shown_works);
    json_number(all, "streams_busy", run->streams_busy);
}

static cJSON *device_json(const struct gpu_device *device)
{
    cJSON *part = cJSON_CreateObject(), *steps, *idle;

    json_text(part, "device", device->device);
    json_text(part, "name", device->name);
    json_count(part, "known_steps", device->known_steps);
    json_count(part, "behind_steps", device->behind_steps);
    json_text(part, "reason", device->reason);
    json_integer(part, "summed_steps", device->summed_steps);
    json_ms(part, "busy_ms", device->busy_ns);
    json_ms(part, "idle_ms", device->span_ns - device->busy_ns);
    json_ms(part, "overlap_ms", device->overlap_ns);
    steps = cJSON_AddObjectToObject(part, "use_ms");
    for (int i = 0; i < GPU_USES; i++)
        json_ms(steps, uses[i], device->all_use_ns[i]);
    idle = cJSON_AddObjectToObject(part, "idle_by_cause_ms");
    for (int i = 0; i < GPU_IDLES; i++)
        json_ms(idle, idles[i], device->all_idle_ns[i]);
    steps = cJSON_AddObjectToObject(part, "per_step_ms");
    for (int i = 0; i < GPU_USES; i++)
        json_ms(steps, uses[i], device->use_ns[i]);
    idle = cJSON_AddObjectToObject(steps, "idle");
    for (int i = 0; i < GPU_IDLES; i++)
        json_ms(idle, idles[i], device->idle_ns[i]);
    add_run(part, &device->run);
    json_count(part, "work_count", device->works);
    json_count(part, "uncounted_work", device->uncounted);
    add_points(part, device);
    return part;
}

cJSON *gpu_json(const struct gpu_answer *answer)
{
    const struct gpu_device *busiest = gpu_busiest(answer);
    cJSON *body = cJSON_CreateObject();

    json_head(body, &answer->head);
    json_count(body, "steps", answer->head.steps);
    JSON_LIST(body, "devices", answer->devices, answer->device_count, device_json);
    json_text(body, "busiest", busiest != NULL ? busiest->device : NULL);
    json_count(body, "uncounted_work", answer->uncounted);
    json_count(body, "lost_launches", answer->lost_launches);
    if (answer->hardware.driver != NULL) /* it was asked for */
        add_hardware_json(body, &answer->hardware);
    return body;
}

cJSON *gpu_points_json(const struct gpu_answer *answer)
{
    cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "devices");

    for (uint32_t i = 0; i < answer->device_count; i++) {
        cJSON *part = json_row(list);

        json_text(part, "device", answer->devices[i].device);
        add_points(part, &answer->devices[i]);
    }
    return body;
}
