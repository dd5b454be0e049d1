/* Devices and host, now, over time, at their peaks. */

#include "document/document.h"
#include "document/json.h"
#include "query/memory_query.h"

static void add_points(cJSON *object, const struct memory_point *points, uint32_t count,
                       bool host)
{
    static const char *const device_columns[] = {"time_ms", "allocated_bytes",
                                                 "reserved_bytes"};
    static const char *const host_columns[] = {"time_ms", "rss_bytes"};
    cJSON *list;

    json_columns(object, host ? host_columns : device_columns, host ? 2 : 3);
    list = cJSON_AddArrayToObject(object, "points");
    for (uint32_t i = 0; i < count; i++) {
        const double values[] = {json_rounded_ms((double)points[i].time_ns),
                                 points[i].allocated, points[i].reserved};

        cJSON_AddItemToArray(list, json_numbers(values, host ? 2 : 3));
    }
}

static void add_growth(cJSON *part, const struct memory_growth *growth)
{
    json_share(part, "slope_bytes_per_s", growth->slope_bytes_per_s);
    json_share(part, "slope_error_bytes_per_s", growth->error_bytes_per_s);
    cJSON_AddBoolToObject(part, "slope_sure", growth->sure);
    json_share(part, "oom_in_s", growth->full_in_s);
    json_share(part, "oom_in_s_low", growth->earliest_s);
    json_share(part, "oom_in_s_high", growth->latest_s);
}

static void add_largest(cJSON *part, const struct memory_device *device)
{
    cJSON *list = cJSON_AddArrayToObject(part, "largest");

    for (uint32_t i = 0; i < device->largest_count; i++) {
        cJSON *row = json_row(list);

        json_text(row, "op", device->largest[i].op);
        json_number(row, "bytes", device->largest[i].bytes);
    }
}

static cJSON *device_json(const struct memory_device *device)
{
    cJSON *part = cJSON_CreateObject();

    json_text(part, "device", device->device);
    json_number(part, "allocated_bytes", device->allocated_bytes);
    json_number(part, "reserved_bytes", device->reserved_bytes);
    json_number(part, "peak_bytes", device->peak_bytes);
    cJSON_AddBoolToObject(part, "partial", device->partial);
    json_stamp(part, "peak_time_ms", device->peak_time_ns);
    json_filled(part, "peak_op", device->peak_op);
    json_number(part, "total_bytes", device->total_bytes);
    json_share(part, "allocations_per_s", device->allocations_per_s);
    json_share(part, "frees_per_s", device->frees_per_s);
    json_share(part, "allocated_bytes_per_s", device->bytes_per_s);
    json_share(part, "allocations_per_step", device->allocations_per_step);
    json_share(part, "allocated_bytes_per_step", device->bytes_per_step);
    json_number(part, "segments", device->segments);
    json_number(part, "inactive_split_bytes", device->inactive_split_bytes);
    json_number(part, "segments_got", device->segments_got);
    json_number(part, "segments_given_back", device->segments_given_back);
    json_number(part, "retries", device->retries);
    json_number(part, "ooms", device->ooms);
    json_ms(part, "driver_ms_per_step", device->driver_ns);
    add_growth(part, &device->growth);
    add_largest(part, device);
    add_points(part, device->points, device->point_count, false);
    return part;
}

static cJSON *host_part_json(const struct memory_host *host)
{
    cJSON *part = cJSON_CreateObject();

    json_number(part, "rss_bytes", host->rss_bytes);
    json_number(part, "job_bytes", host->job_bytes);
    json_number(part, "limit_bytes", host->limit_bytes);
    json_text(part, "limit_name", host->limit_name);
    json_number(part, "used_bytes", host->used_bytes);
    add_growth(part, &host->growth);
    add_points(part, host->points, host->point_count, true);
    return part;
}

cJSON *memory_json(const struct memory_answer *answer)
{
    cJSON *body = cJSON_CreateObject();

    json_head(body, &answer->head);
    JSON_LIST(body, "devices", answer->devices, answer->device_count, device_json);
    json_filled(body, "devices_reason", answer->unseen);
    cJSON_AddItemToObject(body, "host", host_part_json(&answer->host));
    return body;
}

/* The highest of each of at most `max` buckets: a peak is never lost. Overwrites. */
static uint32_t keep_highest(struct memory_point *points, uint32_t count, uint32_t max)
{
    if (count <= max)
        return count;
    for (uint32_t i = 0; i < max; i++) {
        uint32_t best = i * count / max;

        for (uint32_t j = best; j < (i + 1) * count / max; j++) {
            if (points[j].allocated > points[best].allocated)
                best = j;
        }
        points[i] = points[best];
    }
    return max;
}

cJSON *memory_points_json(const struct memory_answer *answer, uint32_t max)
{
    cJSON *body = cJSON_CreateObject(), *list, *host;

    list = cJSON_AddArrayToObject(body, "devices");
    for (uint32_t i = 0; i < answer->device_count; i++) {
        struct memory_device *device = &answer->devices[i];
        cJSON *part = json_row(list);

        json_text(part, "device", device->device);
        add_points(part, device->points,
                   keep_highest(device->points, device->point_count, max), false);
    }
    host = cJSON_AddObjectToObject(body, "host");
    add_points(host, answer->host.points,
               keep_highest(answer->host.points, answer->host.point_count, max), true);
    return body;
}
