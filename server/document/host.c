/* The machine under the job, once a second. */
#include <math.h>

#include "document/document.h"
#include "document/json.h"
#include "query/host_query.h"
#include "wire/words.h"

static const char *const columns[] = {"unix_ms",
                                      "cpu_share",
                                      "steal_share",
                                      "iowait_share",
                                      "job_cores",
                                      "disk_read_bytes_per_s",
                                      "disk_write_bytes_per_s",
                                      "net_receive_bytes_per_s",
                                      "net_send_bytes_per_s",
                                      "throttled_share",
                                      "memory_used_bytes"};
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

static void point_values(const struct host_point *point, double *values)
{
    const double all[COLUMNS] = {point->unix_ns == 0 ? (double)NAN
                                                     : (double)point->unix_ns / 1e6,
                                 point->cpu_share,
                                 point->steal_share,
                                 point->iowait_share,
                                 point->job_cpu,
                                 point->disk_read_bytes_per_s,
                                 point->disk_write_bytes_per_s,
                                 point->net_receive_bytes_per_s,
                                 point->net_send_bytes_per_s,
                                 point->throttled_share,
                                 point->memory_used_bytes};

    for (int i = 0; i < COLUMNS; i++)
        values[i] = all[i];
}

static cJSON *process_json(const struct host_process *process)
{
    cJSON *part = cJSON_CreateObject();

    json_count(part, "pid", process->pid);
    json_integer(part, "rank", process->rank < 0 ? NOT_KNOWN : process->rank);
    cJSON_AddStringToObject(part, "role", wire_role_word(process->role));
    json_share(part, "cpu_cores", process->cpu_share);
    json_number(part, "rss_bytes", process->rss_bytes);
    return part;
}

cJSON *host_json(const struct host_answer *answer)
{
    cJSON *body = cJSON_CreateObject(), *list, *now;
    double values[COLUMNS];

    json_head(body, &answer->head);
    now = cJSON_AddObjectToObject(body, "now");
    point_values(&answer->now, values);
    for (int i = 0; i < COLUMNS; i++)
        json_share(now, columns[i], values[i]);
    cJSON_AddItemToObject(body, "core_share",
                          json_numbers(answer->core_share, answer->core_count));
    JSON_LIST(body, "processes", answer->processes, answer->process_count,
              process_json);
    json_number(body, "cpu_limit_cores", answer->cpu_limit);
    json_number(body, "memory_limit_bytes", answer->memory_limit_bytes);
    json_text(body, "memory_limit_name", answer->memory_limit_name);
    json_columns(body, columns, COLUMNS);
    list = cJSON_AddArrayToObject(body, "points");
    for (uint32_t i = 0; i < answer->point_count; i++) {
        point_values(&answer->points[i], values);
        cJSON_AddItemToArray(list, cJSON_CreateDoubleArray(values, COLUMNS));
    }
    return body;
}
