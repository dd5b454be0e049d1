#include "document/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"
#include "http/bytes.h"

void json_text(cJSON *object, const char *key, const char *text)
{
    json_text_cut(object, key, text, JSON_NAME_BYTES);
}

void json_filled(cJSON *object, const char *key, const char *text)
{
    json_text(object, key, text != NULL && *text != '\0' ? text : NULL);
}

/* Needs no cleaning and stays readable as a cJSON string. */
static bool is_plain(const char *text, size_t max)
{
    size_t size = 0;

    for (; text[size] != '\0'; size++) {
        if (size >= max || text[size] < ' ' || text[size] > '~' || text[size] == '<')
            return false;
    }
    return true;
}

cJSON *json_value_text(const char *text, size_t max)
{
    struct bytes quoted = {0};
    cJSON *value = NULL;

    if (text == NULL)
        return cJSON_CreateNull();
    if (is_plain(text, max))
        return cJSON_CreateString(text);
    bytes_json(&quoted, text, strlen(text), max);
    bytes_append(&quoted, "", 1);
    if (!quoted.failed)
        value = cJSON_CreateRaw(quoted.data);
    bytes_close(&quoted);
    return value;
}

void json_text_cut(cJSON *object, const char *key, const char *text, size_t max)
{
    cJSON_AddItemToObject(object, key, json_value_text(text, max));
}

cJSON *json_value(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

/* To the nanosecond: what is finer is noise of a mean. */
double json_rounded_ms(double ns)
{
    /* A sum that was held there is no number. */
    return fabs(ns) >= (double)SUM_MAX_NS ? (double)NAN : nearbyint(ns) / 1e6;
}

cJSON *json_numbers(const double *values, size_t count)
{
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(array, json_value(values[i]));
    return array;
}

void json_interval_ms(cJSON *object, const char *key, double low_ns, double high_ns)
{
    cJSON_AddItemToObject(object, key,
                          JSON_NUMBERS(json_rounded_ms(low_ns < 0 ? 0 : low_ns),
                                       json_rounded_ms(high_ns)));
}

cJSON *json_row(cJSON *list)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddItemToArray(list, row);
    return row;
}

void json_number(cJSON *object, const char *key, double value)
{
    cJSON_AddItemToObject(object, key, json_value(value));
}

void json_count(cJSON *object, const char *key, uint64_t value)
{
    json_number(object, key, (double)value);
}

void json_integer(cJSON *object, const char *key, int64_t value)
{
    json_number(object, key, value == NOT_KNOWN ? (double)NAN : (double)value);
}

void json_ms(cJSON *object, const char *key, double ns)
{
    json_number(object, key, json_rounded_ms(ns));
}

void json_stamp(cJSON *object, const char *key, int64_t ns)
{
    json_ms(object, key, ns == NOT_KNOWN ? (double)NAN : (double)ns);
}

void json_unix_ms(cJSON *object, const char *key, int64_t ns)
{
    json_number(object, key, nearbyint((double)ns) / 1e6);
}

void json_us(cJSON *object, const char *key, double ns)
{
    json_number(object, key, nearbyint(ns * 10) / 1e4);
}

void json_share(cJSON *object, const char *key, double share)
{
    json_number(object, key, nearbyint(share * 1e6) / 1e6);
}

void json_percent(cJSON *object, const char *key, double share)
{
    json_number(object, key, nearbyint(share * 1e6) / 1e4);
}

void json_columns(cJSON *object, const char *const *names, int count)
{
    cJSON_AddItemToObject(object, "columns", cJSON_CreateStringArray(names, count));
}

cJSON *json_readable(cJSON *document)
{
    char *text = document == NULL ? NULL : cJSON_PrintUnformatted(document);
    cJSON *whole = text == NULL ? NULL : cJSON_Parse(text);

    cJSON_free(text);
    cJSON_Delete(document);
    return whole;
}

static bool has_unit(const char *key)
{
    static const char *const units[] = {"_ms",    "_us",    "_ns",    "_s",   "_pct",
                                        "_share", "_bytes", "_cores", "share"};
    size_t length = strlen(key);

    if (strcmp(key, "phases") == 0)
        return true;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t size = strlen(units[i]);

        if (length >= size && strcmp(key + length - size, units[i]) == 0)
            return true;
    }
    return false;
}

/* Answers are a few levels deep. NOLINTNEXTLINE(misc-no-recursion) */
static void forget_under(cJSON *object, bool unit)
{
    for (cJSON *item = object->child, *next; item != NULL; item = next) {
        bool own = unit || (item->string != NULL && has_unit(item->string));

        next = item->next;
        if (cJSON_IsNumber(item) && own && item->string != NULL)
            cJSON_ReplaceItemInObjectCaseSensitive(object, item->string,
                                                   cJSON_CreateNull());
        else
            forget_under(item, own);
    }
}

void json_forget(cJSON *document)
{
    forget_under(document, false);
}

static void json_window(cJSON *object, const struct answer_window *window)
{
    cJSON *part = cJSON_AddObjectToObject(object, "window");

    json_stamp(part, "from_ms", window->from_ns);
    json_stamp(part, "to_ms", window->to_ns);
    json_integer(part, "first_step", window->first_step);
    json_integer(part, "last_step", window->last_step);
    cJSON_AddBoolToObject(part, "complete", window->complete);
    json_stamp(part, "reach_ms", window->reach_ns);
}

void json_head(cJSON *object, const struct answer *head)
{
    json_filled(object, "session", head->session);
    json_integer(object, "rank", head->rank < 0 ? NOT_KNOWN : head->rank);
    json_integer(object, "pid", head->pid == 0 ? NOT_KNOWN : (int64_t)head->pid);
    if (head->session[0] != '\0')
        json_unix_ms(object, "start_unix_ms", head->start_unix_ns);
    json_stamp(object, "now_ms", head->now_ns);
    cJSON_AddBoolToObject(object, "live", head->live);
    json_count(object, "rev", head->rev);
    json_window(object, &head->window);
    json_count(object, "recorded_steps", head->recorded_steps);
    json_count(object, "lost_events", head->lost_events);
    if (head->reason != NULL && head->reason[0] != '\0')
        json_text(object, "reason", head->reason);
}
