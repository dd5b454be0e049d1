/* Where the numbers of --fail-on stand in the answers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/fail_on.h"
#include "report/members.h"

static void exact(struct fail_on_measure *measure, double value)
{
    *measure = (struct fail_on_measure){.value = value, .low = value, .high = value};
}

static bool interval(struct fail_on_measure *measure, double value, const cJSON *ends)
{
    *measure =
        (struct fail_on_measure){.value = value,
                                 .low = members_number(cJSON_GetArrayItem(ends, 0)),
                                 .high = members_number(cJSON_GetArrayItem(ends, 1))};
    return !isnan(measure->value) && !isnan(measure->low) && !isnan(measure->high);
}

struct look {
    const struct fail_on *expression;
    const cJSON *report;
    const cJSON *train; /* steps.summary.train */
    struct fail_on_measure *measure;
    char *reason;
    size_t size;
};

static int no_data(const struct look *look, const char *why)
{
    snprintf(look->reason, look->size, "%s", why);
    return -ENODATA;
}

/* Times in ms to what was asked for. */
static int scaled(const struct look *look)
{
    double step = NUMBER(look->train, "mean_ms"), factor = 100 / step;

    if (look->expression->unit != FAIL_ON_PERCENT)
        return 0;
    if (isnan(step) || step <= 0)
        return no_data(look, "no step was seen");
    look->measure->value *= factor;
    look->measure->low *= factor;
    look->measure->high *= factor;
    return 0;
}

static int look_up_step(const struct look *look)
{
    static const char *const keys[FAIL_ON_NAMES] = {
        [FAIL_ON_STEP] = "mean_ms",         [FAIL_ON_STEP_P95] = "p95_ms",
        [FAIL_ON_DATA] = "data_ms",         [FAIL_ON_FORWARD] = "forward_ms",
        [FAIL_ON_BACKWARD] = "backward_ms", [FAIL_ON_OPTIMIZER] = "optimizer_ms",
        [FAIL_ON_OTHER] = "other_ms"};
    enum fail_on_name name = look->expression->name;
    double count = NUMBER(look->train, "count"),
           value = NUMBER(look->train, keys[name]);
    const cJSON *ends = MEMBER(look->train, "ci95_ms", fail_on_word(name));
    char why[96];

    if (!(count > 0))
        return no_data(look, "no step was seen");
    if (isnan(value))
        return no_data(look, "that part of the steps was not seen");
    if (!interval(look->measure, value, ends)) {
        snprintf(why, sizeof(why), "%.0f steps are too few for a 95 %% interval",
                 count);
        return no_data(look, why);
    }
    return scaled(look);
}

/* `cause` "": all of them. */
static double sum_of_causes(const cJSON *idle, const char *cause)
{
    const cJSON *part;
    double sum = 0;

    cJSON_ArrayForEach(part, idle)
    {
        if (cJSON_IsNumber(part) &&
            (*cause == '\0' || strcmp(part->string, cause) == 0))
            sum += part->valuedouble;
    }
    return sum;
}

/* The device that works: of one that was given none, idling is no loss. */
static int look_up_idle(const struct look *look)
{
    const cJSON *device, *why = MEMBER(look->report, "gpu", "reason");
    const char *busiest = TEXT(look->report, "gpu", "busiest");

    cJSON_ArrayForEach(device, MEMBER(look->report, "gpu", "devices"))
    {
        const cJSON *idle = MEMBER(device, "per_step_ms", "idle");

        if (!cJSON_IsObject(idle) || strcmp(TEXT(device, "device"), busiest) != 0)
            continue;
        exact(look->measure, sum_of_causes(idle, look->expression->subject));
        return scaled(look);
    }
    return no_data(look,
                   cJSON_IsString(why) ? why->valuestring : "no GPU time was recorded");
}

/* The fullest: an accelerator where there is one, else the process on its host. */
static int look_up_memory(const struct look *look)
{
    bool percent = look->expression->unit == FAIL_ON_PERCENT;
    const cJSON *device, *host = MEMBER(look->report, "memory", "host");
    double most = (double)NAN, cpu = (double)NAN;

    cJSON_ArrayForEach(device, MEMBER(look->report, "memory", "devices"))
    {
        const char *name = TEXT(device, "device");
        double peak = NUMBER(device, "peak_bytes");
        double value = percent ? 100 * peak / NUMBER(device, "total_bytes") : peak;

        if (strcmp(name, "cpu") == 0)
            cpu = value;
        else if (!isnan(value))
            most = isnan(most) || value > most ? value : most;
    }
    if (isnan(most)) {
        double peak = NUMBER(host, "rss_bytes");
        const cJSON *points = MEMBER(host, "points"), *point;

        cJSON_ArrayForEach(point, points)
        {
            double rss = members_number(cJSON_GetArrayItem(point, 1));

            peak = isnan(peak) || rss > peak ? rss : peak;
        }
        most = percent ? 100 * peak / NUMBER(host, "limit_bytes") : peak;
        most = isnan(most) ? cpu : most; /* files know what was allocated alone */
    }
    if (isnan(most))
        return no_data(look, "no memory was recorded");
    exact(look->measure, most);
    return 0;
}

static int look_up_overhead(const struct look *look)
{
    double value = NUMBER(look->report, "overhead", "measured_pct");
    const char *why = TEXT(look->report, "overhead", "reason");

    if (isnan(value))
        return no_data(look,
                       *why != '\0'
                           ? why
                           : "the cost has not been measured: the run was too short");
    if (!interval(look->measure, value, MEMBER(look->report, "overhead", "ci95_pct")))
        exact(look->measure, value); /* a fixed level: calibrated, not estimated */
    return 0;
}

bool fail_on_is_of_rule(const char *id, const char *subject)
{
    size_t length = strlen(subject);

    return strncmp(id, subject, length) == 0 &&
           (id[length] == '\0' || id[length] == '-');
}

/* The dearest of its rule. A price that too few steps back may be nothing or twice. */
static int look_up_finding(const struct look *look)
{
    static const char *const lists[] = {"findings", "dismissed"};
    const cJSON *finding;

    /* The rules want some steps before they speak: without, nothing was looked for. */
    if (!(NUMBER(look->train, "count") >=
          NUMBER(look->report, "bottlenecks", "steps_needed")))
        return no_data(look, "there are too few steps to look for findings");
    *look->measure = (struct fail_on_measure){.value = 0};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        cJSON_ArrayForEach(finding, MEMBER(look->report, "bottlenecks", lists[i]))
        {
            double ms = NUMBER(finding, "ms_per_step");
            double low = NUMBER(finding, "ms_per_step_low");
            double high = NUMBER(finding, "ms_per_step_high");

            if (fail_on_is_of_rule(TEXT(finding, "id"), look->expression->subject) &&
                ms >= look->measure->value)
                *look->measure =
                    (struct fail_on_measure){.value = ms,
                                             .low = isnan(low) ? 0 : low,
                                             .high = isnan(high) ? 2 * ms : high,
                                             .open = !(ms > 0)};
        }
    }
    return scaled(look);
}

int fail_on_look_up(const struct fail_on *expression, const struct cJSON *report,
                    struct fail_on_measure *measure, char *reason, size_t size)
{
    struct look look = {.expression = expression,
                        .report = report,
                        .train = MEMBER(report, "steps", "summary", "train"),
                        .measure = measure,
                        .reason = reason,
                        .size = size};

    switch (expression->name) {
    case FAIL_ON_IDLE:
        return look_up_idle(&look);
    case FAIL_ON_MEMORY:
        return look_up_memory(&look);
    case FAIL_ON_OVERHEAD:
        return look_up_overhead(&look);
    case FAIL_ON_FINDING:
        return look_up_finding(&look);
    default:
        return look_up_step(&look);
    }
}

enum fail_on_verdict fail_on_judge(const struct fail_on *expression,
                                   const cJSON *report, char *text, size_t size)
{
    struct fail_on_measure measure;

    if (fail_on_look_up(expression, report, &measure, text, size) != 0)
        return FAIL_ON_NO_DATA;
    fail_on_describe(expression, &measure, text, size);
    return fail_on_found(expression, &measure) ? FAIL_ON_HOLDS : FAIL_ON_NOT_FOUND;
}

cJSON *fail_on_json(const struct fail_on *expression, enum fail_on_verdict verdict,
                    const char *text)
{
    cJSON *part = cJSON_CreateObject();

    cJSON_AddStringToObject(part, "expression", expression->text);
    cJSON_AddBoolToObject(part, "found", verdict == FAIL_ON_HOLDS);
    cJSON_AddStringToObject(part, verdict == FAIL_ON_NO_DATA ? "reason" : "measured",
                            text);
    return part;
}
