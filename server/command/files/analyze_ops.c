/* The ops of a trace, as a terminal shows them. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "command/files/analyze.h"
#include "command/terminal.h"

/* What tells the row from its namesakes; a stack is a frame a line. Of paths the end
 * says more. */
static void print_detail(const struct ops_answer *ops, const struct op_row *row,
                         uint32_t columns)
{
    const char *at = row->detail;
    size_t room = columns - 6;

    while (ops->by != GROUP_NAME && *at != '\0') {
        size_t length = ops->by == GROUP_STACK ? strcspn(at, ";") : strlen(at);
        size_t from = ops->by != GROUP_SHAPE && length > room ? length - room + 2 : 0;
        char line[512];

        while (from > 0 && from < length && ((unsigned char)at[from] & 0xc0) == 0x80)
            from++;
        (void)snprintf(line, sizeof(line), "%s%.*s", from > 0 ? ".." : "",
                       (int)(length - from), at + from);
        printf("      ");
        terminal_cell(line, (uint32_t)room);
        putchar('\n');
        at += length + (at[length] == ';');
    }
}

/* What is shown next to the times of a CPU op: the memory that it is sorted by, or the time
 * of what it launched. */
struct extra_column {
    enum ops_sort sort;
    const char *title;
    size_t at; /* in a row */
};

static const struct extra_column *extra_column_of(enum ops_sort sort)
{
    static const struct extra_column all[] = {
        {OPS_BY_HOST_BYTES, "own memory", offsetof(struct op_row, host_bytes)},
        {OPS_BY_HOST_TOTAL_BYTES, "memory", offsetof(struct op_row, host_total_bytes)},
        {OPS_BY_DEVICE_BYTES, "own device", offsetof(struct op_row, device_bytes)},
        {OPS_BY_DEVICE_TOTAL_BYTES, "device mem",
         offsetof(struct op_row, device_total_bytes)},
        {0, "device ms", offsetof(struct op_row, device_total_ns)}};
    size_t last = sizeof(all) / sizeof(all[0]) - 1, i = 0;

    while (i < last && all[i].sort != sort)
        i++;
    return &all[i];
}

/* In ten columns. */
static void print_extra_column(const struct op_row *row,
                               const struct extra_column *extra)
{
    double value;

    memcpy(&value, (const char *)row + extra->at, sizeof(value));
    if (extra->at == offsetof(struct op_row, device_total_ns))
        fputs(MS_TEXT(value, 10), stdout);
    else if (isnan(value))
        printf("%10s", "-");
    else
        printf("%6.1f MiB", value / 1048576);
}

static void print_name(const struct op_row *row, uint32_t width)
{
    bool shorter = row->short_name != NULL && *row->short_name != '\0';

    printf("  ");
    terminal_cell(shorter ? row->short_name : row->name, width);
    printf("  %8.0f ", row->count);
}

static bool any_launch(const struct ops_answer *ops)
{
    for (uint32_t i = 0; i < ops->row_count; i++)
        if (ops->rows[i].launch.known)
            return true;
    return false;
}

static void print_other_ops(const struct ops_answer *ops)
{
    if (ops->other_ops > 0)
        printf("  and %u more: %s ms\n", ops->other_ops,
               MS_TEXT(ops->other.self_ns, 0));
}

void analyze_report_cpu_ops(const struct ops_answer *ops, enum ops_sort sort,
                            uint32_t columns)
{
    const struct extra_column *extra = extra_column_of(sort);
    uint32_t name = columns - 52 - (any_launch(ops) ? 9 : 0);

    if (ops->row_count == 0)
        return;
    printf("\n");
    terminal_cell("CPU ops", name + 2);
    printf("  %8s %10s %10s %10s %6s\n", "calls", "self ms", "total ms", extra->title,
           "share");
    for (uint32_t i = 0; i < ops->row_count; i++) {
        const struct op_row *row = &ops->rows[i];

        print_name(row, name);
        printf("%10s %s ",
               strcmp(row->kind, "range") == 0 ? "range" : MS_TEXT(row->self_ns, 10),
               MS_TEXT(row->total_ns, 10));
        print_extra_column(row, extra);
        printf(" %5.1f%%\n", 100 * row->share);
        print_detail(ops, row, columns);
    }
    print_other_ops(ops);
}

void analyze_report_device_ops(const struct ops_answer *ops, uint32_t columns)
{
    bool launches = any_launch(ops), tensor_cores = false;
    uint32_t name = columns - 43 - (launches ? 9 : 0);

    if (ops->row_count == 0)
        return;
    printf("\n");
    terminal_cell("Device ops", name + 2);
    printf("  %8s %11s %9s %6s%s\n", "calls", "total ms", "mean us", "share",
           launches ? "  occup." : "");
    for (uint32_t i = 0; i < ops->row_count; i++) {
        const struct op_row *row = &ops->rows[i];

        tensor_cores = tensor_cores || row->tensor_cores;
        print_name(row, name);
        printf("%s %9.1f %5.1f%%", MS_TEXT(row->total_ns, 11), row->mean_ns / 1000,
               100 * row->share);
        if (!isnan(row->launch.occupancy_pct))
            printf(" %4.0f %%%s", row->launch.occupancy_pct,
                   row->tensor_cores ? " T" : "");
        else if (row->tensor_cores && launches)
            printf("        T");
        putchar('\n');
    }
    if (launches && tensor_cores)
        puts("  T: on tensor cores, as far as the name tells");
    print_other_ops(ops);
}
