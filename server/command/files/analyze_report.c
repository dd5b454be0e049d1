/* The report of one trace on a terminal: what a step costs, where it goes, what to do.
 * Readable from 80 columns on; names are cut where there is no room, never numbers. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "command/files/analyze.h"
#include "command/terminal.h"
#include "document/document.h"
#include "query/ranks_query.h"

#define MS 1e6

/* ---- head and steps -------------------------------------------------------------------------- */

static void print_head(const struct analysis *analysis, uint32_t columns)
{
    const struct file_result *file = analysis->file;
    const struct gpu_answer *gpu = &analysis->gpu;

    char path[4096];

    (void)snprintf(path, sizeof(path), "%s", analysis->path);
    terminal_clean(path);
    printf("%s\n  %s events, ", strcmp(path, "-") == 0 ? "standard input" : path,
           COUNT_TEXT(file->events));
    if (file->span_ns < 1000000)
        printf("%s ms", MS_TEXT((double)file->span_ns, 0));
    else
        printf("%.3f s", (double)file->span_ns / 1e9);
    if (analysis->summary.head.rank >= 0)
        printf(", rank %d", analysis->summary.head.rank);
    for (uint32_t i = 0; i < gpu->device_count; i++)
        printf(", %s%s%s", gpu->devices[i].device, *gpu->devices[i].name ? " " : "",
               gpu->devices[i].name);
    putchar('\n');
    /* All below is to be read with it. */
    if (file->error[0] != '\0')
        terminal_wrapped("  Note: ", file->error, 8, columns);
    if (file_rank_text(file->rank_from) != NULL)
        terminal_wrapped("  Note: ", file_rank_text(file->rank_from), 8, columns);
}

/* Its name in `width` columns, its time, its share, a bar. */
static void print_share(const char *name, uint32_t width, double ns, double share,
                        uint32_t columns)
{
    printf("  %-*s%s ms %5.1f %%", (int)width, name, MS_TEXT(ns, 9), 100 * share);
    terminal_bar(share, columns - width - 26);
    putchar('\n');
}

static void print_phases(const struct steps_summary *train, uint32_t columns)
{
    static const char *const names[] = {"data loading", "forward", "backward",
                                        "optimizer"};
    double rest_ns = train->mean_ns;
    bool known = false;

    for (int i = 0; i < EVENT_PHASES; i++) {
        if (isnan(train->phase_share[i]))
            continue;
        known = true;
        rest_ns -= train->phase_ns[i];
        print_share(names[i], 14, train->phase_ns[i], train->phase_share[i], columns);
    }
    if (!isnan(train->other_share))
        print_share("other", 14, train->other_ns, train->other_share, columns);
    else if (known && rest_ns > train->mean_ns / 200)
        print_share("in no phase", 14, rest_ns, rest_ns / train->mean_ns, columns);
    if (!known)
        puts("  phases are not known: the trace names no data loading, backward or "
             "optimizer");
}

static void print_steps(const struct analysis *analysis, uint32_t columns)
{
    const struct steps_summary *train = &analysis->summary.steps.train;
    const struct answer_window *window = &analysis->summary.head.window;

    if (train->count == 0) {
        puts("\nSteps  none: nothing in the trace lasts; shares are of its span");
        return;
    }
    printf("\nStep  mean %s ms, median %s, shortest %s, longest %s\n",
           MS_TEXT(train->mean_ns, 0), MS_TEXT(train->p50_ns, 0),
           MS_TEXT(train->min_ns, 0), MS_TEXT(train->max_ns, 0));
    printf("  %llu step%s (%lld-%lld)%s\n", (unsigned long long)train->count,
           train->count == 1 ? "" : "s", (long long)window->first_step,
           (long long)window->last_step,
           analysis->file->inferred_steps ? ", each ends with an optimizer's update"
           : analysis->file->whole_step
               ? ": all of the file, for nothing in it marks steps"
               : "");
    print_phases(train, columns);
}

/* ---- devices ------------------------------------------------------------------------------ */

static void print_device(const struct gpu_device *device, uint32_t columns)
{
    static const char *const uses[GPU_USES] = {"busy  compute", "busy  communication",
                                               "busy  copies"};
    static const char *const idles[GPU_IDLES] = {
        [GPU_IDLE_DATA] = "idle  waits for data",
        [GPU_IDLE_SYNC] = "idle  host waited (sync)",
        [GPU_IDLE_LAUNCH] = "idle  launches too slow",
        [GPU_IDLE_COPY] = "idle  host copies",
        [GPU_IDLE_ALLOC] = "idle  allocation",
        [GPU_IDLE_SETUP] = "idle  set-up",
        [GPU_IDLE_COLLECTIVE] = "idle  other ranks",
        [GPU_IDLE_PYTHON] = "idle  Python between ops",
        [GPU_IDLE_UNKNOWN] = "idle  unknown"};
    double span = device->span_ns;

    if (!(span > 0))
        return;
    printf("\n%s  busy %.1f %%, idle %.1f %% of %s ms\n", device->device,
           100 * device->busy_ns / span, 100 - 100 * device->busy_ns / span,
           MS_TEXT(span, 0));
    for (int i = 0; i < GPU_USES; i++)
        if (device->all_use_ns[i] != 0)
            print_share(uses[i], 25, device->all_use_ns[i],
                        device->all_use_ns[i] / span, columns);
    for (int i = 0; i < GPU_IDLES; i++)
        if (device->all_idle_ns[i] != 0 || i == GPU_IDLE_UNKNOWN)
            print_share(idles[i], 25, device->all_idle_ns[i],
                        device->all_idle_ns[i] / span, columns);
    if (device->overlap_ns > 0)
        printf("  communication beside compute: %s ms\n",
               MS_TEXT(device->overlap_ns, 0));
}

static void print_lost_launches(const struct gpu_answer *gpu)
{
    if (gpu->lost_launches == 0 || gpu->device_count == 0)
        return;
    printf("  %s launches have no kernel in the file: idle time behind them is "
           "unknown\n",
           COUNT_TEXT(gpu->lost_launches));
}

static void print_memory(const struct analysis *analysis)
{
    const struct bottlenecks_answer *summary = &analysis->summary;

    if (summary->peak_count == 0)
        return;
    printf("\nMemory peaks%s\n",
           analysis->file->memory == FILE_MEMORY_DELTAS
               ? "  (counted from zero at the start of the trace: it has no totals)"
               : "");
    for (uint32_t i = 0; i < summary->peak_count; i++) {
        const struct memory_peak *peak = &summary->peaks[i];
        static const char *const units[] = {"KiB", "MiB", "GiB"};
        double value = (double)peak->bytes / 1024;
        unsigned unit = 0;

        for (; value >= 1024 && unit < 2; unit++)
            value /= 1024;
        printf("  %-8s %8.2f %s at %s ms%s%s\n", peak->device, value, units[unit],
               MS_TEXT((double)peak->time_ns, 0),
               peak->op != NULL && *peak->op != '\0' ? ", during " : "",
               peak->op != NULL ? peak->op : "");
    }
}

/* ---- replayed steps ---------------------------------------------------------------------------- */

/* A device works in no phase: the host is in another one by then. */
static void print_launched(const struct replay_table *table, uint32_t columns)
{
    static const char *const names[EVENT_PHASES + 1] = {
        "data loading", "forward", "backward", "the optimizer", "no phase"};
    char text[256];
    size_t length = 0;

    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        if (table->launched_ns[i] >= 0.001 * table->step_ns)
            length += (size_t)snprintf(text + length, sizeof(text) - length,
                                       "%s%s ms%s in %s",
                                       length == 0 ? "Device work: " : ", ",
                                       DIGITS(table->launched_ns[i] / MS),
                                       length == 0 ? " a step launched" : "", names[i]);
    if (length == 0)
        return;
    (void)snprintf(text + length, sizeof(text) - length, ".");
    terminal_wrapped("- ", text, 4, columns);
}

/* What the step waited for, in the order of the kinds: first the host's, then devices'. */
static void print_replay(const struct analysis *analysis, uint32_t columns)
{
    static const char *const kinds[REPLAY_KINDS] = {
        [REPLAY_DATA] = "data loading",
        [REPLAY_OP] = "ops on the CPU",
        [REPLAY_LAUNCH] = "launches",
        [REPLAY_RUNTIME] = "other calls",
        [REPLAY_SYNC] = "calls that wait",
        [REPLAY_COLLECTIVE] = "collectives",
        [REPLAY_PYTHON] = "code between ops",
        [REPLAY_COMPUTE] = "compute",
        [REPLAY_COMMUNICATION] = "communication",
        [REPLAY_COPY] = "copies",
        [REPLAY_LATENCY] = "launch latency",
        [REPLAY_UNKNOWN] = "unknown waits"};
    const struct replay_answer *replay = &analysis->replay;

    if (replay->table.steps == 0)
        return;
    printf("\nCritical path  of step %lld, %s ms\n", (long long)replay->number,
           MS_TEXT(replay->duration_ns, 0));
    for (int i = 0; i < REPLAY_KINDS; i++) {
        double share = replay->kind_ns[i] / replay->duration_ns;

        if (!(share < 0.001))
            print_share(kinds[i], 17, replay->kind_ns[i], share, columns);
    }
    print_launched(&replay->table, columns);
}

/* ---- what was skipped ---------------------------------------------------------------------------- */

static void print_reason(const char *reason, uint64_t count, uint64_t offset)
{
    if (count > 0)
        printf("  %s: %s, first at byte %s\n", COUNT_TEXT(count), reason,
               COUNT_TEXT(offset));
}

static void print_skipped(const struct analysis *analysis)
{
    const struct file_result *file = analysis->file;
    uint64_t skipped = analysis_skipped(file);

    if (skipped > 0)
        printf("\nSkipped events  %s\n", COUNT_TEXT(skipped));
    for (int i = 0; i < TRACE_SKIPS; i++)
        print_reason(trace_skip_text((enum trace_skip)i), file->reader_skipped[i],
                     file->reader_offset[i]);
    for (int i = 0; i < FILE_SKIPS; i++)
        print_reason(file_skip_text((enum file_skip)i), file->skipped[i],
                     file->first_offset[i]);
}

static void print_incomplete(const struct file_result *file)
{
    bool any = false;

    for (int i = 0; i < FILE_REMARKS; i++) {
        if (file->remarks[i] == 0)
            continue;
        printf("%s%s %s\n", any ? "  " : "\nIncomplete\n  ",
               COUNT_TEXT(file->remarks[i]), file_remark_text((enum file_remark)i));
        any = true;
    }
}

void analyze_report(const struct analysis *analysis,
                    const struct analyze_options *options, uint32_t columns)
{
    print_head(analysis, columns);
    print_steps(analysis, columns);
    for (uint32_t i = 0; i < analysis->gpu.device_count; i++)
        print_device(&analysis->gpu.devices[i], columns);
    print_lost_launches(&analysis->gpu);
    analyze_report_findings(analysis, columns);
    print_replay(analysis, columns);
    analyze_report_what_ifs(&analysis->summary, columns);
    if (options->cpu)
        analyze_report_cpu_ops(&analysis->cpu, options->request.sort, columns);
    if (options->cuda)
        analyze_report_device_ops(&analysis->cuda, columns);
    print_memory(analysis);
    print_skipped(analysis);
    print_incomplete(analysis->file);
    putchar('\n');
}

/* ---- ranks of a folder ---------------------------------------------------------------------- */

void analyze_report_ranks(const struct ranks_answer *answer)
{
    printf("Ranks  %4s %9s %9s %9s %9s %9s\n", "", "step ms", "own", "waits", "data",
           "forward");
    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct rank_row *row = &answer->rows[i];

        printf("  rank %4d %s %s %s %s %s\n", row->rank, MS_TEXT(row->step_ns, 9),
               MS_TEXT(row->own_ns, 9), MS_TEXT(row->wait_ns, 9),
               MS_TEXT(row->phase_ns[EVENT_PHASE_DATA], 9),
               MS_TEXT(row->phase_ns[EVENT_PHASE_FORWARD], 9));
    }
    if (!answer->comparable) {
        printf("  not comparable: %s\n", answer->head.reason);
    } else if (answer->slowest < 0) {
        puts("  no rank stands out");
    } else {
        printf("  rank %d is the slowest in %.0f %% of the steps, by %s ms per step "
               "(%s)\n",
               answer->slowest, 100 * answer->slowest_share,
               MS_TEXT(answer->slowest_by_ns, 0), answer->slowest_cause);
    }
    putchar('\n');
}
