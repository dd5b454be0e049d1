/* The files that analyze writes next to its answer. */
#include <errno.h>
#include <string.h>

#include "command/files/analyze.h"
#include "document/json.h"
#include "report/report.h"

#define REPORTS_MAX 64 /* in memory, some 200 KB each; the page holds fewer */

bool analyze_keep_wants_paths(const struct analyze_keep *keep)
{
    return keep->stacks != NULL || keep->flame != NULL;
}

static void fail(struct analyze_keep *keep, const char *path, int error)
{
    bool empty = error == -ENODATA;

    command_complain("%.300s: %s%s", path, empty ? "" : "cannot be written: ",
                     empty ? "the trace has no stacks: record it with with_stack=True"
                           : strerror(-error));
    keep->code = empty ? EXIT_UNREADABLE : EXIT_CANNOT_START;
}

typedef int write_paths(struct analyze_keep *keep, const struct file_paths *paths,
                        struct output_file *output);

static int write_stacks(struct analyze_keep *keep, const struct file_paths *paths,
                        struct output_file *output)
{
    return flame_write_folded(paths, keep->metric, output);
}

static int write_flame(struct analyze_keep *keep, const struct file_paths *paths,
                       struct output_file *output)
{
    uint32_t left_out;
    int error = flame_write_speedscope(paths, keep->name, output, &left_out);

    if (error == 0 && left_out > 0)
        command_complain("%.300s: %u calls of the least time are left out: speedscope "
                         "takes no more; their time is in who called them",
                         keep->flame, left_out);
    return error;
}

static void write_one(struct analyze_keep *keep, const struct file_paths *paths,
                      const char *path, write_paths *write_to)
{
    struct output_file output;
    int error = output_file_open(&output, path);

    if (error == 0)
        error = write_to(keep, paths, &output);
    if (error == 0)
        error = output_file_finish(&output);
    if (error == 0)
        error = output_file_keep(&output);
    output_file_close(&output);
    if (error != 0)
        fail(keep, path, error);
}

void analyze_keep_paths(void *user, const struct file_paths *paths)
{
    struct analyze_keep *keep = user;

    if (keep->stacks != NULL)
        write_one(keep, paths, keep->stacks, write_stacks);
    if (keep->flame != NULL)
        write_one(keep, paths, keep->flame, write_flame);
}

void analyze_keep_report(struct analyze_keep *keep, const cJSON *report)
{
    cJSON *list = cJSON_GetObjectItem(keep->several, "reports");
    int error = report == NULL ? -ENOMEM : 0;

    if (error == 0 && list == NULL)
        error = report_write_file(report, REPORT_HTML, keep->html);
    else if (error == 0 && cJSON_GetArraySize(list) < REPORTS_MAX)
        cJSON_AddItemToArray(list, cJSON_Duplicate(report, true));
    else if (error == 0) /* counted by the page as left out */
        cJSON_AddItemToArray(list, cJSON_CreateNull());
    if (error != 0)
        fail(keep, keep->html, error);
}

void analyze_keep_ranks(struct analyze_keep *keep, cJSON *ranks)
{
    cJSON *list = cJSON_GetObjectItem(keep->several, "ranks");

    if (list != NULL)
        cJSON_AddItemToArray(list, json_readable(ranks));
    else
        cJSON_Delete(ranks);
}

void analyze_keep_finish(struct analyze_keep *keep, bool whole)
{
    const cJSON *reports = cJSON_GetObjectItem(keep->several, "reports");
    int count = cJSON_GetArraySize(reports), error = 0;

    if (keep->several == NULL)
        return;
    if (whole && count > 0)
        error = report_write_file(count == 1 ? cJSON_GetArrayItem(reports, 0)
                                             : keep->several,
                                  REPORT_HTML, keep->html);
    if (error != 0)
        fail(keep, keep->html, error);
    cJSON_Delete(keep->several);
    keep->several = NULL;
}
