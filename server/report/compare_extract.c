/* A document cut down to what a comparison reads of it. */
#include <stddef.h>

#include "report/compare.h"
#include "report/members.h"

static void copy(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *item = MEMBER(from, key);

    if (item != NULL)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(item, true));
}

static void copy_all(cJSON *to, const cJSON *from, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        copy(to, from, *keys);
}

static void extract_ops(cJSON *to, const cJSON *from, const char *device)
{
    static const char *const keys[] = {
        "name",           "kind",             "total_ms",   "per_step_ms",
        "per_step_count", "per_step_ci95_ms", "short_name", NULL};
    cJSON *list = cJSON_AddArrayToObject(to, device), *op;
    const cJSON *row;

    cJSON_ArrayForEach(row, MEMBER(from, device))
    {
        op = cJSON_CreateObject();
        copy_all(op, row, keys);
        cJSON_AddItemToArray(list, op);
    }
}

static void extract_devices(cJSON *document, const cJSON *devices)
{
    static const char *const keys[] = {"device", "name", "per_step_ms", NULL};
    cJSON *list = cJSON_AddArrayToObject(document, "gpu"), *one;
    const cJSON *device;

    cJSON_ArrayForEach(device, devices)
    {
        one = cJSON_CreateObject();
        copy_all(one, device, keys);
        cJSON_AddItemToArray(list, one);
    }
}

static void extract_findings(cJSON *document, const cJSON *findings)
{
    static const char *const keys[] = {
        "id",     "title", "ms_per_step", "ms_per_step_low", "ms_per_step_high",
        "advice", NULL};
    cJSON *list, *one;
    const cJSON *finding;

    if (!cJSON_IsArray(findings))
        return; /* not kept is not the same as none */
    list = cJSON_AddArrayToObject(document, "findings");
    cJSON_ArrayForEach(finding, findings)
    {
        one = cJSON_CreateObject();
        copy_all(one, finding, keys);
        cJSON_AddItemToArray(list, one);
    }
}

cJSON *compare_extract(const cJSON *document)
{
    static const char *const keys[] = {"rank",        "steps",        "recorded_steps",
                                       "lost_events", "memory_peaks", "findings_reason",
                                       NULL};
    cJSON *kept = cJSON_CreateObject(), *ops;

    copy_all(kept, document, keys);
    copy(cJSON_AddObjectToObject(kept, "summary"), MEMBER(document, "summary"),
         "train");
    extract_devices(kept, MEMBER(document, "gpu"));
    extract_findings(kept, MEMBER(document, "findings"));
    ops = cJSON_AddObjectToObject(kept, "ops");
    extract_ops(ops, MEMBER(document, "ops"), "cpu");
    extract_ops(ops, MEMBER(document, "ops"), "cuda");
    copy(ops, MEMBER(document, "ops"), "total");
    return kept;
}
