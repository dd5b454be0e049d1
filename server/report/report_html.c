/* The report as one HTML file: no script, nothing fetched, light and dark. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "report/members.h"
#include "report/page.h"
#include "report/report.h"
#include "wire/event.h"
#include "wire/words.h"

#define CHART_W 960.0
#define CHART_H 160.0

static const char style[] =
    ":root{color-scheme:light dark;--page:light-dark(#f4f5f7,#0e1218);"
    "--surface:light-dark(#fff,#151a22);--line:light-dark(#e2e5ea,#262d38);"
    "--ink:light-dark(#161b24,#e9edf3);--dim:light-dark(#5e6878,#8d98a9);"
    "--wait:light-dark(#a14f00,#f3ac48);--bad:light-dark(#b3261e,#ff8b80);"
    "--good:light-dark(#0e7449,#4cc38a);"
    "--data:light-dark(#e3962e,#f5ae45);--forward:light-dark(#93cbf5,#a7d8f9);"
    "--backward:light-dark(#3b68b9,#2477c9);--optimizer:light-dark(#4cb9a1,#5fafa6);"
    "--other:light-dark(#6c7583,#5a606a);--comm:light-dark(#8a5cc4,#a888dd);"
    "--sync:light-dark(#c9546c,#e17f93);--launch:light-dark(#d9c25b,#d6bf56);"
    "--unknown:light-dark(#c3c9d2,#39414d);--curve:light-dark(#3b68b9,#5b9be3)}"
    "body{margin:24px auto;max-width:1008px;padding:0 24px;background:var(--page);"
    "color:var(--ink);font:13px/18px system-ui,sans-serif;"
    "font-variant-numeric:tabular-nums}"
    "h1{font-size:22px;line-height:28px;margin:0 0 4px}h2{font-size:13px;margin:0 0 "
    "8px}"
    "article{border-top:2px solid var(--line);margin-top:32px;padding-top:16px;"
    "break-before:page}h3{font-size:14px;margin:12px 0 2px}p{margin:4px "
    "0}em{font-style:normal;"
    "color:var(--wait)}section{background:var(--surface);border:1px solid var(--line);"
    "border-radius:8px;padding:12px 16px;margin:16px 0}.dim{color:var(--dim)}"
    "table{border-collapse:collapse;width:100%}td,th{padding:4px 8px;text-align:right;"
    "border-bottom:1px solid "
    "var(--line);font-weight:400;white-space:nowrap}th{color:var(--dim)}"
    "td:first-child,th:first-child{text-align:left;white-space:normal;"
    "word-break:break-word}"
    ".bar{display:flex;height:28px;gap:1px;border-radius:3px;overflow:hidden}"
    ".bar i{min-width:1px}.key i{display:inline-block;width:10px;height:10px;"
    "border-radius:2px;margin:0 4px 0 12px}svg{width:100%;height:auto;display:block}"
    "code{font:12px "
    "ui-monospace,monospace}.bad{color:var(--bad)}.good{color:var(--good)}"
    ".data{background:var(--data)}.forward{background:var(--forward)}"
    ".backward{background:var(--backward)}.optimizer{background:var(--optimizer)}"
    ".other{background:var(--other)}"
    ".compute{background:var(--backward)}.communication{background:var(--comm)}"
    ".copy{background:var(--forward)}.idle-data{background:var(--data)}"
    ".idle-sync{background:var(--sync)}.idle-launch{background:var(--launch)}"
    ".idle-rest{background:var(--other)}.idle-unknown{background:var(--unknown)}"
    ".key span{white-space:nowrap}td small{display:block;color:var(--dim);"
    "font:11px/15px ui-monospace,monospace}td code{overflow-wrap:anywhere}"
    "svg text{fill:var(--dim);font:11px system-ui,sans-serif}.curve{fill:none;"
    "stroke:var(--curve);stroke-width:1.2}.reserved{stroke:var(--dim);"
    "stroke-dasharray:3 3}"
    "@media(max-width:840px){body{padding:0 12px}td,th{padding:4px}}"
    "@media "
    "print{:root{color-scheme:light}body{margin:0;max-width:none;background:#fff}"
    "section{break-inside:avoid-page;border-color:#ccc}section.long{break-inside:auto}"
    "tr,h3{break-inside:avoid}h2{break-after:avoid}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

static void begin_page(struct page *page, const char *title)
{
    page_put(page,
             "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta "
             "name=\"viewport\" content=\"width=device-width\"><meta "
             "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'\"><title>%s: trainglass</title><style>%s"
             "</style>",
             page_text(page, title), style);
}

static void put_head(struct page *page, const cJSON *report)
{
    const cJSON *session = members_session(report), *file = MEMBER(report, "file"),
                *found = MEMBER(report, "bottlenecks");
    double step = NUMBER(found, "step_ms", "mean"),
           avoid = NUMBER(found, "avoidable_ms"), steps = NUMBER(found, "steps"),
           rank = NUMBER(session, "rank"),
           cost = NUMBER(report, "overhead", "measured_pct");
    const char *cause = TEXT(session, "end", "cause");
    const char *losses = members_losses((char[MEMBERS_LOSSES_BYTES]){0}, session);

    if (isnan(step))
        page_put(page, "<h1>No step was seen.");
    else
        page_put(page, "<h1>A step takes %s. ", TIME(step));
    if (avoid > 0)
        page_put(page, "Up to <em>%s</em> of it is avoidable.", TIME(avoid));
    page_put(page, "</h1><p>%s, %.0f step%s, ", page_text(page, TEXT(session, "name")),
             steps, steps == 1 ? "" : "s");
    if (file != NULL)
        page_put(page, "%.0f events in %s", NUMBER(file, "events"),
                 TIME(NUMBER(file, "span_ms")));
    else
        page_put(page, "%s", page_text(page, TEXT(session, "state")));
    if (!isnan(rank))
        page_put(page, ", rank %.0f", rank);
    page_put(page, "%s%s", *cause != '\0' ? ": " : "", page_text(page, cause));
    if (!isnan(step))
        page_put(page, "; median %s, p95 %s", TIME(NUMBER(found, "step_ms", "p50")),
                 TIME(NUMBER(found, "step_ms", "p95")));
    if (!isnan(cost))
        page_put(page, "; recording cost %.2g %%", cost);
    page_put(page, "%s.</p>", page_interval(page, report));
    if (losses[0] != '\0')
        page_put(page, "<p>%s</p>", losses);
}

static void put_gate(struct page *page, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "fail_on"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page, "<section><h2>Gate</h2><table><tr><th>Expression<th><th>Measured"
                   "</tr>");
    cJSON_ArrayForEach(one, list)
    {
        bool found = cJSON_IsTrue(MEMBER(one, "found"));
        bool known = MEMBER(one, "measured") != NULL;

        page_put(page,
                 "<tr><td><code>%s</code></td><td class=\"%s\">%s</td><td>%s</td></tr>",
                 page_text(page, TEXT(one, "expression")),
                 known && !found ? "good" : "bad",
                 !known  ? "■ no data"
                 : found ? "■ found"
                         : "● not found",
                 page_text(page, TEXT(one, known ? "measured" : "reason")));
    }
    page_put(page, "</table></section>");
}

static bool any_known(const cJSON *shares)
{
    const cJSON *one;

    cJSON_ArrayForEach(one, shares)
    {
        if (cJSON_IsNumber(one))
            return true;
    }
    return false;
}

static void put_phases(struct page *page, const cJSON *report)
{
    const cJSON *shares = MEMBER(report, "bottlenecks", "phases");
    double step = NUMBER(report, "bottlenecks", "step_ms", "mean");

    if (isnan(step) || !any_known(shares))
        return;
    page_put(page, "<section><h2>Where a step goes</h2><div class=\"bar\">");
    for (uint32_t i = 0; i <= EVENT_PHASES; i++) {
        double share = NUMBER(shares, wire_phase_word(i));

        if (share > 0)
            page_put(page, "<i class=\"%s\" style=\"flex:%.4f\"></i>",
                     wire_phase_word(i), share);
    }
    page_put(page, "</div><p class=\"key\">");
    for (uint32_t i = 0; i <= EVENT_PHASES; i++) {
        const char *name = wire_phase_word(i);
        double share = NUMBER(shares, name);

        page_put(page, "<i class=\"%s\"></i>%s ", name, name);
        if (isnan(share))
            page_put(page, "–");
        else
            page_put(page, "%s <span class=\"dim\">%.1f %%</span>",
                     TIME(share / 100 * step), share);
    }
    page_put(page, "</p></section>");
}

/* Every step as a vertical line from zero: a spike is never lost. */
static void put_chart(struct page *page, const cJSON *report)
{
    const cJSON *steps = MEMBER(report, "steps", "steps"), *one;
    double from = NUMBER(report, "steps", "window", "from_ms");
    double to = NUMBER(report, "steps", "window", "to_ms"), top = 0;

    cJSON_ArrayForEach(one, steps)
    {
        double ms = NUMBER(one, "duration_ms");

        top = ms > top ? ms : top;
    }
    if (top <= 0 || !(to > from) || cJSON_GetArraySize(steps) < 2)
        return;
    page_put(page,
             "<section><h2>Step time <span class=\"dim\">0 to %s, over %.4g s"
             "</span></h2><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
             "aria-label=\"time of every step\"><path class=\"curve\" d=\"",
             TIME(top), (to - from) / 1e3, CHART_W, CHART_H);
    cJSON_ArrayForEach(one, steps)
    {
        double x = (NUMBER(one, "start_ms") - from) / (to - from) * CHART_W;
        double y = CHART_H - NUMBER(one, "duration_ms") / top * (CHART_H - 4);

        if (!isnan(x) && !isnan(y) && !cJSON_IsTrue(MEMBER(one, "validation")))
            page_put(page, "M%.1f %.0fV%.1f", x, CHART_H, y);
    }
    page_put(page, "\"/></svg></section>");
}

/* Where the server still runs, the trace of the worst step is to be had there. */
static void put_evidence(struct page *page, const cJSON *finding)
{
    const cJSON *evidence = MEMBER(finding, "evidence"), *one;
    double worst = NUMBER(evidence, "worst_step");
    const char *trace = TEXT(evidence, "trace");
    struct figure figure;

    if (cJSON_GetArraySize(evidence) < 2) /* the sentence alone */
        return;
    page_put(page, "<p class=\"dim\">");
    cJSON_ArrayForEach(one, evidence)
    {
        if (members_figure(one, &figure))
            page_put(page, "%s <b>%s</b> &nbsp; ", page_text(page, figure.name),
                     page_name(page, figure.value));
    }
    if (!isnan(worst))
        page_put(page, "worst step <b>%.0f</b>", worst);
    if (!isnan(worst) && trace[0] != '\0')
        page_put(page, ", its trace <code>%s</code> while the server runs",
                 page_text(page, trace));
    page_put(page, "</p>");
}

static void put_finding(struct page *page, const cJSON *finding)
{
    const cJSON *advice;
    double ms = NUMBER(finding, "ms_per_step"), share = 100 * NUMBER(finding, "share"),
           low = NUMBER(finding, "ms_per_step_low"),
           high = NUMBER(finding, "ms_per_step_high");

    page_put(page, "<h3>");
    if (ms > 0)
        page_put(page, "<em>%s</em> ", TIME(ms));
    page_put(page, "%s", page_text(page, TEXT(finding, "title")));
    if (ms > 0 && !isnan(share))
        page_put(page, " <span class=\"dim\">%.*f %% of a step</span>",
                 html_places(share), share);
    page_put(page, "</h3><p>");
    if (ms > 0 && high > low)
        page_put(page, "%s to %s per step, %s. ", TIME(low), TIME(high),
                 TEXT(finding, "confidence"));
    page_put(page, "%s. <span class=\"dim\">%s</span></p>",
             page_sentence(page, TEXT(finding, "evidence", "sentence")),
             page_text(page, TEXT(finding, "formula")));
    put_evidence(page, finding);
    page_put(page, "<ul>");
    cJSON_ArrayForEach(advice, MEMBER(finding, "advice"))
        page_put(page, "<li>%s</li>", page_sentence(page, members_text(advice)));
    page_put(page, "</ul><p class=\"dim\">Wrong if: %s</p>",
             page_sentence(page, TEXT(finding, "wrong_if")));
}

static void put_findings(struct page *page, const cJSON *report)
{
    const cJSON *one;
    const char *verdict = members_verdict((char[MEMBERS_VERDICT_BYTES]){0}, report);

    page_put(page, "<section><h2>Findings</h2>");
    if (verdict[0] != '\0')
        page_put(page, "<p>%s</p>", page_sentence(page, verdict));
    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "findings"))
        put_finding(page, one);
    page_former(page, report);
    page_put(page, "</section>");
}

/* Of a file as it was asked for, of a run the ops by their own time. */
static const cJSON *tables_of(const cJSON *report, const char *device, const char *top)
{
    const cJSON *asked = MEMBER(report, "ops", device);

    return asked != NULL ? asked : MEMBER(report, "bottlenecks", top);
}

static void put_report(struct page *page, const cJSON *report)
{
    put_head(page, report);
    put_gate(page, report);
    put_phases(page, report);
    put_chart(page, report);
    put_findings(page, report);
    page_what_ifs(page, report);
    html_devices(page, report);
    html_ops(page, "GPU", tables_of(report, "cuda", "top_cuda_ops"));
    html_ops(page, "CPU", tables_of(report, "cpu", "top_cpu_ops"));
    html_memory(page, report);
    html_file(page, report);
    page_put(page, "<p class=\"dim\">trainglass %s, session %s</p>",
             TEXT(report, "version"),
             page_text(page, TEXT(report, "bottlenecks", "session")));
}

static void write_several(struct page *page, const cJSON *reports, const cJSON *ranks)
{
    int count = cJSON_GetArraySize(reports), left = count;
    char title[48];
    const cJSON *one;

    (void)snprintf(title, sizeof(title), "%d traces", count);
    begin_page(page, title);
    page_put(page, "<h1>%s</h1>", title);
    cJSON_ArrayForEach(one, ranks) html_ranks(page, one);
    cJSON_ArrayForEach(one, reports)
    {
        if (ftell(page->out) > REPORT_HTML_BYTES || !cJSON_IsObject(one))
            break;
        page_put(page, "<article>");
        put_report(page, one);
        page_put(page, "</article>");
        left--;
    }
    if (left > 0)
        page_put(page,
                 "<p><em>%d more traces are left out: this page would be too large to "
                 "be read or sent.</em> Each has a page of its own with "
                 "<code>trainglass analyze FILE --html</code>.</p>",
                 left);
}

int report_write_html(const cJSON *report, FILE *out)
{
    struct page page = {.out = out, .html = true};
    const cJSON *several = MEMBER(report, "reports");

    if (several != NULL) {
        write_several(&page, several, MEMBER(report, "ranks"));
    } else {
        begin_page(&page, TEXT(members_session(report), "name"));
        put_report(&page, report);
    }
    page_put(&page, "</html>\n");
    return page.incomplete ? -ENOMEM : 0;
}
