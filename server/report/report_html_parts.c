/* Sections of the report in HTML: devices, ops, memory, and what a file lacks. */
#include <stdbool.h>
#include <string.h>

#include "report/html.h"
#include "report/members.h"

#define GIB     (1024.0 * 1024 * 1024)
#define MIB     (1024.0 * 1024)
#define OPS_MAX 50
#define CHART_W 960.0
#define CHART_H 120.0

/* ---- devices ---------------------------------------------------------------------------- */

static void put_device(FILE *out, const cJSON *device)
{
    static const struct {
        const char *key, *name, *class;
    } causes[] = {
        {"data", "idle: data loading", "idle-data"},
        {"sync", "idle: host waits for the device", "idle-sync"},
        {"launch", "idle: launch-bound", "idle-launch"},
        {"copy", "idle: copy", "idle-rest"},
        {"alloc", "idle: memory allocation", "idle-rest"},
        {"setup", "idle: set-up", "idle-rest"},
        {"collective", "idle: collective", "idle-rest"},
        {"python", "idle: Python", "idle-rest"},
        {"unknown", "idle: unknown", "idle-unknown"},
    };
    double busy = NUMBER(device, "busy_ms"), idle = NUMBER(device, "idle_ms");
    struct html_part parts[3 + sizeof(causes) / sizeof(causes[0])] = {
        {"compute", "compute", NUMBER(device, "use_ms", "compute")},
        {"communication", "communication", NUMBER(device, "use_ms", "communication")},
        {"copies", "copy", NUMBER(device, "use_ms", "copy")}};
    int count = 3;

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        parts[count++] =
            (struct html_part){causes[i].name, causes[i].class,
                               NUMBER(device, "idle_by_cause_ms", causes[i].key)};
    if (!(busy + idle > 0))
        return;
    fputs("<section><h2>", out);
    html_text(out, TEXT(device, "device"));
    fputs(" <span class=\"dim\">", out);
    html_text(out, TEXT(device, "name"));
    fprintf(out, "</span> busy %.1f %%</h2>", 100 * busy / (busy + idle));
    html_bar(out, parts, count, busy + idle);
    if (NUMBER(device, "overlap_ms") > 0)
        fprintf(out, "<p class=\"dim\">Communication beside compute: %s.</p>",
                TIME(NUMBER(device, "overlap_ms")));
    fputs("</section>", out);
}

void html_devices(FILE *out, const cJSON *report)
{
    const cJSON *device;

    cJSON_ArrayForEach(device, MEMBER(report, "gpu", "devices"))
        put_device(out, device);
}

/* ---- ranks ------------------------------------------------------------------------------ */

static void put_time(FILE *out, double ms)
{
    fprintf(out, "<td>%s</td>", TIME(ms));
}

void html_ranks(FILE *out, const cJSON *ranks)
{
    const cJSON *rank;

    fputs("<section><h2>Ranks</h2><table><tr><th>Rank<th>step<th>own<th>waits<th>data"
          "<th>forward<th>backward<th>optimizer</tr>",
          out);
    cJSON_ArrayForEach(rank, MEMBER(ranks, "ranks"))
    {
        fprintf(out, "<tr><td>%.0f</td>", NUMBER(rank, "rank"));
        put_time(out, NUMBER(rank, "step_ms"));
        put_time(out, NUMBER(rank, "own_ms"));
        put_time(out, NUMBER(rank, "wait_ms"));
        put_time(out, NUMBER(rank, "phases", "data"));
        put_time(out, NUMBER(rank, "phases", "forward"));
        put_time(out, NUMBER(rank, "phases", "backward"));
        put_time(out, NUMBER(rank, "phases", "optimizer"));
        fputs("</tr>", out);
    }
    fputs("</table><p>", out);
    if (!cJSON_IsTrue(MEMBER(ranks, "comparable"))) {
        fputs("Not comparable: ", out);
        html_text(out, TEXT(ranks, "reason"));
    } else if (cJSON_IsObject(MEMBER(ranks, "slowest"))) {
        fprintf(out, "Rank %.0f is the slowest in %.0f %% of the steps, by %s (",
                NUMBER(ranks, "slowest", "rank"),
                100 * NUMBER(ranks, "slowest", "share"),
                TIME(NUMBER(ranks, "slowest", "by_ms")));
        html_text(out, TEXT(ranks, "slowest", "cause"));
        fputs(")", out);
    } else {
        fputs("No rank stands out", out);
    }
    fputs(".</p></section>", out);
}

/* ---- ops -------------------------------------------------------------------------------- */

/* What tells an op from its namesakes, under its name. */
static void put_detail(FILE *out, const cJSON *op)
{
    static const char *const kinds[] = {"shape", "stack", "module"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *text = TEXT(op, kinds[i]);

        if (*text == '\0')
            continue;
        fputs("<small>", out);
        html_name(out, text);
        fputs("</small>", out);
    }
}

/* Of a kernel what a person calls it, with its own name to be pointed at. */
static void put_op_name(FILE *out, const cJSON *op)
{
    const char *text = TEXT(op, "short_name");
    bool shorter = *text != '\0';

    fputs("<code", out);
    if (shorter) {
        fputs(" title=\"", out);
        html_name(out, TEXT(op, "name"));
        fputs("\"", out);
    }
    fputs(">", out);
    html_name(out, shorter ? text : TEXT(op, "name"));
    fputs("</code>", out);
}

static void put_op(FILE *out, const cJSON *op, bool steps)
{
    double ms = NUMBER(op, steps ? "per_step_ms" : "self_ms");

    fputs("<tr><td>", out);
    put_op_name(out, op);
    put_detail(out, op);
    fputs("</td>", out);
    html_cell(out, "ms", ms, html_places(ms));
    html_cell(out, "", NUMBER(op, steps ? "per_step_count" : "count"), steps);
    html_cell(out, "µs", NUMBER(op, "mean_us"), 0);
    html_cell(out, "µs", NUMBER(op, "p95_us"), 0);
    html_cell(out, "%", 100 * NUMBER(op, "share"), 1);
    fputs("</tr>", out);
}

void html_ops(FILE *out, const char *title, const cJSON *list)
{
    const cJSON *one;
    bool steps = !isnan(NUMBER(cJSON_GetArrayItem(list, 0), "per_step_ms"));
    int left = OPS_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    fprintf(out,
            "<section class=\"long\"><h2>%s</h2><table><tr><th>Name<th>%s<th>%s"
            "<th>mean<th>p95<th>of the %s</tr>",
            title, steps ? "ms per step" : "own ms", steps ? "calls per step" : "calls",
            steps ? "step" : "span");
    cJSON_ArrayForEach(one, list)
    {
        if (left-- == 0)
            break;
        put_op(out, one, steps);
    }
    fputs("</table></section>", out);
}

/* ---- memory ------------------------------------------------------------------------------ */

static double point(const cJSON *row, int column)
{
    return members_number(cJSON_GetArrayItem(row, column));
}

static void put_curve(FILE *out, const cJSON *points, int column, const double range[3])
{
    const cJSON *row;
    bool begun = false;

    fprintf(out, "<path class=\"curve%s\" d=\"", column == 2 ? " reserved" : "");
    cJSON_ArrayForEach(row, points)
    {
        double x = (point(row, 0) - range[0]) / (range[1] - range[0]) * CHART_W;
        double y = CHART_H - point(row, column) / range[2] * (CHART_H - 4);

        if (isnan(x) || isnan(y))
            continue;
        /* Memory stands still until it changes. */
        if (begun)
            fprintf(out, "H%.1fV%.1f", x, y);
        else
            fprintf(out, "M%.1f %.1f", x, y);
        begun = true;
    }
    fputs("\"/>", out);
}

static void put_chart(FILE *out, const cJSON *device)
{
    const cJSON *points = MEMBER(device, "points"), *row;
    int count = cJSON_GetArraySize(points);
    double range[3] = {point(cJSON_GetArrayItem(points, 0), 0),
                       point(cJSON_GetArrayItem(points, count - 1), 0), 0};

    cJSON_ArrayForEach(row, points)
    {
        for (int column = 1; column <= 2; column++)
            range[2] = point(row, column) > range[2] ? point(row, column) : range[2];
    }
    if (count < 2 || !(range[1] > range[0]) || !(range[2] > 0))
        return;
    fputs("<h3>", out);
    html_text(out, TEXT(device, "device"));
    fprintf(out,
            " <span class=\"dim\">0 to %.2f MiB, over %s</span></h3><svg viewBox=\"0 0 "
            "%.0f %.0f\" role=\"img\" aria-label=\"memory over time\">",
            range[2] / MIB, TIME(range[1] - range[0]), CHART_W, CHART_H);
    put_curve(out, points, 2, range);
    put_curve(out, points, 1, range);
    fputs("</svg><p class=\"dim\">Allocated, and where known reserved (dashed).</p>",
          out);
}

static void put_row(FILE *out, const char *name, const char *more,
                    const double bytes[2])
{
    fputs("<tr><td>", out);
    html_text(out, name);
    fputs(more, out);
    fputs("</td>", out);
    html_cell(out, "GiB", bytes[0] / GIB, 3);
    html_cell(out, "GiB", bytes[1] / GIB, 1);
    fputs("</tr>", out);
}

void html_memory(FILE *out, const cJSON *report)
{
    const cJSON *host = MEMBER(report, "memory", "host"), *one;
    double resident[2] = {NUMBER(host, "rss_bytes"), NUMBER(host, "limit_bytes")};
    const cJSON *devices = MEMBER(report, "memory", "devices");

    if (cJSON_GetArraySize(devices) == 0 && isnan(resident[0]))
        return;
    fputs("<section><h2>Memory</h2><table><tr><th>Device<th>peak<th>of</tr>", out);
    cJSON_ArrayForEach(one, devices)
    {
        put_row(
            out, TEXT(one, "device"), " (allocator)",
            (const double[]){NUMBER(one, "peak_bytes"), NUMBER(one, "total_bytes")});
    }
    if (!isnan(resident[0]))
        put_row(out, "process, resident", "", resident);
    fputs("</table>", out);
    cJSON_ArrayForEach(one, devices) put_chart(out, one);
    fputs("</section>", out);
}

/* ---- the file ----------------------------------------------------------------------------- */

void html_file(FILE *out, const cJSON *report)
{
    const cJSON *file = MEMBER(report, "file"), *one;
    const cJSON *incomplete = MEMBER(file, "incomplete");
    const char *error = TEXT(file, "error");

    if (!(NUMBER(file, "skipped", "count") > 0) && *error == '\0' &&
        cJSON_GetArraySize(incomplete) == 0)
        return;
    fputs("<section><h2>What the file does not tell</h2>", out);
    if (*error != '\0') {
        fputs("<p>", out);
        html_text(out, error);
        fputs("</p>", out);
    }
    if (NUMBER(file, "skipped", "count") > 0)
        fputs("<table><tr><th>Skipped because<th>events<th>first at byte</tr>", out);
    cJSON_ArrayForEach(one, MEMBER(file, "skipped", "reasons"))
    {
        fputs("<tr><td>", out);
        html_text(out, TEXT(one, "reason"));
        fputs("</td>", out);
        html_cell(out, "", NUMBER(one, "count"), 0);
        html_cell(out, "", NUMBER(one, "first_offset"), 0);
        fputs("</tr>", out);
    }
    if (NUMBER(file, "skipped", "count") > 0)
        fputs("</table>", out);
    if (cJSON_GetArraySize(incomplete) > 0)
        fputs("<table><tr><th>Incomplete<th>how many</tr>", out);
    cJSON_ArrayForEach(one, incomplete)
    {
        fputs("<tr><td>", out);
        html_text(out, TEXT(one, "reason"));
        fputs("</td>", out);
        html_cell(out, "", NUMBER(one, "count"), 0);
        fputs("</tr>", out);
    }
    if (cJSON_GetArraySize(incomplete) > 0)
        fputs("</table>", out);
    fputs("</section>", out);
}
