/* The comparison on a terminal: what changed first, then what did not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command/files/compare.h"
#include "command/terminal.h"
#include "report/members.h"

#define MS      1e6
#define NUMBERS 32u /* columns beside a name: what it is, its rank and steps */
#define WIDE    96u /* room for the interval behind a change */
#define MIB     (1024.0 * 1024)
#define GIB     (1024.0 * MIB)

/* "+12.3 ms"; the sign always, for it is the answer. */
static void print_difference(double ms, int width)
{
    double size = fabs(ms);

    printf("%+*.*f", width,
           size >= 1000                 ? 0
           : size >= 100                ? 1
           : size >= 1                  ? 2
           : size >= 0.001 || size == 0 ? 3
                                        : 6,
           ms);
}

/* Ten characters; of what is many times as much, how many. */
static void print_percent(double percent)
{
    double times = 1 + percent / 100;
    char text[32] = "";

    if (percent >= 1000)
        (void)snprintf(text, sizeof(text), times >= 1000 ? "x %.0f" : "x %.1f", times);
    else if (!isnan(percent))
        (void)snprintf(text, sizeof(text), "%+.1f %%",
                       fabs(percent) < 0.05 ? 0 : percent);
    printf("%10s", text);
}

/* "slower", "faster", or why it is neither. */
static const char *verdict(const cJSON *part)
{
    if (!cJSON_IsArray(MEMBER(part, "ci95_ms")))
        return "";
    if (!cJSON_IsTrue(MEMBER(part, "changed")))
        return "within the noise";
    return NUMBER(part, "diff_ms") > 0 ? "slower" : "faster";
}

static void print_part(const char *name, const cJSON *part, uint32_t columns)
{
    const cJSON *ends = MEMBER(part, "ci95_ms");

    double before = NUMBER(part, "base_ms"), after = NUMBER(part, "ms");

    if (isnan(before) || isnan(after) || (before == 0 && after == 0))
        return;
    printf("  %-14s%s -> %s ms ", name, MS_TEXT(before * MS, 9),
           MS_TEXT(after * MS, 9));
    print_difference(NUMBER(part, "diff_ms"), 9);
    print_percent(NUMBER(part, "diff_pct"));
    printf("  %s", verdict(part));
    if (columns >= WIDE && cJSON_IsArray(ends) &&
        cJSON_IsTrue(MEMBER(part, "changed"))) {
        fputs(" (95 %: ", stdout);
        print_difference(members_number(cJSON_GetArrayItem(ends, 0)), 0);
        fputs(" to ", stdout);
        print_difference(members_number(cJSON_GetArrayItem(ends, 1)), 0);
        putchar(')');
    }
    putchar('\n');
}

/* Is there anything below a device's heading? */
static bool has_rows(const cJSON *device)
{
    const cJSON *use;

    cJSON_ArrayForEach(use, device)
    {
        double before = NUMBER(use, "base_ms"), after = NUMBER(use, "ms");

        if (!isnan(before) && !isnan(after) && (before > 0 || after > 0))
            return true;
    }
    return false;
}

static void print_steps(const cJSON *other, uint32_t columns)
{
    const cJSON *step = MEMBER(other, "step_ms"), *phase, *device, *use;
    char name[64];

    print_part("step", step, columns);
    if (cJSON_IsNumber(MEMBER(step, "diff_ms")) &&
        !cJSON_IsArray(MEMBER(step, "ci95_ms")))
        terminal_wrapped("",
                         "The spread of the steps is not known: what follows may be "
                         "chance, and nothing is called a change.",
                         2, columns);
    cJSON_ArrayForEach(phase, MEMBER(other, "phases"))
        print_part(strcmp(phase->string, "data") == 0 ? "data loading" : phase->string,
                   phase, columns);
    cJSON_ArrayForEach(device, MEMBER(other, "gpu"))
    {
        if (!has_rows(device) && !has_rows(MEMBER(device, "idle")))
            continue;
        printf("\n%s, per step\n", TEXT(device, "device"));
        cJSON_ArrayForEach(use, device)
        {
            if (cJSON_IsObject(use) && cJSON_IsNumber(MEMBER(use, "base_ms")))
                print_part(use->string, use, columns);
        }
        cJSON_ArrayForEach(use, MEMBER(device, "idle"))
        {
            (void)snprintf(name, sizeof(name), "idle, %.40s", use->string);
            print_part(name, use, columns);
        }
    }
}

static void print_memory(const cJSON *other)
{
    const cJSON *row;

    if (cJSON_GetArraySize(MEMBER(other, "memory")) > 0)
        fputs("\nMemory peaks\n", stdout);
    cJSON_ArrayForEach(row, MEMBER(other, "memory"))
    {
        double before = NUMBER(row, "base_bytes"), after = NUMBER(row, "bytes");
        bool large = before >= GIB || after >= GIB;
        double unit = large ? GIB : MIB;

        printf("  %-14s", TEXT(row, "device"));
        if (isnan(before) || isnan(after))
            printf("%s\n", isnan(before) ? "only here" : "only in the base");
        else
            printf("%9.3f -> %9.3f %s%+9.3f%+7.1f %%\n", before / unit, after / unit,
                   large ? "GiB" : "MiB",
                   fabs(after - before) < unit / 2000 ? 0 : (after - before) / unit,
                   fabs(NUMBER(row, "diff_pct")) < 0.05 ? 0 : NUMBER(row, "diff_pct"));
    }
}

static void print_heads(const char *what, uint32_t width)
{
    fputs("  ", stdout);
    terminal_cell(what, width);
    printf("%10s%10s %10s\n", "base", "now", "change");
}

/* One that came or went, or whose price changed; without intervals each difference. */
static bool is_told(const cJSON *finding)
{
    return strcmp(TEXT(finding, "state"), "same") != 0 ||
           cJSON_IsTrue(MEMBER(finding, "changed")) ||
           (!cJSON_IsArray(MEMBER(finding, "ci95_ms")) &&
            NUMBER(finding, "diff_ms") != 0);
}

/* One that came or went, and may be no more than that it is told on one side alone. */
static bool may_be_the_same(const cJSON *row)
{
    return cJSON_IsArray(MEMBER(row, "ci95_ms")) && NUMBER(row, "diff_ms") != 0 &&
           !cJSON_IsTrue(MEMBER(row, "changed")) &&
           strcmp(TEXT(row, "state"), "same") != 0;
}

static void print_finding(const cJSON *row, uint32_t width, uint32_t columns)
{
    const char *state = TEXT(row, "state"), *advice = TEXT(row, "advice");

    fputs("  ", stdout);
    terminal_cell(TEXT(row, "title"), width);
    printf("%s%s ", MS_TEXT(NUMBER(row, "base_ms_per_step") * MS, 10),
           MS_TEXT(NUMBER(row, "ms_per_step") * MS, 10));
    print_difference(NUMBER(row, "diff_ms"), 10);
    printf(" %s%s\n", strcmp(state, "same") == 0 ? "" : state,
           may_be_the_same(row) ? "?" : "");
    if (may_be_the_same(row))
        terminal_wrapped("  ", "less than what is told may be on the other side", 6,
                         columns);
    if (*advice != '\0')
        terminal_wrapped("- ", advice, 6, columns);
}

static void print_findings(const cJSON *other, uint32_t columns)
{
    const char *reason = TEXT(other, "findings_reason");
    uint32_t width = columns - 38, gone = 0, new = 0, changed = 0;
    const cJSON *row;

    if (*reason != '\0') {
        putchar('\n');
        terminal_wrapped("", reason, 2, columns);
    }
    if (cJSON_GetArraySize(MEMBER(other, "findings")) == 0)
        return;
    cJSON_ArrayForEach(row, MEMBER(other, "findings"))
    {
        const char *state = TEXT(row, "state");

        gone += strcmp(state, "gone") == 0;
        new += strcmp(state, "new") == 0;
        changed += strcmp(state, "same") == 0 && is_told(row);
    }
    printf("\nBottlenecks: %u gone, %u new, %u changed\n", gone, new, changed);
    if (gone + new + changed > 0)
        print_heads("ms per step", width);
    cJSON_ArrayForEach(row, MEMBER(other, "findings"))
    {
        if (is_told(row))
            print_finding(row, width, columns);
    }
}

static void print_op(const cJSON *row, uint32_t width)
{
    const char *state = TEXT(row, "state"), *short_name = TEXT(row, "short_name");

    fputs("  ", stdout);
    terminal_cell(*short_name != '\0' ? short_name : TEXT(row, "name"), width);
    printf("%s%s ", MS_TEXT(NUMBER(row, "base_per_step_ms") * MS, 10),
           MS_TEXT(NUMBER(row, "per_step_ms") * MS, 10));
    print_difference(NUMBER(row, "diff_ms"), 10);
    print_percent(NUMBER(row, "diff_pct"));
    printf(" %s\n", strcmp(state, "same") == 0 ? "" : state);
}

static void print_ops(const cJSON *other, uint32_t top, uint32_t columns)
{
    uint32_t width = columns - 53, shown = 0, changed = 0;
    /* Of so few steps nothing is called a change: the largest differences are shown. */
    bool certain = cJSON_IsArray(MEMBER(MEMBER(other, "step_ms"), "ci95_ms"));
    const cJSON *row;

    if (cJSON_GetArraySize(MEMBER(other, "ops")) == 0)
        return; /* none on both sides, or not kept: that was said */
    cJSON_ArrayForEach(
        row, MEMBER(other, "ops")) if (cJSON_IsTrue(MEMBER(row, "changed"))) changed++;
    printf("\nOps: %u changed, %.0f new, %.0f gone\n", changed,
           NUMBER(other, "new_ops"), NUMBER(other, "gone_ops"));
    cJSON_ArrayForEach(row, MEMBER(other, "ops"))
    {
        if (shown == top || (certain && !cJSON_IsTrue(MEMBER(row, "changed"))))
            break;
        if (shown == 0)
            print_heads(strcmp(TEXT(other, "per"), "run") == 0 ? "ms in all"
                                                               : "ms per step",
                        width);
        shown++;
        print_op(row, width);
    }
    if (changed > shown)
        printf("  and %u more\n", changed - shown);
}

static void print_who(const char *what, const cJSON *who, uint32_t columns)
{
    const char *name = TEXT(who, "name");
    const cJSON *sentence;

    printf("%-8s", what);
    if (strlen(name) > columns - NUMBERS)
        terminal_cell(name, columns - NUMBERS);
    else
        fputs(name, stdout);
    if (NUMBER(who, "rank") >= 0)
        printf(", rank %.0f", NUMBER(who, "rank"));
    printf(", %.0f step%s\n", NUMBER(who, "steps"),
           NUMBER(who, "steps") == 1 ? "" : "s");
    if (strcmp(TEXT(who, "from"), "run store") == 0)
        printf("        run %.40s of %.24s, as it was kept\n", TEXT(who, "session"),
               TEXT(who, "host"));
    cJSON_ArrayForEach(sentence, MEMBER(who, "lacks"))
        terminal_wrapped("", members_text(sentence), 8, columns);
}

void compare_report(const cJSON *comparison, const struct compare_options *options)
{
    uint32_t columns = terminal_columns();
    const cJSON *other;

    print_who("base", MEMBER(comparison, "base"), columns);
    cJSON_ArrayForEach(other, MEMBER(comparison, "others"))
    {
        print_who("against", other, columns);
        if (*TEXT(other, "reason") != '\0')
            terminal_wrapped("", TEXT(other, "reason"), 2, columns);
        putchar('\n');
        print_steps(other, columns);
        print_findings(other, columns);
        print_memory(other);
        print_ops(other, options->top, columns);
    }
}
