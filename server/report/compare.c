#include "report/compare.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "report/compare_parts.h"
#include "report/members.h"
#include "wire/event.h"
#include "wire/words.h"

void compare_put(cJSON *object, const char *key, double value)
{
    if (isfinite(value)) /* a nanosecond, where it is ms */
        cJSON_AddNumberToObject(object, key, round(value * 1e6) / 1e6);
    else
        cJSON_AddNullToObject(object, key);
}

void compare_put_interval(cJSON *object, const char *key, double middle, double half,
                          double least)
{
    const double ends[2] = {fmax(middle - half, least), middle + half};

    if (isfinite(middle) && isfinite(half))
        cJSON_AddItemToObject(object, key, cJSON_CreateDoubleArray(ends, 2));
    else
        cJSON_AddNullToObject(object, key);
}

bool compare_put_change(cJSON *object, const struct compare_number *base,
                        const struct compare_number *other,
                        const struct compare_test *test)
{
    double diff = other->value - base->value, half = hypot(base->half, other->half);
    bool changed = fabs(diff) > half * test->strictness &&
                   fabs(diff) > test->floor * fabs(base->value);

    compare_put(object, "diff_ms", diff);
    compare_put(object, "diff_pct",
                base->value > 0 ? 100 * diff / base->value : (double)NAN);
    compare_put_interval(object, "ci95_ms", diff, half, -(double)INFINITY);
    cJSON_AddBoolToObject(object, "changed", changed);
    return changed;
}

static const struct compare_test plain = {.strictness = 1, .floor = 0};

static void add_part(cJSON *object, const char *key, const struct compare_number *base,
                     const struct compare_number *other)
{
    cJSON *part = cJSON_AddObjectToObject(object, key);

    compare_put(part, "base_ms", base->value);
    compare_put(part, "ms", other->value);
    compare_put_interval(part, "ms_ci95_ms", other->value, other->half, 0);
    (void)compare_put_change(part, base, other, &plain);
}

/* Mean of the steps, or of a part of them, with half its 95 % interval. */
static struct compare_number mean_of(const cJSON *document, const char *part)
{
    const cJSON *train = MEMBER(document, "summary", "train");
    const cJSON *ends = MEMBER(train, "ci95_ms", part);
    char key[32] = "mean_ms";
    struct compare_number number;

    if (strcmp(part, "step") != 0)
        (void)snprintf(key, sizeof(key), "%s_ms", part);
    number.value = NUMBER(train, key);
    /* By its upper end: the lower one stops at 0. */
    number.half = members_number(cJSON_GetArrayItem(ends, 1)) - number.value;
    return number;
}

static void add_steps(cJSON *object, const cJSON *base, const cJSON *other)
{
    const struct compare_number steps[2] = {mean_of(base, "step"),
                                            mean_of(other, "step")};
    cJSON *list;

    add_part(object, "step_ms", &steps[0], &steps[1]);
    list = cJSON_AddObjectToObject(object, "phases");
    for (uint32_t i = 0; i <= EVENT_PHASES; i++) {
        const char *name = wire_phase_word(i);
        const struct compare_number parts[2] = {mean_of(base, name),
                                                mean_of(other, name)};

        add_part(list, name, &parts[0], &parts[1]);
    }
}

/* Of that device. */
static const cJSON *row_of(const cJSON *list, const char *device)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, list)
    {
        if (strcmp(TEXT(row, "device"), device) == 0)
            return row;
    }
    return NULL;
}

static void add_peak(cJSON *list, const char *device, const cJSON *base,
                     const cJSON *other)
{
    double before = NUMBER(base, "bytes"), after = NUMBER(other, "bytes");
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, "device", device);
    compare_put(row, "base_bytes", before);
    compare_put(row, "bytes", after);
    compare_put(row, "diff_bytes", after - before);
    compare_put(row, "diff_pct",
                before > 0 ? 100 * (after - before) / before : (double)NAN);
    cJSON_AddItemToArray(list, row);
}

static void add_memory(cJSON *object, const cJSON *base, const cJSON *other)
{
    cJSON *list = cJSON_AddArrayToObject(object, "memory");
    const cJSON *before = MEMBER(base, "memory_peaks"),
                *after = MEMBER(other, "memory_peaks"), *peak;

    if (!cJSON_IsArray(before) || !cJSON_IsArray(after))
        return; /* not kept is not the same as none */
    cJSON_ArrayForEach(peak, before)
        add_peak(list, TEXT(peak, "device"), peak, row_of(after, TEXT(peak, "device")));
    cJSON_ArrayForEach(peak, after)
    {
        if (row_of(before, TEXT(peak, "device")) == NULL)
            add_peak(list, TEXT(peak, "device"), NULL, peak);
    }
}

/* Each number of the base's object that the other has too. Nothing says how much they
 * vary from step to step: no interval. */
static void add_numbers(cJSON *object, const cJSON *base, const cJSON *other)
{
    const cJSON *one;

    cJSON_ArrayForEach(one, base)
    {
        const cJSON *twin = cJSON_GetObjectItemCaseSensitive(other, one->string);
        struct compare_number before = {members_number(one), (double)NAN};
        struct compare_number after = {members_number(twin), (double)NAN};

        if (cJSON_IsNumber(one) && cJSON_IsNumber(twin))
            add_part(object, one->string, &before, &after);
    }
}

static void add_devices(cJSON *object, const cJSON *base, const cJSON *other)
{
    cJSON *list = cJSON_AddArrayToObject(object, "gpu"), *row;
    const cJSON *one;

    cJSON_ArrayForEach(one, MEMBER(base, "gpu"))
    {
        const char *device = TEXT(one, "device");
        const cJSON *before = MEMBER(one, "per_step_ms");
        const cJSON *after =
            MEMBER(row_of(MEMBER(other, "gpu"), device), "per_step_ms");

        if (!cJSON_IsObject(before) || !cJSON_IsObject(after))
            continue;
        row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "device", device);
        add_numbers(row, before, after);
        add_numbers(cJSON_AddObjectToObject(row, "idle"), MEMBER(before, "idle"),
                    MEMBER(after, "idle"));
        cJSON_AddItemToArray(list, row);
    }
}

/* Who it is: enough to find it again. */
static void add_who(cJSON *object, const cJSON *document)
{
    static const char *const texts[] = {"name", "session", "file",
                                        "host", "state",   "from"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (*TEXT(document, texts[i]) != '\0')
            cJSON_AddStringToObject(object, texts[i], TEXT(document, texts[i]));
    compare_put(object, "rank", NUMBER(document, "rank"));
    compare_put(object, "steps", NUMBER(document, "steps"));
    compare_put(object, "recorded_steps", NUMBER(document, "recorded_steps"));
    compare_put(object, "lost_events", NUMBER(document, "lost_events"));
    if (cJSON_IsArray(MEMBER(document, "lacks")))
        cJSON_AddItemToObject(object, "lacks",
                              cJSON_Duplicate(MEMBER(document, "lacks"), true));
}

static cJSON *compare_one(const cJSON *base, const cJSON *other)
{
    cJSON *object = cJSON_CreateObject();
    bool steps = NUMBER(base, "steps") > 0 && NUMBER(other, "steps") > 0;

    add_who(object, other);
    cJSON_AddStringToObject(object, "per", steps ? "step" : "run");
    add_steps(object, base, other);
    add_memory(object, base, other);
    add_devices(object, base, other);
    compare_add_findings(object, base, other);
    compare_add_ops(object, base, other, steps);
    if (!steps)
        cJSON_AddStringToObject(object, "reason",
                                "one of them has no steps: all of it is compared, and "
                                "nothing says what is noise");
    return object;
}

cJSON *compare_documents(const cJSON *base, const cJSON *const *others, unsigned count)
{
    static const char *const first[] = {"per", "step_ms",  "phases",          "memory",
                                        "gpu", "findings", "findings_reason", "ops"};
    cJSON *body = cJSON_CreateObject(), *list;

    add_who(cJSON_AddObjectToObject(body, "base"), base);
    list = cJSON_AddArrayToObject(body, "others");
    for (unsigned i = 0; i < count; i++)
        cJSON_AddItemToArray(list, compare_one(base, others[i]));
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        cJSON_AddItemToObject(body, first[i],
                              cJSON_Duplicate(MEMBER(list->child, first[i]), true));
    cJSON_AddArrayToObject(body, "failed");
    return body;
}

/* ---- what is kept of a document ----------------------------------------------------------------- */

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

static void copy_rows(cJSON *to, const cJSON *from, const char *list,
                      const char *const *keys)
{
    cJSON *rows = cJSON_AddArrayToObject(to, list), *kept;
    const cJSON *row;

    cJSON_ArrayForEach(row, MEMBER(from, list))
    {
        kept = cJSON_CreateObject();
        copy_all(kept, row, keys);
        cJSON_AddItemToArray(rows, kept);
    }
}

cJSON *compare_extract(const cJSON *document)
{
    static const char *const keys[] = {"rank",        "steps",        "recorded_steps",
                                       "lost_events", "memory_peaks", "findings_reason",
                                       NULL};
    static const char *const of_device[] = {"device", "name", "per_step_ms", NULL};
    static const char *const of_finding[] = {
        "id",     "title", "ms_per_step", "ms_per_step_low", "ms_per_step_high",
        "advice", NULL};
    static const char *const of_op[] = {"name",           "kind",
                                        "total_ms",       "per_step_ms",
                                        "per_step_count", "per_step_ci95_ms",
                                        "short_name",     NULL};
    cJSON *kept = cJSON_CreateObject(), *ops;

    copy_all(kept, document, keys);
    copy(cJSON_AddObjectToObject(kept, "summary"), MEMBER(document, "summary"),
         "train");
    copy_rows(kept, document, "gpu", of_device);
    if (cJSON_IsArray(
            MEMBER(document, "findings"))) /* not kept is not the same as none */
        copy_rows(kept, document, "findings", of_finding);
    ops = cJSON_AddObjectToObject(kept, "ops");
    copy_rows(ops, MEMBER(document, "ops"), "cpu", of_op);
    copy_rows(ops, MEMBER(document, "ops"), "cuda", of_op);
    copy(ops, MEMBER(document, "ops"), "total");
    return kept;
}
