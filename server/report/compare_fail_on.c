/* Where the numbers of --fail-on stand in a comparison: per cent are a change against the
 * base, ms and bytes are what the other has. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/compare.h"
#include "report/members.h"

/* A part of step or phases: {base_ms, ms, ms_ci95_ms, diff_ms, ci95_ms}. */
static bool read_part(const cJSON *part, bool percent, struct fail_on_measure *measure)
{
    const cJSON *ends = MEMBER(part, percent ? "ci95_ms" : "ms_ci95_ms");
    double factor = percent ? 100 / NUMBER(part, "base_ms") : 1;

    measure->value = factor * NUMBER(part, percent ? "diff_ms" : "ms");
    measure->low = factor * members_number(cJSON_GetArrayItem(ends, 0));
    measure->high = factor * members_number(cJSON_GetArrayItem(ends, 1));
    return isfinite(measure->value) && isfinite(measure->low) &&
           isfinite(measure->high);
}

static void exact(struct fail_on_measure *measure, double value)
{
    *measure = (struct fail_on_measure){.value = value, .low = value, .high = value};
}

/* The device that works most in the base. */
static const cJSON *busiest_device(const cJSON *other)
{
    static const char *const uses[] = {"compute", "communication", "copy"};
    const cJSON *device, *busiest = NULL;
    double most = -1;

    cJSON_ArrayForEach(device, MEMBER(other, "gpu"))
    {
        double busy = 0;

        for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
            double ms = NUMBER(device, uses[i], "base_ms");

            busy += isnan(ms) ? 0 : ms;
        }
        if (!(busy > most))
            continue;
        most = busy;
        busiest = device;
    }
    return busiest;
}

static bool read_idle(const cJSON *other, const struct fail_on *expression,
                      struct fail_on_measure *measure)
{
    const cJSON *device = busiest_device(other), *cause;
    double now = 0, before = 0;

    cJSON_ArrayForEach(cause, MEMBER(device, "idle"))
    {
        if (*expression->subject != '\0' &&
            strcmp(cause->string, expression->subject) != 0)
            continue;
        now += NUMBER(cause, "ms");
        before += NUMBER(cause, "base_ms");
    }
    double more = now - before;

    if (more != 0) /* 0 of 0 is no more than it was */
        more = 100 * more / before;
    exact(measure, expression->unit == FAIL_ON_PERCENT ? more : now);
    return device != NULL && isfinite(measure->value);
}

/* Of the accelerator, else the host, where it is worst. */
static bool read_memory(const cJSON *other, bool percent,
                        struct fail_on_measure *measure)
{
    const cJSON *row;
    double most[2] = {(double)NAN, (double)NAN}; /* host, accelerators */

    cJSON_ArrayForEach(row, MEMBER(other, "memory"))
    {
        int which = strcmp(TEXT(row, "device"), "cpu") != 0;
        double value = NUMBER(row, percent ? "diff_pct" : "bytes");

        if (!isnan(value) && !(value <= most[which]))
            most[which] = value;
    }
    exact(measure, isnan(most[1]) ? most[0] : most[1]);
    return isfinite(measure->value);
}

/* The dearest of its rule, or in % the one that grew most, of the base's mean step. What
 * was not found costs nothing, or as little as is not told; of a price without an
 * interval, as much is unsure. */
static bool read_finding(const cJSON *other, const struct fail_on *expression,
                         struct fail_on_measure *measure)
{
    bool percent = expression->unit == FAIL_ON_PERCENT, found = false;
    double factor = percent ? 100 / NUMBER(other, "step_ms", "base_ms") : 1;
    const cJSON *row;

    exact(measure, 0);
    cJSON_ArrayForEach(row, MEMBER(other, "findings"))
    {
        const cJSON *ends = MEMBER(row, percent ? "ci95_ms" : "ms_per_step_ci95_ms");
        double value = NUMBER(row, percent ? "diff_ms" : "ms_per_step") * factor;
        double low = members_number(cJSON_GetArrayItem(ends, 0)) * factor;
        double high = members_number(cJSON_GetArrayItem(ends, 1)) * factor;

        if (!fail_on_is_of_rule(TEXT(row, "id"), expression->subject) || isnan(value) ||
            (found && value <= measure->value))
            continue;
        *measure =
            (struct fail_on_measure){.value = value,
                                     .low = isnan(low) ? fmin(2 * value, 0) : low,
                                     .high = isnan(high) ? fmax(2 * value, 0) : high};
        found = true;
    }
    return *TEXT(other, "findings_reason") == '\0' && isfinite(factor);
}

int compare_look_up(const struct fail_on *expression, const cJSON *other,
                    struct fail_on_measure *measure, char *reason, size_t size)
{
    bool percent = expression->unit == FAIL_ON_PERCENT, known = false;
    const char *why = TEXT(other, "findings_reason");

    switch (expression->name) {
    case FAIL_ON_STEP:
        known = read_part(MEMBER(other, "step_ms"), percent, measure);
        why = "both need two steps or more";
        break;
    case FAIL_ON_DATA:
    case FAIL_ON_FORWARD:
    case FAIL_ON_BACKWARD:
    case FAIL_ON_OPTIMIZER:
    case FAIL_ON_OTHER:
        known = read_part(MEMBER(other, "phases", fail_on_word(expression->name)),
                          percent, measure);
        why = "that part of the steps is not known on both sides";
        break;
    case FAIL_ON_IDLE:
        known = read_idle(other, expression, measure);
        why = "no device was recorded on both sides";
        break;
    case FAIL_ON_MEMORY:
        known = read_memory(other, percent, measure);
        why = "no memory peak is known on both sides";
        break;
    case FAIL_ON_FINDING:
        known = read_finding(other, expression, measure);
        why = *why != '\0' ? why : "the base has no steps";
        break;
    default:
        why = "compare knows step, data, forward, backward, optimizer, other, idle, "
              "memory and finding.ID";
    }
    if (known)
        return 0;
    (void)snprintf(reason, size, "%s", why);
    return -ENODATA;
}
