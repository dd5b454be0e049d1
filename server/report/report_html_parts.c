/* Sections of the report in HTML: devices, ops, memory, and what a file lacks. */
#include <stdbool.h>
#include <string.h>

#include "report/members.h"
#include "report/page.h"
#include "wire/event.h"
#include "wire/words.h"

#define GIB     (1024.0 * 1024 * 1024)
#define MIB     (1024.0 * 1024)
#define OPS_MAX 50
#define CHART_W 960.0
#define CHART_H 120.0

/* A number with its unit as a cell; a dash where it is not known. */
static const char *cell(struct page *page, const char *unit, double value, int digits)
{
    if (isnan(value))
        return "<td>–</td>";
    return page_format(page, "<td>%.*f%s%s</td>", digits, value, *unit ? " " : "",
                       unit);
}

int html_places(double value)
{
    return value >= 100 || isnan(value) ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
}

/* ---- devices ---------------------------------------------------------------------------- */

/* One row of parts as wide as their share of `whole`, and its key below. */
struct part {
    const char *name, *class;
    double ms;
};

static void put_bar(struct page *page, const struct part *parts, int count,
                    double whole_ms)
{
    page_put(page, "<div class=\"bar\">");
    for (int i = 0; i < count; i++)
        if (parts[i].ms > 0)
            page_put(page, "<i class=\"%s\" style=\"flex:%.6f\"></i>", parts[i].class,
                     parts[i].ms / whole_ms);
    page_put(page, "</div><p class=\"key\">");
    for (int i = 0; i < count; i++)
        if (parts[i].ms > 0)
            page_put(page,
                     "<span><i class=\"%s\"></i>%s %s <span class=\"dim\">%.1f "
                     "%%</span></span> ",
                     parts[i].class, parts[i].name, TIME(parts[i].ms),
                     100 * parts[i].ms / whole_ms);
    page_put(page, "</p>");
}

static void put_device(struct page *page, const cJSON *device)
{
    static const struct {
        const char *list, *key, *name, *class;
    } rows[] = {
        {"use_ms", "compute", "compute", "compute"},
        {"use_ms", "communication", "communication", "communication"},
        {"use_ms", "copy", "copies", "copy"},
        {"idle_by_cause_ms", "data", "idle: data loading", "idle-data"},
        {"idle_by_cause_ms", "sync", "idle: host waits for the device", "idle-sync"},
        {"idle_by_cause_ms", "launch", "idle: launch-bound", "idle-launch"},
        {"idle_by_cause_ms", "copy", "idle: copy", "idle-rest"},
        {"idle_by_cause_ms", "alloc", "idle: memory allocation", "idle-rest"},
        {"idle_by_cause_ms", "setup", "idle: set-up", "idle-rest"},
        {"idle_by_cause_ms", "collective", "idle: collective", "idle-rest"},
        {"idle_by_cause_ms", "python", "idle: Python", "idle-rest"},
        {"idle_by_cause_ms", "unknown", "idle: unknown", "idle-unknown"},
    };
    double busy = NUMBER(device, "busy_ms"), idle = NUMBER(device, "idle_ms");
    struct part parts[sizeof(rows) / sizeof(rows[0])];
    int count = (int)(sizeof(rows) / sizeof(rows[0]));

    if (!(busy + idle > 0))
        return;
    for (int i = 0; i < count; i++)
        parts[i] = (struct part){rows[i].name, rows[i].class,
                                 NUMBER(device, rows[i].list, rows[i].key)};
    page_put(page, "<section><h2>%s <span class=\"dim\">%s</span> busy %.1f %%</h2>",
             page_text(page, TEXT(device, "device")),
             page_text(page, TEXT(device, "name")), 100 * busy / (busy + idle));
    put_bar(page, parts, count, busy + idle);
    if (NUMBER(device, "overlap_ms") > 0)
        page_put(page, "<p class=\"dim\">Communication beside compute: %s.</p>",
                 TIME(NUMBER(device, "overlap_ms")));
    page_put(page, "</section>");
}

void html_devices(struct page *page, const cJSON *report)
{
    const cJSON *device;

    cJSON_ArrayForEach(device, MEMBER(report, "gpu", "devices"))
        put_device(page, device);
}

/* ---- ranks ------------------------------------------------------------------------------ */

void html_ranks(struct page *page, const cJSON *ranks)
{
    static const char *const times[] = {"step_ms", "own_ms", "wait_ms"};
    const cJSON *rank, *slowest = MEMBER(ranks, "slowest");

    page_put(page, "<section><h2>Ranks</h2><table><tr><th>Rank<th>step<th>own<th>waits"
                   "<th>data<th>forward<th>backward<th>optimizer</tr>");
    cJSON_ArrayForEach(rank, MEMBER(ranks, "ranks"))
    {
        page_put(page, "<tr><td>%.0f</td>", NUMBER(rank, "rank"));
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
            page_put(page, "<td>%s</td>", TIME(NUMBER(rank, times[i])));
        for (uint32_t i = 0; i < EVENT_PHASES; i++)
            page_put(page, "<td>%s</td>",
                     TIME(NUMBER(rank, "phases", wire_phase_word(i))));
        page_put(page, "</tr>");
    }
    page_put(page, "</table><p>");
    if (!cJSON_IsTrue(MEMBER(ranks, "comparable")))
        page_put(page, "Not comparable: %s", page_text(page, TEXT(ranks, "reason")));
    else if (cJSON_IsObject(slowest))
        page_put(page, "Rank %.0f is the slowest in %.0f %% of the steps, by %s (%s)",
                 NUMBER(slowest, "rank"), 100 * NUMBER(slowest, "share"),
                 TIME(NUMBER(slowest, "by_ms")),
                 page_text(page, TEXT(slowest, "cause")));
    else
        page_put(page, "No rank stands out");
    page_put(page, ".</p></section>");
}

/* ---- ops -------------------------------------------------------------------------------- */

/* Of a kernel what a person calls it, with its own name to be pointed at; below, what tells
 * an op from its namesakes. */
static void put_op_name(struct page *page, const cJSON *op)
{
    static const char *const kinds[] = {"shape", "stack", "module"};
    const char *name = TEXT(op, "name"), *short_name = TEXT(op, "short_name");

    if (*short_name != '\0')
        page_put(page, "<code title=\"%s\">%s</code>", page_name(page, name),
                 page_name(page, short_name));
    else
        page_put(page, "<code>%s</code>", page_name(page, name));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (*TEXT(op, kinds[i]) != '\0')
            page_put(page, "<small>%s</small>", page_name(page, TEXT(op, kinds[i])));
}

void html_ops(struct page *page, const char *title, const cJSON *list)
{
    const cJSON *one;
    bool steps = !isnan(NUMBER(cJSON_GetArrayItem(list, 0), "per_step_ms"));
    int left = OPS_MAX;

    if (cJSON_GetArraySize(list) == 0)
        return;
    page_put(page,
             "<section class=\"long\"><h2>%s</h2><table><tr><th>Name<th>%s<th>%s"
             "<th>mean<th>p95<th>of the %s</tr>",
             title, steps ? "ms per step" : "own ms",
             steps ? "calls per step" : "calls", steps ? "step" : "span");
    cJSON_ArrayForEach(one, list)
    {
        double ms = NUMBER(one, steps ? "per_step_ms" : "self_ms");

        if (left-- == 0)
            break;
        page_put(page, "<tr><td>");
        put_op_name(page, one);
        page_put(page, "</td>%s%s%s%s%s</tr>", cell(page, "ms", ms, html_places(ms)),
                 cell(page, "", NUMBER(one, steps ? "per_step_count" : "count"), steps),
                 cell(page, "µs", NUMBER(one, "mean_us"), 0),
                 cell(page, "µs", NUMBER(one, "p95_us"), 0),
                 cell(page, "%", 100 * NUMBER(one, "share"), 1));
    }
    page_put(page, "</table></section>");
}

/* ---- memory ------------------------------------------------------------------------------ */

static double point(const cJSON *row, int column)
{
    return members_number(cJSON_GetArrayItem(row, column));
}

static void put_curve(struct page *page, const cJSON *points, int column,
                      const double range[3])
{
    const cJSON *row;
    bool begun = false;

    page_put(page, "<path class=\"curve%s\" d=\"", column == 2 ? " reserved" : "");
    cJSON_ArrayForEach(row, points)
    {
        double x = (point(row, 0) - range[0]) / (range[1] - range[0]) * CHART_W;
        double y = CHART_H - point(row, column) / range[2] * (CHART_H - 4);

        if (isnan(x) || isnan(y))
            continue;
        /* Memory stands still until it changes. */
        page_put(page, begun ? "H%.1fV%.1f" : "M%.1f %.1f", x, y);
        begun = true;
    }
    page_put(page, "\"/>");
}

static void put_chart(struct page *page, const cJSON *device)
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
    page_put(page,
             "<h3>%s <span class=\"dim\">0 to %.2f MiB, over %s</span></h3><svg "
             "viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"memory over time\">",
             page_text(page, TEXT(device, "device")), range[2] / MIB,
             TIME(range[1] - range[0]), CHART_W, CHART_H);
    put_curve(page, points, 2, range);
    put_curve(page, points, 1, range);
    page_put(
        page,
        "</svg><p class=\"dim\">Allocated, and where known reserved (dashed).</p>");
}

void html_memory(struct page *page, const cJSON *report)
{
    const cJSON *host = MEMBER(report, "memory", "host"), *one;
    double resident = NUMBER(host, "rss_bytes");
    const cJSON *devices = MEMBER(report, "memory", "devices");

    if (cJSON_GetArraySize(devices) == 0 && isnan(resident))
        return;
    page_put(page, "<section><h2>Memory</h2><table><tr><th>Device<th>peak<th>of</tr>");
    cJSON_ArrayForEach(one, devices)
        page_put(page, "<tr><td>%s (allocator)</td>%s%s</tr>",
                 page_text(page, TEXT(one, "device")),
                 cell(page, "GiB", NUMBER(one, "peak_bytes") / GIB, 3),
                 cell(page, "GiB", NUMBER(one, "total_bytes") / GIB, 1));
    if (!isnan(resident))
        page_put(page, "<tr><td>process, resident</td>%s%s</tr>",
                 cell(page, "GiB", resident / GIB, 3),
                 cell(page, "GiB", NUMBER(host, "limit_bytes") / GIB, 1));
    page_put(page, "</table>");
    cJSON_ArrayForEach(one, devices) put_chart(page, one);
    page_put(page, "</section>");
}

/* ---- the file ----------------------------------------------------------------------------- */

static void put_reasons(struct page *page, const char *heads, const cJSON *list,
                        bool places)
{
    const cJSON *one;

    page_put(page, "<table><tr>%s</tr>", heads);
    cJSON_ArrayForEach(one, list)
        page_put(page, "<tr><td>%s</td>%s%s</tr>", page_text(page, TEXT(one, "reason")),
                 cell(page, "", NUMBER(one, "count"), 0),
                 places ? cell(page, "", NUMBER(one, "first_offset"), 0) : "");
    page_put(page, "</table>");
}

void html_file(struct page *page, const cJSON *report)
{
    const cJSON *file = MEMBER(report, "file");
    const cJSON *incomplete = MEMBER(file, "incomplete");
    const char *error = TEXT(file, "error");
    bool skipped = NUMBER(file, "skipped", "count") > 0;

    if (!skipped && *error == '\0' && cJSON_GetArraySize(incomplete) == 0)
        return;
    page_put(page, "<section><h2>What the file does not tell</h2>");
    if (*error != '\0')
        page_put(page, "<p>%s</p>", page_text(page, error));
    if (skipped)
        put_reasons(page, "<th>Skipped because<th>events<th>first at byte",
                    MEMBER(file, "skipped", "reasons"), true);
    if (cJSON_GetArraySize(incomplete) > 0)
        put_reasons(page, "<th>Incomplete<th>how many", incomplete, false);
    page_put(page, "</section>");
}
