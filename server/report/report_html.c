/* The report as one HTML file: no script, nothing fetched, light and dark. */
#include <stdbool.h>
#include <string.h>

#include "report/html.h"
#include "report/members.h"
#include "report/report.h"

#define NAME_BYTES 200u /* kernels have names of some thousand bytes */
#define CHART_W    960.0
#define CHART_H    160.0

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

static void put_char(FILE *out, char c)
{
    switch (c) {
    case '&':
        fputs("&amp;", out);
        break;
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    case '\'':
        fputs("&#39;", out);
        break;
    default:
        fputc((unsigned char)c < 0x20 ? ' ' : c, out);
    }
}

void html_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(out, *text);
}

void html_bar(FILE *out, const struct html_part *parts, int count, double whole_ms)
{
    fputs("<div class=\"bar\">", out);
    for (int i = 0; i < count; i++)
        if (parts[i].ms > 0)
            fprintf(out, "<i class=\"%s\" style=\"flex:%.6f\"></i>", parts[i].class,
                    parts[i].ms / whole_ms);
    fputs("</div><p class=\"key\">", out);
    for (int i = 0; i < count; i++)
        if (parts[i].ms > 0)
            fprintf(out,
                    "<span><i class=\"%s\"></i>%s %s <span class=\"dim\">%.1f "
                    "%%</span></span> ",
                    parts[i].class, parts[i].name, TIME(parts[i].ms),
                    100 * parts[i].ms / whole_ms);
    fputs("</p>", out);
}

void html_name(FILE *out, const char *text)
{
    size_t length = strlen(text), head = NAME_BYTES * 3 / 4, tail;

    if (length <= NAME_BYTES) {
        html_text(out, text);
        return;
    }
    tail = length - NAME_BYTES / 4;
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80)
        head--;
    while (tail < length && ((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    for (size_t i = 0; i < head; i++)
        put_char(out, text[i]);
    fputs(" … ", out);
    html_text(out, text + tail);
}

/* Code between backticks. */
static void put_sentence(FILE *out, const char *text)
{
    bool code = false;

    for (; *text != '\0'; text++) {
        if (*text != '`') {
            put_char(out, *text);
            continue;
        }
        fputs(code ? "</code>" : "<code>", out);
        code = !code;
    }
    if (code)
        fputs("</code>", out);
}

void html_cell(FILE *out, const char *unit, double value, int digits)
{
    if (isnan(value))
        fputs("<td>–</td>", out);
    else
        fprintf(out, "<td>%.*f%s%s</td>", digits, value, *unit ? " " : "", unit);
}

int html_places(double value)
{
    return value >= 100 || isnan(value) ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
}

static void begin_page(FILE *out, const char *title)
{
    fputs("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta "
          "name=\"viewport\" content=\"width=device-width\"><meta "
          "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'\"><title>",
          out);
    html_text(out, title);
    fprintf(out, ": trainglass</title><style>%s</style>", style);
}

static void put_head(FILE *out, const cJSON *report)
{
    const cJSON *interval = MEMBER(report, "overhead", "ci95_pct");
    const cJSON *session = members_session(report), *file = MEMBER(report, "file"),
                *found = MEMBER(report, "bottlenecks");
    double step = NUMBER(found, "step_ms", "mean"),
           avoid = NUMBER(found, "avoidable_ms");
    const char *losses = members_losses((char[MEMBERS_LOSSES_BYTES]){0}, session);

    fputs("<h1>", out);
    if (isnan(step))
        fputs("No step was seen.", out);
    else
        fprintf(out, "A step takes %s. ", TIME(step));
    if (avoid > 0)
        fprintf(out, "Up to <em>%s</em> of it is avoidable.", TIME(avoid));
    fputs("</h1><p>", out);
    html_text(out, TEXT(session, "name"));
    fprintf(out, ", %.0f step%s, ", NUMBER(found, "steps"),
            NUMBER(found, "steps") == 1 ? "" : "s");
    if (file != NULL)
        fprintf(out, "%.0f events in %s", NUMBER(file, "events"),
                TIME(NUMBER(file, "span_ms")));
    else
        html_text(out, TEXT(session, "state"));
    if (!isnan(NUMBER(session, "rank")))
        fprintf(out, ", rank %.0f", NUMBER(session, "rank"));
    fputs(*TEXT(session, "end", "cause") != '\0' ? ": " : "", out);
    html_text(out, TEXT(session, "end", "cause"));
    if (!isnan(step))
        fprintf(out, "; median %s, p95 %s", TIME(NUMBER(found, "step_ms", "p50")),
                TIME(NUMBER(found, "step_ms", "p95")));
    if (!isnan(NUMBER(report, "overhead", "measured_pct")))
        fprintf(out, "; recording cost %.2g %%",
                NUMBER(report, "overhead", "measured_pct"));
    if (cJSON_IsArray(interval))
        fprintf(out, " (95 %%: %.2g to %.2g %%)",
                members_number(cJSON_GetArrayItem(interval, 0)),
                members_number(cJSON_GetArrayItem(interval, 1)));
    fputs(".</p>", out);
    if (losses[0] != '\0')
        fprintf(out, "<p>%s</p>", losses);
}

static void put_gate(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "fail_on"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fputs("<section><h2>Gate</h2><table><tr><th>Expression<th><th>Measured</tr>", out);
    cJSON_ArrayForEach(one, list)
    {
        bool found = cJSON_IsTrue(MEMBER(one, "found"));
        bool known = MEMBER(one, "measured") != NULL;

        fputs("<tr><td><code>", out);
        html_text(out, TEXT(one, "expression"));
        fprintf(out, "</code></td><td class=\"%s\">%s</td><td>",
                known && !found ? "good" : "bad",
                !known  ? "■ no data"
                : found ? "■ found"
                        : "● not found");
        html_text(out, known ? TEXT(one, "measured") : TEXT(one, "reason"));
        fputs("</td></tr>", out);
    }
    fputs("</table></section>", out);
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

static void put_phases(FILE *out, const cJSON *report)
{
    static const char *const names[] = {"data", "forward", "backward", "optimizer",
                                        "other"};
    const cJSON *shares = MEMBER(report, "bottlenecks", "phases");
    double step = NUMBER(report, "bottlenecks", "step_ms", "mean");

    if (isnan(step) || !any_known(shares))
        return;
    fputs("<section><h2>Where a step goes</h2><div class=\"bar\">", out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        double share = NUMBER(shares, names[i]);

        if (share > 0)
            fprintf(out, "<i class=\"%s\" style=\"flex:%.4f\"></i>", names[i], share);
    }
    fputs("</div><p class=\"key\">", out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        double share = NUMBER(shares, names[i]);

        fprintf(out, "<i class=\"%s\"></i>%s ", names[i], names[i]);
        if (isnan(share))
            fputs("–", out);
        else
            fprintf(out, "%s <span class=\"dim\">%.1f %%</span>",
                    TIME(share / 100 * step), share);
    }
    fputs("</p></section>", out);
}

/* Every step as a vertical line from zero: a spike is never lost. */
static void put_chart(FILE *out, const cJSON *report)
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
    fprintf(out,
            "<section><h2>Step time <span class=\"dim\">0 to %s, over %.4g s"
            "</span></h2><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "aria-label=\"time of every step\"><path class=\"curve\" d=\"",
            TIME(top), (to - from) / 1e3, CHART_W, CHART_H);
    cJSON_ArrayForEach(one, steps)
    {
        double x = (NUMBER(one, "start_ms") - from) / (to - from) * CHART_W;
        double y = CHART_H - NUMBER(one, "duration_ms") / top * (CHART_H - 4);

        if (!isnan(x) && !isnan(y) && !cJSON_IsTrue(MEMBER(one, "validation")))
            fprintf(out, "M%.1f %.0fV%.1f", x, CHART_H, y);
    }
    fputs("\"/></svg></section>", out);
}

/* Where the server still runs, the trace of the worst step is to be had there. */
static void put_evidence(FILE *out, const cJSON *finding)
{
    const cJSON *evidence = MEMBER(finding, "evidence"), *one;
    double worst = NUMBER(evidence, "worst_step");
    const char *trace = TEXT(evidence, "trace");
    struct figure figure;

    if (cJSON_GetArraySize(evidence) < 2) /* the sentence alone */
        return;
    fputs("<p class=\"dim\">", out);
    cJSON_ArrayForEach(one, evidence)
    {
        if (!members_figure(one, &figure))
            continue;
        html_text(out, figure.name);
        fputs(" <b>", out);
        html_name(out, figure.value);
        fputs("</b> &nbsp; ", out);
    }
    if (!isnan(worst))
        fprintf(out, "worst step <b>%.0f</b>", worst);
    if (!isnan(worst) && trace[0] != '\0') {
        fputs(", its trace <code>", out);
        html_text(out, trace);
        fputs("</code> while the server runs", out);
    }
    fputs("</p>", out);
}

static void put_finding(FILE *out, const cJSON *finding)
{
    const cJSON *advice;
    double ms = NUMBER(finding, "ms_per_step");

    fputs("<h3>", out);
    double low = NUMBER(finding, "ms_per_step_low");
    double high = NUMBER(finding, "ms_per_step_high");

    double share = NUMBER(finding, "share");

    if (ms > 0)
        fprintf(out, "<em>%s</em> ", TIME(ms));
    html_text(out, TEXT(finding, "title"));
    if (ms > 0 && !isnan(share))
        fprintf(out, " <span class=\"dim\">%.*f %% of a step</span>",
                html_places(100 * share), 100 * share);
    fputs("</h3><p>", out);
    if (ms > 0 && high > low)
        fprintf(out, "%s to %s per step, %s. ", TIME(low), TIME(high),
                TEXT(finding, "confidence"));
    put_sentence(out, TEXT(finding, "evidence", "sentence"));
    fputs(". <span class=\"dim\">", out);
    html_text(out, TEXT(finding, "formula"));
    fputs("</span></p>", out);
    put_evidence(out, finding);
    fputs("<ul>", out);
    cJSON_ArrayForEach(advice, MEMBER(finding, "advice"))
    {
        fputs("<li>", out);
        put_sentence(out, members_text(advice));
        fputs("</li>", out);
    }
    fputs("</ul><p class=\"dim\">Wrong if: ", out);
    put_sentence(out, TEXT(finding, "wrong_if"));
    fputs("</p>", out);
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
        fprintf(out,
                "<p class=\"dim\">Fixed since step %.0f: ", NUMBER(one, "fixed_step"));
        html_text(out, TEXT(one, "title"));
        put_cost(out, one, ", it cost ");
        fputs("</p>", out);
    }
    cJSON_ArrayForEach(one, MEMBER(report, "bottlenecks", "dismissed"))
    {
        fputs("<p class=\"dim\">Dismissed: ", out);
        html_text(out, TEXT(one, "title"));
        put_cost(out, one, ", ");
        fputs(". ", out);
        html_text(out, TEXT(one, "reason"));
        fputs("</p>", out);
    }
}

static void put_what_ifs(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "bottlenecks", "what_if"), *one;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fputs("<section><h2>What if</h2>", out);
    cJSON_ArrayForEach(one, list)
    {
        fputs("<p>", out);
        html_text(out, TEXT(one, "title"));
        fprintf(out, ", a step would take %s to %s.</p>",
                TIME(NUMBER(one, "step_ms_low")), TIME(NUMBER(one, "step_ms_high")));
    }
    fputs("</section>", out);
}

static void put_findings(FILE *out, const cJSON *report)
{
    const cJSON *list = MEMBER(report, "bottlenecks", "findings"), *one;
    char text[MEMBERS_VERDICT_BYTES];
    const char *verdict = members_verdict(text, report);

    fputs("<section><h2>Findings</h2>", out);
    if (verdict[0] != '\0') {
        fputs("<p>", out);
        put_sentence(out, verdict);
        fputs("</p>", out);
    }
    cJSON_ArrayForEach(one, list) put_finding(out, one);
    put_former(out, report);
    fputs("</section>", out);
}

/* Of a file as it was asked for, of a run the ops by their own time. */
static const cJSON *tables_of(const cJSON *report, const char *device, const char *top)
{
    const cJSON *asked = MEMBER(report, "ops", device);

    return asked != NULL ? asked : MEMBER(report, "bottlenecks", top);
}

static void put_report(FILE *out, const cJSON *report)
{
    put_head(out, report);
    put_gate(out, report);
    put_phases(out, report);
    put_chart(out, report);
    put_findings(out, report);
    put_what_ifs(out, report);
    html_devices(out, report);
    html_ops(out, "GPU", tables_of(report, "cuda", "top_cuda_ops"));
    html_ops(out, "CPU", tables_of(report, "cpu", "top_cpu_ops"));
    html_memory(out, report);
    html_file(out, report);
    fprintf(out, "<p class=\"dim\">trainglass %s, session ", TEXT(report, "version"));
    html_text(out, TEXT(report, "bottlenecks", "session"));
    fputs("</p>", out);
}

static void write_several(const cJSON *reports, const cJSON *ranks, FILE *out)
{
    int count = cJSON_GetArraySize(reports), left = count;
    char title[48];
    const cJSON *one;

    (void)snprintf(title, sizeof(title), "%d traces", count);
    begin_page(out, title);
    fprintf(out, "<h1>%s</h1>", title);
    cJSON_ArrayForEach(one, ranks) html_ranks(out, one);
    cJSON_ArrayForEach(one, reports)
    {
        if (ftell(out) > REPORT_HTML_BYTES || !cJSON_IsObject(one))
            break;
        fputs("<article>", out);
        put_report(out, one);
        fputs("</article>", out);
        left--;
    }
    if (left > 0)
        fprintf(out,
                "<p><em>%d more traces are left out: this page would be too large to "
                "be read or sent.</em> Each has a page of its own with "
                "<code>trainglass analyze FILE --html</code>.</p>",
                left);
}

void report_write_html(const cJSON *report, FILE *out)
{
    const cJSON *several = MEMBER(report, "reports");

    if (several != NULL) {
        write_several(several, MEMBER(report, "ranks"), out);
    } else {
        begin_page(out, TEXT(members_session(report), "name"));
        put_report(out, report);
    }
    fputs("</html>\n", out);
}
