#include "judge/said.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VERSION 1

/* Step numbers and stamps: what a double holds exactly. */
#define WHOLE_MOST 9007199254740992.0

static const char hexes[] = "0123456789abcdef";

static void add_real(cJSON *part, const char *key, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(part, key, value);
}

static cJSON *print_entry(const struct standing_entry *entry)
{
    const struct gone_former *former = &entry->former;
    cJSON *part = cJSON_CreateObject();

    cJSON_AddStringToObject(part, "id", entry->id);
    cJSON_AddStringToObject(part, "title", entry->title);
    cJSON_AddBoolToObject(part, "fixed", entry->state == STANDING_FIXED);
    add_real(part, "since_step", (double)entry->since_step);
    add_real(part, "missed_step", (double)entry->missed_step);
    add_real(part, "missed_ns", (double)entry->missed_ns);
    add_real(part, "fixed_step", (double)entry->fixed_step);
    add_real(part, "fixed_ns", (double)entry->fixed_ns);
    add_real(part, "whole_step", (double)entry->whole_step);
    add_real(part, "ns_per_step", entry->ns_per_step);
    cJSON_AddNumberToObject(part, "part", former->part);
    cJSON_AddBoolToObject(part, "risk", former->risk);
    cJSON_AddBoolToObject(part, "claims", former->claims);
    cJSON_AddBoolToObject(part, "estimated", former->estimated);
    add_real(part, "price_error_ns", former->price_error_ns);
    add_real(part, "part_ns", former->part_ns);
    add_real(part, "part_error_ns", former->part_error_ns);
    add_real(part, "step_ns", former->step_ns);
    add_real(part, "step_error_ns", former->step_error_ns);
    return part;
}

char *said_print(const struct standing *standing)
{
    cJSON *body = cJSON_CreateObject(), *list;
    char *text;

    cJSON_AddNumberToObject(body, "version", VERSION);
    list = cJSON_AddArrayToObject(body, "findings");
    for (uint32_t i = 0; i < STANDING_MAX; i++)
        if (standing->entries[i].state == STANDING_STANDS ||
            standing->entries[i].state == STANDING_FIXED)
            cJSON_AddItemToArray(list, print_entry(&standing->entries[i]));
    text = cJSON_PrintUnformatted(body);
    cJSON_Delete(body);
    return text;
}

/* NaN when it is not there or no number. */
static double real_of(const cJSON *part, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(part, key);

    return cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
}

static int64_t whole_of(const cJSON *part, const char *key)
{
    double value = real_of(part, key);

    return fabs(value) <= WHOLE_MOST ? (int64_t)value : NOT_KNOWN;
}

static bool is_true(const cJSON *part, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(part, key));
}

/* The rule of an id: its own, or followed by 8 hex digits of a subject. */
static const struct finding_rule *rule_of(const char *id)
{
    const struct finding_rule *rule;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        size_t length = strlen(rule->id);

        if (strncmp(id, rule->id, length) != 0)
            continue;
        if (id[length] == '\0' || (id[length] == '-' && strlen(id) == length + 9 &&
                                   strspn(id + length + 1, hexes) == 8))
            return rule;
    }
    return NULL;
}

static bool read_entry(const cJSON *part, struct standing_entry *entry)
{
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(part, "id"));
    const char *title = cJSON_GetStringValue(cJSON_GetObjectItem(part, "title"));
    double claimed = real_of(part, "part");

    if (id == NULL || title == NULL || strlen(id) >= STANDING_ID ||
        !(claimed >= 0 && claimed <= CLAIM_PARTS))
        return false;
    *entry = (struct standing_entry){
        .rule = rule_of(id),
        .state = is_true(part, "fixed") ? STANDING_FIXED : STANDING_STANDS,
        .since_step = whole_of(part, "since_step"),
        .missed_step = whole_of(part, "missed_step"),
        .missed_ns = whole_of(part, "missed_ns"),
        .fixed_step = whole_of(part, "fixed_step"),
        .fixed_ns = whole_of(part, "fixed_ns"),
        .whole_step = whole_of(part, "whole_step"),
        .ns_per_step = real_of(part, "ns_per_step"),
        .former = {.part = (uint32_t)claimed,
                   .risk = is_true(part, "risk"),
                   .claims = is_true(part, "claims"),
                   .estimated = is_true(part, "estimated"),
                   .price_error_ns = real_of(part, "price_error_ns"),
                   .part_ns = real_of(part, "part_ns"),
                   .part_error_ns = real_of(part, "part_error_ns"),
                   .step_ns = real_of(part, "step_ns"),
                   .step_error_ns = real_of(part, "step_error_ns")}};
    if (entry->missed_ns == NOT_KNOWN)
        entry->missed_step = NOT_KNOWN; /* nobody knows for how long */
    snprintf(entry->id, sizeof(entry->id), "%s", id);
    snprintf(entry->title, sizeof(entry->title), "%s", title);
    /* Without these nothing can be told of it. */
    return entry->rule != NULL && entry->since_step != NOT_KNOWN &&
           entry->whole_step != NOT_KNOWN && entry->ns_per_step >= 0 &&
           (entry->state == STANDING_STANDS ||
            (entry->fixed_step != NOT_KNOWN && entry->fixed_ns != NOT_KNOWN));
}

bool said_read(const char *text, struct standing *standing)
{
    size_t length = strnlen(text, SAID_BYTES);
    cJSON *body = length < SAID_BYTES ? cJSON_ParseWithLength(text, length) : NULL;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(body, "findings"), *part;
    bool known = real_of(body, "version") == VERSION && cJSON_IsArray(list);
    uint32_t count = 0;

    *standing = (struct standing){.looks = 0};
    if (known)
        cJSON_ArrayForEach(part, list) if (count < STANDING_MAX &&
                                           read_entry(part, &standing->entries[count]))
            count++;
    /* Half an entry is none; and what is met from now on was not there before. */
    if (count < STANDING_MAX)
        standing->entries[count] = (struct standing_entry){.state = STANDING_NONE};
    standing->looks = known;
    cJSON_Delete(body);
    return known;
}
