#include "judge/said.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "document/json.h"

#define VERSION 1

/* Step numbers and stamps: what a double holds exactly. */
#define WHOLE_MOST 9007199254740992.0

/* What an entry says in numbers, beside its part; the rest is named where it is read. */
#define AT(member) offsetof(struct standing_entry, member)

static const struct member {
    const char *key;
    enum { IS_WHOLE, IS_REAL, IS_FLAG } kind; /* int64_t or NOT_KNOWN, double, bool */
    size_t offset;
} members[] = {
    {"since_step", IS_WHOLE, AT(since_step)},
    {"missed_step", IS_WHOLE, AT(missed_step)},
    {"missed_ns", IS_WHOLE, AT(missed_ns)},
    {"fixed_step", IS_WHOLE, AT(fixed_step)},
    {"fixed_ns", IS_WHOLE, AT(fixed_ns)},
    {"whole_step", IS_WHOLE, AT(whole_step)},
    {"ns_per_step", IS_REAL, AT(ns_per_step)},
    {"risk", IS_FLAG, AT(former.risk)},
    {"claims", IS_FLAG, AT(former.claims)},
    {"estimated", IS_FLAG, AT(former.estimated)},
    {"price_ns", IS_REAL, AT(former.price_ns)},
    {"price_error_ns", IS_REAL, AT(former.price_error_ns)},
    {"part_ns", IS_REAL, AT(former.part_ns)},
    {"part_error_ns", IS_REAL, AT(former.part_error_ns)},
    {"step_ns", IS_REAL, AT(former.step_ns)},
    {"step_error_ns", IS_REAL, AT(former.step_error_ns)},
    {"left_ns", IS_REAL, AT(former.left_ns)},
    {"left_error_ns", IS_REAL, AT(former.left_error_ns)},
};

#define MEMBERS (sizeof(members) / sizeof(members[0]))

static void print_member(cJSON *part, const struct member *member,
                         const struct standing_entry *entry)
{
    const void *from = (const char *)entry + member->offset;
    int64_t whole;
    double real;
    bool flag;

    if (member->kind == IS_WHOLE) {
        memcpy(&whole, from, sizeof(whole));
        json_integer(part, member->key, whole);
    } else if (member->kind == IS_REAL) {
        memcpy(&real, from, sizeof(real));
        json_number(part, member->key, real);
    } else {
        memcpy(&flag, from, sizeof(flag));
        cJSON_AddBoolToObject(part, member->key, flag);
    }
}

static cJSON *print_entry(const struct standing_entry *entry)
{
    cJSON *part = cJSON_CreateObject();

    cJSON_AddStringToObject(part, "id", entry->id);
    cJSON_AddStringToObject(part, "title", entry->title);
    cJSON_AddBoolToObject(part, "fixed", entry->state == STANDING_FIXED);
    json_count(part, "part", entry->former.part);
    for (size_t i = 0; i < MEMBERS; i++)
        print_member(part, &members[i], entry);
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

static void read_member(const cJSON *part, const struct member *member,
                        struct standing_entry *entry)
{
    void *to = (char *)entry + member->offset;
    int64_t whole = whole_of(part, member->key);
    double real = real_of(part, member->key);
    bool flag = is_true(part, member->key);

    if (member->kind == IS_WHOLE)
        memcpy(to, &whole, sizeof(whole));
    else if (member->kind == IS_REAL)
        memcpy(to, &real, sizeof(real));
    else
        memcpy(to, &flag, sizeof(flag));
}

static bool read_entry(const cJSON *part, struct standing_entry *entry)
{
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(part, "id"));
    const char *title = cJSON_GetStringValue(cJSON_GetObjectItem(part, "title"));
    double claimed = real_of(part, "part");

    if (id == NULL || title == NULL || strlen(id) >= STANDING_ID ||
        !(claimed >= 0 && claimed <= (double)CLAIM_PARTS))
        return false;
    *entry = (struct standing_entry){.rule = findings_rule_of(id),
                                     .state = is_true(part, "fixed") ? STANDING_FIXED
                                                                     : STANDING_STANDS,
                                     .former = {.part = (uint32_t)claimed}};
    for (size_t i = 0; i < MEMBERS; i++)
        read_member(part, &members[i], entry);
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
