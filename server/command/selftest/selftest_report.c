/* What `selftest overhead` found, for people and as JSON. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command/selftest/selftest.h"
#include "command/terminal.h"
#include "query/numbers.h"

#define COMMAND_SHOWN 200

enum selftest_verdict selftest_judge(const struct selftest *selftest)
{
    const struct paired_estimate *overhead = &selftest->overhead;

    return overhead->high_pct <= selftest->budget_pct ? SELFTEST_WITHIN
           : overhead->low_pct > selftest->budget_pct ? SELFTEST_OVER
                                                      : SELFTEST_UNDECIDED;
}

/* Of what all watched runs say, the median of each number: what one run tells. */
static bool own_of_runs(const struct selftest *selftest, struct own_figure *typical)
{
    double columns[3][PAIRED_GROUPS_MAX];
    uint32_t counts[3] = {0};

    for (uint32_t i = 0; i < selftest->own_count; i++) {
        const struct own_figure *own = &selftest->own[i];
        const double row[3] = {own->measured_pct, own->low_pct, own->high_pct};

        for (int j = 0; j < 3; j++)
            if (!isnan(row[j]))
                columns[j][counts[j]++] = row[j];
    }
    for (int j = 0; j < 3; j++)
        numbers_sort(columns[j], counts[j]);
    *typical = (struct own_figure){
        .measured_pct = numbers_quantile(columns[0], counts[0], 0.5),
        .low_pct = numbers_quantile(columns[1], counts[1], 0.5),
        .high_pct = numbers_quantile(columns[2], counts[2], 0.5)};
    return selftest->own_count > 0;
}

static bool has_interval(const struct paired_estimate *estimate)
{
    return isfinite(estimate->low_pct) && isfinite(estimate->high_pct);
}

/* Do the intervals share a number? A figure without one has to lie in the other's. */
static bool meets(const struct own_figure *own, const struct paired_estimate *outside)
{
    double low = isnan(own->low_pct) ? own->measured_pct : own->low_pct;
    double high = isnan(own->high_pct) ? own->measured_pct : own->high_pct;

    return low <= outside->high_pct && outside->low_pct <= high;
}

static uint32_t runs_that_meet(const struct selftest *selftest)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < selftest->own_count; i++)
        count += meets(&selftest->own[i], &selftest->overhead);
    return count;
}

static void add_pct(cJSON *object, const char *key, double pct)
{
    if (isfinite(pct))
        cJSON_AddNumberToObject(object, key, round(pct * 1000) / 1000);
    else
        cJSON_AddNullToObject(object, key);
}

/* A figure in per cent and its 95 % interval. */
static void add_figure(cJSON *object, const char *key, double pct, double low,
                       double high)
{
    const double ends[] = {round(low * 1000) / 1000, round(high * 1000) / 1000};

    add_pct(object, key, pct);
    if (isfinite(low) && isfinite(high))
        cJSON_AddItemToObject(object, "ci95_pct", cJSON_CreateDoubleArray(ends, 2));
    else
        cJSON_AddNullToObject(object, "ci95_pct");
}

static cJSON *add_estimate(cJSON *document, const char *key,
                           const struct paired_ratios *ratios,
                           const struct paired_estimate *estimate)
{
    cJSON *object = cJSON_AddObjectToObject(document, key), *pairs;

    add_figure(object, "pct", estimate->pct, estimate->low_pct, estimate->high_pct);
    pairs = cJSON_AddArrayToObject(object, "pairs_pct");
    for (uint32_t i = 0; i < ratios->group_count; i++)
        cJSON_AddItemToArray(
            pairs,
            cJSON_CreateNumber(round(paired_group_pct(ratios, i) * 1000) / 1000));
    return object;
}

static void add_own(cJSON *document, const struct selftest *selftest)
{
    cJSON *object = cJSON_AddObjectToObject(document, "own"), *each;
    struct own_figure own;
    bool known = own_of_runs(selftest, &own);

    add_figure(object, "measured_pct", own.measured_pct, own.low_pct, own.high_pct);
    each = cJSON_AddArrayToObject(object, "each");
    for (uint32_t i = 0; i < selftest->own_count; i++) {
        const struct own_figure *one = &selftest->own[i];
        cJSON *run = cJSON_CreateObject();

        cJSON_AddItemToArray(each, run);
        add_figure(run, "measured_pct", one->measured_pct, one->low_pct, one->high_pct);
    }
    cJSON_AddNumberToObject(object, "runs", selftest->ratios.group_count);
    cJSON_AddNumberToObject(object, "runs_with_figure", selftest->own_count);
    cJSON_AddNumberToObject(object, "runs_that_meet", runs_that_meet(selftest));
    if (known && has_interval(&selftest->overhead))
        cJSON_AddBoolToObject(object, "meets", meets(&own, &selftest->overhead));
    else
        cJSON_AddNullToObject(object, "meets");
}

static int report_json(const struct selftest *selftest)
{
    static const char *const verdicts[] = {[SELFTEST_WITHIN] = "within",
                                           [SELFTEST_OVER] = "over",
                                           [SELFTEST_UNDECIDED] = "undecided"};
    const struct options *options = &selftest->invocation->options;
    cJSON *document = cJSON_CreateObject();
    cJSON *command = cJSON_AddArrayToObject(document, "command"), *overhead;
    bool steps = selftest->kind == PAIR_STEPS;

    for (char *const *word = selftest->command; *word != NULL; word++)
        cJSON_AddItemToArray(command, cJSON_CreateString(*word));
    cJSON_AddStringToObject(document, "level", options_text(options, OPTION_LEVEL));
    cJSON_AddNumberToObject(document, "budget_pct", selftest->budget_pct);
    cJSON_AddBoolToObject(document, "at_the_same_time", selftest->pair.together);
    cJSON_AddStringToObject(document, "compared", steps ? "steps" : "wall_time");
    if (steps)
        cJSON_AddNumberToObject(document, "step_ms", selftest->step_ns / 1e6);
    else
        cJSON_AddNumberToObject(document, "wall_s", selftest->wall_s);
    add_estimate(document, "control", &selftest->control_ratios, &selftest->control);
    overhead =
        add_estimate(document, "overhead", &selftest->ratios, &selftest->overhead);
    if (steps)
        add_pct(overhead, "us_per_step",
                selftest->overhead.pct / 100 * selftest->step_ns / 1e3);
    add_own(document, selftest);
    cJSON_AddStringToObject(document, "verdict", verdicts[selftest_judge(selftest)]);
    return command_print_json(document);
}

static void print_figure(const char *what, double pct, double low, double high)
{
    char interval[48] = "no interval";

    if (isfinite(low) && isfinite(high))
        (void)snprintf(interval, sizeof(interval), "[%.2f, %.2f]", low, high);
    printf("  %-34s %+7.2f %%  %-18s", what, pct, interval);
}

static void print_own(const struct selftest *selftest)
{
    struct own_figure own;

    if (!own_of_runs(selftest, &own)) {
        printf("  %-34s none in %u runs\n", "the product's own figure",
               selftest->ratios.group_count);
        return;
    }
    print_figure("the product's own figure", own.measured_pct, own.low_pct,
                 own.high_pct);
    printf("  in %u of %u runs\n", selftest->own_count, selftest->ratios.group_count);
    if (!has_interval(&selftest->overhead)) {
        printf("\n  Whether the two meet is not known: one pair has no interval.\n");
        return;
    }
    printf("\n  The two %s; in %u of %u runs the run's own interval meets the one "
           "from outside.\n",
           meets(&own, &selftest->overhead) ? "meet" : "do not meet",
           runs_that_meet(selftest), selftest->ratios.group_count);
}

static void print_head(const struct selftest *selftest)
{
    char line[COMMAND_SHOWN] = "";
    size_t length = 0;

    for (char *const *word = selftest->command;
         *word != NULL && length + 1 < sizeof(line); word++) {
        (void)snprintf(line + length, sizeof(line) - length, "%s%s",
                       length > 0 ? " " : "", *word);
        length = strlen(line);
    }
    terminal_clean(line);
    printf("%s\n", line);
    if (selftest->pair.together)
        printf("bare and watched at the same time on cores %d and %d, cores swapped",
               selftest->pair.cores[0], selftest->pair.cores[1]);
    else
        printf("bare and watched one after the other on core %d (%s)",
               selftest->pair.cores[0], selftest->apart_reason);
    if (selftest->kind == PAIR_STEPS)
        printf("; a step takes %.3g ms\n\n", selftest->step_ns / 1e6);
    else
        printf("\nno step was seen: compared is the time from start to end, %.3g s\n\n",
               selftest->wall_s);
}

static void print_verdict(const struct selftest *selftest)
{
    enum selftest_verdict verdict = selftest_judge(selftest);

    if (verdict != SELFTEST_UNDECIDED)
        printf("  %s the budget of %g %%.\n",
               verdict == SELFTEST_WITHIN ? "Within" : "Over", selftest->budget_pct);
    else if (has_interval(&selftest->overhead))
        printf("  Undecided: the interval holds the budget of %g %%; more --pairs make "
               "it narrower.\n",
               selftest->budget_pct);
    else
        printf("  Undecided: one pair has no interval to compare with the budget "
               "of %g %%; more --pairs have.\n",
               selftest->budget_pct);
}

int selftest_report(const struct selftest *selftest)
{
    const struct paired_estimate *control = &selftest->control,
                                 *overhead = &selftest->overhead;

    if (selftest->invocation->json)
        return report_json(selftest);
    print_head(selftest);
    print_figure("bare against bare (method's error)", control->pct, control->low_pct,
                 control->high_pct);
    printf("  %u pairs\n", selftest->control_ratios.group_count);
    print_figure("watched against bare, from outside", overhead->pct, overhead->low_pct,
                 overhead->high_pct);
    printf("  %u pairs", selftest->ratios.group_count);
    if (selftest->kind == PAIR_STEPS)
        printf(", %+.3g us a step", overhead->pct / 100 * selftest->step_ns / 1e3);
    putchar('\n');
    print_own(selftest);
    print_verdict(selftest);
    return command_end_output();
}
