/* The report as Markdown: a table per question, short enough for a pull request. */
#include <string.h>

#include "report/members.h"
#include "report/report.h"

#define GIB      (1024.0 * 1024 * 1024)
#define OPS_MAX  10
#define SLOW_MAX 5

static void put_character(FILE *out, char c)
{
    if (c == '<')
        fputs("&lt;", out);
    else if (strchr("\\|*_[]#", c) != NULL)
        fprintf(out, "\\%c", c);
    else
        fputc((unsigned char)c < 0x20 ? ' ' : c, out);
}

/* Foreign text: nothing in it may end a cell, a line or begin a tag. */
static void put_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        put_character(out, *c);
}

/* The backtick that ends the code which begins here; NULL: it is none, or not surely, as
 * where several stand side by side. */
static const char *end_of_code(const char *text, const char *c)
{
    const char *end = *c == '`' ? strchr(c + 1, '`') : NULL;

    return end != NULL && end > c + 1 && end[1] != '`' && (c == text || c[-1] != '`')
               ? end
               : NULL;
}

/* Ours, with foreign names in it: as foreign text, but code between backticks as it is. */
static void put_sentence(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        const char *end = end_of_code(text, c);

        for (; end != NULL && c < end; c++)
            if (*c == '<')
                fputs("&lt;", out);
            else
                fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
        if (end != NULL)
            fputc('`', out);
        else
            put_character(out, *c);
    }
}

/* Three digits, and no power of ten. */
static void put_number(FILE *out, double value, const char *unit)
{
    if (isnan(value))
        fputs("–", out);
    else
        fprintf(out, fabs(value) >= 999.5 ? "%.0f%s" : "%.3g%s", value, unit);
}

static void put_headline(FILE *out, const cJSON *report)
{
    const cJSON *interval = MEMBER(report, "overhead", "ci95_pct");
    const cJSON *session = members_session(report),
                *found = MEMBER(report, "bottlenecks");
    double step = NUMBER(found, "step_ms", "mean"),
           avoid = NUMBER(found, "avoidable_ms");
    const char *losses = members_losses((char[MEMBERS_LOSSES_BYTES]){0}, session);

    fputs("# ", out);
    put_text(out, TEXT(session, "name"));
    fputs("\n\n", out);
    if (isnan(step))
        fputs("No step was seen.", out);
    else
        fprintf(out, "**A step takes %s.** ", TIME(step));
    if (avoid > 0)
        fprintf(out, "Up to %s of it is avoidable.", TIME(avoid));
    fprintf(out, "\n\n%.0f steps, ", NUMBER(found, "steps"));
    put_text(out, TEXT(session, "state"));
    if (*TEXT(session, "end", "cause") != '\0')
        fputs(": ", out);
    put_text(out, TEXT(session, "end", "cause"));
    fputs("; median ", out);
    fputs(TIME(NUMBER(found, "step_ms", "p50")), out);
    fputs(", p95 ", out);
    fputs(TIME(NUMBER(found, "step_ms", "p95")), out);
    fputs(", cost of recording ", out);
    put_number(out, NUMBER(report, "overhead", "measured_pct"), " %");
    if (cJSON_IsArray(interval))
        fprintf(out, " (95 %%: %.2g to %.2g %%)",
                members_number(cJSON_GetArrayItem(interval, 0)),
                members_number(cJSON_GetArrayItem(interval, 1)));
    fprintf(out, ". Session `%s`.\n", TEXT(found, "session"));
    if (losses[0] != '\0')
        fprintf(out, "\n%s\n", losses);
}

static void put_gate(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "fail_on"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fputs("\n## Gate\n\n| Expression | | Measured |\n|---|---|---|\n", out);
    cJSON_ArrayForEach(one, list)
    {
        bool found = cJSON_IsTrue(MEMBER(one, "found"));
        bool known = MEMBER(one, "measured") != NULL;

        fputs("| ", out);
        put_text(out, TEXT(one, "expression"));
        fprintf(out, " | %s | ",
                !known  ? "no data"
                : found ? "**found**"
                        : "not found");
        put_text(out, known ? TEXT(one, "measured") : TEXT(one, "reason"));
        fputs(" |\n", out);
    }
}

static void put_phases(FILE *out, const cJSON *report)
{
    static const char *const names[] = {"data", "forward", "backward", "optimizer",
                                        "other"};
    double step = NUMBER(report, "bottlenecks", "step_ms", "mean");

    fputs("\n## Where a step goes\n\n| Phase | ms per step | of the step "
          "|\n|---|--:|--:|\n",
          out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        double share = NUMBER(report, "bottlenecks", "phases", names[i]);

        fprintf(out, "| %s | ", names[i]);
        put_number(out, share / 100 * step, "");
        fputs(" | ", out);
        put_number(out, share, " %");
        fputs(" |\n", out);
    }
}

static void put_price(FILE *out, const cJSON *finding)
{
    double low = NUMBER(finding, "ms_per_step_low");
    double high = NUMBER(finding, "ms_per_step_high");

    double share = NUMBER(finding, "share");

    fprintf(out, ": %s per step", TIME(NUMBER(finding, "ms_per_step")));
    if (!isnan(share)) {
        fputs(", ", out);
        put_number(out, 100 * share, " % of it");
    }
    if (high > low)
        fprintf(out, " (%s to %s, %s)", TIME(low), TIME(high),
                TEXT(finding, "confidence"));
}

static void put_figure(FILE *out, const char *text)
{
    int length = figure_length(text);

    for (int i = 0; i < length; i++) {
        if (text[i] == '`') /* no code begins here */
            fputc('\\', out);
        put_character(out, text[i]);
    }
    if (text[length] != '\0')
        fputs("…", out);
}

static void put_evidence(FILE *out, const cJSON *finding)
{
    const cJSON *evidence = MEMBER(finding, "evidence"), *one;
    double worst = NUMBER(evidence, "worst_step");
    const char *trace = TEXT(evidence, "trace"), *before = "";
    struct figure figure;

    cJSON_ArrayForEach(one, evidence)
    {
        if (!members_figure(one, &figure))
            continue;
        fprintf(out, "%s%s ", before, figure.name);
        put_figure(out, figure.value);
        before = "; ";
    }
    if (!isnan(worst))
        fprintf(out, "%sthe worst step is %.0f", before, worst);
    if (!isnan(worst) && trace[0] != '\0')
        fprintf(out, ", its trace `%s` while the server runs", trace);
    if (before[0] != '\0' || !isnan(worst))
        fputs(".\n\n", out);
}

/* Nothing of a finding without a price: that is not 0 ms. */
static void put_cost(FILE *out, const cJSON *finding, const char *before)
{
    double ms = NUMBER(finding, "ms_per_step");

    if (ms > 0)
        fprintf(out, "%s%s per step", before, TIME(ms));
}

/* What is no longer on the list, and why. */
static void put_former(FILE *out, const cJSON *report)
{
    const cJSON *one;

    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "fixed"))
    {
        fprintf(out, "\nFixed since step %.0f: ", NUMBER(one, "fixed_step"));
        put_text(out, TEXT(one, "title"));
        put_cost(out, one, ", it cost ");
        fputs(".\n", out);
    }
    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "dismissed"))
    {
        fputs("\nDismissed: ", out);
        put_text(out, TEXT(one, "title"));
        put_cost(out, one, ", ");
        fputs(". ", out);
        put_text(out, TEXT(one, "reason"));
        fputc('\n', out);
    }
}

static void put_what_ifs(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "bottlenecks", "what_if"), *one;

    if (cJSON_GetArraySize(list) > 0)
        fputs("\n## What if\n\n", out);
    cJSON_ArrayForEach(one, list)
        fprintf(out, "- %s, a step would take %s to %s.\n", TEXT(one, "title"),
                TIME(NUMBER(one, "step_ms_low")), TIME(NUMBER(one, "step_ms_high")));
}

static void put_findings(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "bottlenecks", "findings"), *one, *advice;
    char text[MEMBERS_VERDICT_BYTES];
    const char *verdict = members_verdict(text, report);

    fputs("\n## Findings\n", out);
    if (verdict[0] != '\0') {
        fputc('\n', out);
        put_sentence(out, verdict);
        fputc('\n', out);
    }
    cJSON_ArrayForEach(one, list)
    {
        fputs("\n### ", out);
        put_sentence(out, TEXT(one, "title"));
        if (NUMBER(one, "ms_per_step") > 0)
            put_price(out, one);
        fputs("\n\n", out);
        put_sentence(out, TEXT(one, "evidence", "sentence"));
        fputs(" (", out);
        put_text(out, TEXT(one, "formula"));
        fputs(").\n\n", out);
        put_evidence(out, one);
        cJSON_ArrayForEach(advice, MEMBER(one, "advice"))
        {
            fputs("- ", out);
            put_sentence(out, members_text(advice));
            fputc('\n', out);
        }
        fputs("\nWrong if: ", out);
        put_sentence(out, TEXT(one, "wrong_if"));
        fputc('\n', out);
    }
    put_former(out, report);
}

static void put_ops(FILE *out, const char *title, const cJSON *list)
{
    const cJSON *one;
    int left = OPS_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fprintf(out,
            "\n## %s\n\n| Name | ms per step | calls per step | of the step |\n"
            "|---|--:|--:|--:|\n",
            title);
    cJSON_ArrayForEach(one, list)
    {
        if (left-- == 0)
            break;
        fputs("| ", out);
        put_text(out, *TEXT(one, "short_name") != '\0' ? TEXT(one, "short_name")
                                                      : TEXT(one, "name"));
        fputs(" | ", out);
        put_number(out, NUMBER(one, "per_step_ms"), "");
        fputs(" | ", out);
        put_number(out, NUMBER(one, "per_step_count"), "");
        fputs(" | ", out);
        put_number(out, 100 * NUMBER(one, "share"), " %");
        fputs(" |\n", out);
    }
}

static void put_slow(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "steps", "slow"), *one;
    int left = SLOW_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fputs("\n## Newest slow steps\n\n| Step | took | cause |\n|--:|--:|---|\n", out);
    cJSON_ArrayForEach(one, list)
    {
        if (left-- == 0)
            break;
        fprintf(out, "| %.0f | %s | %s |\n", NUMBER(one, "number"),
                TIME(NUMBER(one, "duration_ms")), TEXT(one, "cause"));
    }
}

static void put_memory(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "memory", "devices"), *one;
    double rss = NUMBER(report, "memory", "host", "rss_bytes");

    fputs("\n## Memory\n\n| Device | peak | of |\n|---|--:|--:|\n", out);
    cJSON_ArrayForEach(one, list)
    {
        fputs("| ", out);
        put_text(out, TEXT(one, "device"));
        fputs(" (allocator) | ", out);
        put_number(out, NUMBER(one, "peak_bytes") / GIB, " GiB");
        fputs(" | ", out);
        put_number(out, NUMBER(one, "total_bytes") / GIB, " GiB");
        fputs(" |\n", out);
    }
    fputs("| process, resident | ", out);
    put_number(out, rss / GIB, " GiB");
    fputs(" | ", out);
    put_number(out, NUMBER(report, "memory", "host", "limit_bytes") / GIB, " GiB");
    fputs(" |\n", out);
}

void report_write_markdown(const cJSON *report, FILE *out)
{
    put_headline(out, report);
    put_gate(out, report);
    put_phases(out, report);
    put_findings(out, report);
    put_what_ifs(out, report);
    put_slow(out, report);
    put_ops(out, "GPU", MEMBER(report, "bottlenecks", "top_cuda_ops"));
    put_ops(out, "CPU", MEMBER(report, "bottlenecks", "top_cpu_ops"));
    put_memory(out, report);
    fprintf(out, "\ntrainglass %s\n", TEXT(report, "version"));
}
