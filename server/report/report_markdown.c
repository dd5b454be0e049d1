/* The report as Markdown: a table per question, short enough for a pull request. */
#include <errno.h>
#include <string.h>

#include "report/members.h"
#include "report/page.h"
#include "report/report.h"
#include "wire/event.h"
#include "wire/words.h"

#define GIB      (1024.0 * 1024 * 1024)
#define OPS_MAX  10
#define SLOW_MAX 5

/* Three digits, and no power of ten. */
static const char *number(struct page *page, double value, const char *unit)
{
    if (isnan(value))
        return "–";
    return fabs(value) >= 999.5 ? page_format(page, "%.0f%s", value, unit)
                                : page_format(page, "%.3g%s", value, unit);
}

static void put_headline(struct page *page, const cJSON *report)
{
    const cJSON *session = members_session(report),
                *found = MEMBER(report, "bottlenecks");
    double step = NUMBER(found, "step_ms", "mean"),
           avoid = NUMBER(found, "avoidable_ms");
    const char *cause = TEXT(session, "end", "cause");
    const char *losses = members_losses((char[MEMBERS_LOSSES_BYTES]){0}, session);

    page_put(page, "# %s\n\n", page_text(page, TEXT(session, "name")));
    if (isnan(step))
        page_put(page, "No step was seen.");
    else
        page_put(page, "**A step takes %s.** ", TIME(step));
    if (avoid > 0)
        page_put(page, "Up to %s of it is avoidable.", TIME(avoid));
    page_put(page, "\n\n%.0f steps, %s%s%s; median %s, p95 %s, ",
             NUMBER(found, "steps"), page_text(page, TEXT(session, "state")),
             *cause != '\0' ? ": " : "", page_text(page, cause),
             TIME(NUMBER(found, "step_ms", "p50")),
             TIME(NUMBER(found, "step_ms", "p95")));
    page_put(page, "cost of recording %s%s. Session `%s`.\n",
             number(page, NUMBER(report, "overhead", "measured_pct"), " %"),
             page_interval(page, report), TEXT(found, "session"));
    if (losses[0] != '\0')
        page_put(page, "\n%s\n", losses);
}

static void put_gate(struct page *page, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "fail_on"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page, "\n## Gate\n\n| Expression | | Measured |\n|---|---|---|\n");
    cJSON_ArrayForEach(one, list)
    {
        bool known = MEMBER(one, "measured") != NULL;

        page_put(page, "| %s | %s | %s |\n", page_text(page, TEXT(one, "expression")),
                 !known                               ? "no data"
                 : cJSON_IsTrue(MEMBER(one, "found")) ? "**found**"
                                                      : "not found",
                 page_text(page, TEXT(one, known ? "measured" : "reason")));
    }
}

static void put_phases(struct page *page, const cJSON *report)
{
    double step = NUMBER(report, "bottlenecks", "step_ms", "mean");

    page_put(page, "\n## Where a step goes\n\n| Phase | ms per step | of the step "
                   "|\n|---|--:|--:|\n");
    for (uint32_t i = 0; i <= EVENT_PHASES; i++) {
        const char *name = wire_phase_word(i);
        double share = NUMBER(report, "bottlenecks", "phases", name);

        page_put(page, "| %s | %s | %s |\n", name, number(page, share / 100 * step, ""),
                 number(page, share, " %"));
    }
}

static const char *price(struct page *page, const cJSON *finding)
{
    double low = NUMBER(finding, "ms_per_step_low");
    double high = NUMBER(finding, "ms_per_step_high");
    double share = NUMBER(finding, "share");
    const char *interval = "";

    if (!(NUMBER(finding, "ms_per_step") > 0))
        return "";
    if (high > low)
        interval = page_format(page, " (%s to %s, %s)", TIME(low), TIME(high),
                               TEXT(finding, "confidence"));
    return page_format(
        page, "%s%s%s%s", page_cost(page, finding, ": "), isnan(share) ? "" : ", ",
        isnan(share) ? "" : number(page, 100 * share, " % of it"), interval);
}

/* No code begins in it, whatever backticks it has. */
static void put_figure(struct page *page, const char *text)
{
    int length = figure_length(text);
    const char *rest = page_text(page, page_format(page, "%.*s", length, text));

    for (; *rest != '\0'; rest++)
        fprintf(page->out, *rest == '`' ? "\\%c" : "%c", *rest);
    page_put(page, text[length] != '\0' ? "…" : "");
}

static void put_evidence(struct page *page, const cJSON *finding)
{
    const cJSON *evidence = MEMBER(finding, "evidence"), *one;
    double worst = NUMBER(evidence, "worst_step");
    const char *trace = TEXT(evidence, "trace"), *before = "";
    struct figure figure;

    cJSON_ArrayForEach(one, evidence)
    {
        if (!members_figure(one, &figure))
            continue;
        page_put(page, "%s%s ", before, figure.name);
        put_figure(page, figure.value);
        before = "; ";
    }
    if (!isnan(worst))
        page_put(page, "%sthe worst step is %.0f", before, worst);
    if (!isnan(worst) && trace[0] != '\0')
        page_put(page, ", its trace `%s` while the server runs", trace);
    if (before[0] != '\0' || !isnan(worst))
        page_put(page, ".\n\n");
}

static void put_findings(struct page *page, const cJSON *report)
{
    const cJSON *one, *advice;
    const char *verdict = members_verdict((char[MEMBERS_VERDICT_BYTES]){0}, report);

    page_put(page, "\n## Findings\n");
    if (verdict[0] != '\0')
        page_put(page, "\n%s\n", page_sentence(page, verdict));
    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "findings"))
    {
        page_put(page, "\n### %s%s\n\n%s (%s).\n\n",
                 page_sentence(page, TEXT(one, "title")), price(page, one),
                 page_sentence(page, TEXT(one, "evidence", "sentence")),
                 page_text(page, TEXT(one, "formula")));
        put_evidence(page, one);
        cJSON_ArrayForEach(advice, MEMBER(one, "advice"))
            page_put(page, "- %s\n", page_sentence(page, members_text(advice)));
        page_put(page, "\nWrong if: %s\n", page_sentence(page, TEXT(one, "wrong_if")));
    }
    page_former(page, report);
}

static void put_ops(struct page *page, const char *title, const cJSON *list)
{
    const cJSON *one;
    int left = OPS_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page,
             "\n## %s\n\n| Name | ms per step | calls per step | of the step |\n"
             "|---|--:|--:|--:|\n",
             title);
    cJSON_ArrayForEach(one, list)
    {
        const char *name = TEXT(one, "short_name");

        if (left-- == 0)
            break;
        page_put(page, "| %s | %s | %s | %s |\n",
                 page_text(page, *name != '\0' ? name : TEXT(one, "name")),
                 number(page, NUMBER(one, "per_step_ms"), ""),
                 number(page, NUMBER(one, "per_step_count"), ""),
                 number(page, 100 * NUMBER(one, "share"), " %"));
    }
}

static void put_slow(struct page *page, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "steps", "slow"), *one;
    int left = SLOW_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page,
             "\n## Newest slow steps\n\n| Step | took | cause |\n|--:|--:|---|\n");
    cJSON_ArrayForEach(one, list)
    {
        if (left-- == 0)
            break;
        page_put(page, "| %.0f | %s | %s |\n", NUMBER(one, "number"),
                 TIME(NUMBER(one, "duration_ms")), TEXT(one, "cause"));
    }
}

static void put_memory(struct page *page, const cJSON *report)
{
    const cJSON *host = MEMBER(report, "memory", "host"), *one;

    page_put(page, "\n## Memory\n\n| Device | peak | of |\n|---|--:|--:|\n");
    cJSON_ArrayForEach(one, MEMBER(report, "memory", "devices")) page_put(
        page, "| %s (allocator) | %s | %s |\n", page_text(page, TEXT(one, "device")),
        number(page, NUMBER(one, "peak_bytes") / GIB, " GiB"),
        number(page, NUMBER(one, "total_bytes") / GIB, " GiB"));
    page_put(page, "| process, resident | %s | %s |\n",
             number(page, NUMBER(host, "rss_bytes") / GIB, " GiB"),
             number(page, NUMBER(host, "limit_bytes") / GIB, " GiB"));
}

int report_write_markdown(const cJSON *report, FILE *out)
{
    struct page page = {.out = out};

    put_headline(&page, report);
    put_gate(&page, report);
    put_phases(&page, report);
    put_findings(&page, report);
    page_what_ifs(&page, report);
    put_slow(&page, report);
    put_ops(&page, "GPU", MEMBER(report, "bottlenecks", "top_cuda_ops"));
    put_ops(&page, "CPU", MEMBER(report, "bottlenecks", "top_cpu_ops"));
    put_memory(&page, report);
    page_put(&page, "\ntrainglass %s\n", TEXT(report, "version"));
    return page.incomplete ? -ENOMEM : 0;
}
