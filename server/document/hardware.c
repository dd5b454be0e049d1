/* What the GPUs say of themselves. */
#include "document/document.h"
#include "document/json.h"
#include "query/hardware_query.h"
#include "wire/words.h"

static const char *const columns[1 + HARDWARE_COLUMNS] = {
    "time_ms",
    [1 + HARDWARE_BUSY] = "busy_share",
    [1 + HARDWARE_MEMORY_BUSY] = "memory_busy_share",
    [1 + HARDWARE_USED_BYTES] = "used_bytes",
    [1 + HARDWARE_POWER_W] = "power_w",
    [1 + HARDWARE_TEMPERATURE_C] = "temperature_c",
    [1 + HARDWARE_SM_MHZ] = "sm_mhz",
    [1 + HARDWARE_MEMORY_MHZ] = "memory_mhz",
    [1 + HARDWARE_PCIE_SENT] = "pcie_sent_bytes_per_s",
    [1 + HARDWARE_PCIE_RECEIVED] = "pcie_received_bytes_per_s",
    [1 + HARDWARE_NVLINK_SENT] = "nvlink_sent_bytes_per_s",
    [1 + HARDWARE_NVLINK_RECEIVED] = "nvlink_received_bytes_per_s",
    [1 + HARDWARE_SLOWED] = "slowed_share"};

static const struct {
    uint32_t bit;
    const char *word;
} slowed_words[] = {{HARDWARE_SLOWED_IDLE, "idle"},
                    {HARDWARE_SLOWED_SETTING, "setting"},
                    {HARDWARE_SLOWED_POWER_CAP, "power_cap"},
                    {HARDWARE_SLOWED_HARDWARE, "hardware"},
                    {HARDWARE_SLOWED_SYNC_BOOST, "sync_boost"},
                    {HARDWARE_SLOWED_THERMAL, "thermal"},
                    {HARDWARE_SLOWED_THERMAL_HARD, "thermal_hardware"},
                    {HARDWARE_SLOWED_POWER_BRAKE, "power_brake"},
                    {HARDWARE_SLOWED_DISPLAY, "display"}};

/* null where the driver does not tell: [] says that nothing holds the clocks back. */
static void add_slowed(cJSON *now, const struct hardware_row *row)
{
    cJSON *list;

    if (!row->slowed_known) {
        cJSON_AddNullToObject(now, "slowed_by");
        return;
    }
    list = cJSON_AddArrayToObject(now, "slowed_by");
    for (size_t i = 0; i < sizeof(slowed_words) / sizeof(slowed_words[0]); i++)
        if ((row->slowed & slowed_words[i].bit) != 0)
            cJSON_AddItemToArray(list, cJSON_CreateString(slowed_words[i].word));
}

static void add_now(cJSON *part, const struct hardware_row *row)
{
    cJSON *now = cJSON_AddObjectToObject(part, "now");

    for (int i = 0; i < HARDWARE_SLOWED; i++)
        json_number(now, columns[1 + i], row->now[i]);
    add_slowed(now, row);
    json_number(now, "job_bytes", row->job_bytes);
    json_number(now, "other_bytes", row->other_bytes);
    json_text(now, "processes_reason", row->processes_reason);
}

static void add_limits(cJSON *part, const struct hardware_row *row)
{
    json_number(part, "total_bytes", row->total_bytes);
    json_number(part, "power_limit_w", row->power_limit_w);
    json_number(part, "sm_max_mhz", row->sm_max_mhz);
    json_number(part, "memory_max_mhz", row->memory_max_mhz);
    json_number(part, "pcie_generation", row->pcie_generation);
    json_number(part, "pcie_lanes", row->pcie_width);
}

static void add_faults(cJSON *part, const struct hardware_row *row)
{
    json_number(part, "ecc_corrected", row->ecc_corrected);
    json_number(part, "ecc_uncorrected", row->ecc_uncorrected);
    json_number(part, "xid_count", row->xids);
    json_integer(part, "last_xid", row->last_xid);
    json_stamp(part, "last_xid_ms", row->last_xid_ns);
}

static void add_instances(cJSON *part, const struct hardware_row *row)
{
    cJSON *list = cJSON_AddArrayToObject(part, "instances");

    for (uint32_t i = 0; i < row->instance_count; i++) {
        cJSON *one = json_row(list);

        json_text(one, "name", row->instances[i].name);
        json_text(one, "uuid", row->instances[i].uuid);
        json_number(one, "total_bytes", row->instances[i].total_bytes);
        json_number(one, "used_bytes", row->instances[i].used_bytes);
    }
}

/* null where nobody knows. */
static void add_works(cJSON *part, const struct hardware_row *row)
{
    if (row->works_known)
        cJSON_AddBoolToObject(part, "works", row->works);
    else
        cJSON_AddNullToObject(part, "works");
}

static cJSON *row_json(const struct hardware_row *row)
{
    cJSON *part = cJSON_CreateObject(), *list;

    json_text(part, "device", row->device);
    add_works(part, row);
    json_count(part, "index", row->index);
    json_text(part, "name", row->name);
    json_text(part, "uuid", row->uuid);
    json_text(part, "pci", row->pci);
    cJSON_AddBoolToObject(part, "mig", row->mig);
    add_instances(part, row);
    json_text(part, "reason", row->reason);
    add_limits(part, row);
    add_now(part, row);
    add_faults(part, row);
    json_number(part, "energy_j", row->energy_j);
    json_ms(part, "energy_span_ms", row->energy_span_ns);
    json_number(part, "joules_per_step", row->joules_per_step);
    json_number(part, "samples_per_joule", row->samples_per_joule);
    json_number(part, "idle_w", row->idle_w);
    json_columns(part, columns, 1 + HARDWARE_COLUMNS);
    list = cJSON_AddArrayToObject(part, "points");
    for (uint32_t i = 0; i < row->point_count; i++) {
        double values[1 + HARDWARE_COLUMNS] = {
            json_rounded_ms((double)row->points[i].time_ns)};

        for (int at = 0; at < HARDWARE_COLUMNS; at++)
            values[1 + at] = row->points[i].values[at];
        cJSON_AddItemToArray(list, json_numbers(values, 1 + HARDWARE_COLUMNS));
    }
    return part;
}

void add_hardware_json(cJSON *body, const struct hardware_answer *answer)
{
    cJSON *part = cJSON_AddObjectToObject(body, "hardware");

    cJSON_AddStringToObject(part, "source", "nvml");
    cJSON_AddStringToObject(part, "state", wire_source_state_word(answer->state));
    json_text(part, "reason", answer->reason);
    json_text(part, "driver", answer->driver);
    json_number(part, "joules_per_step", answer->joules_per_step);
    json_number(part, "samples_per_joule", answer->samples_per_joule);
    json_count(part, "devices_not_shown", answer->unseen);
    JSON_LIST(part, "devices", answer->rows, answer->row_count, row_json);
}
