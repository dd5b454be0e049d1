#include "document/analysis.h"

#include <string.h>
#include <time.h>

#include "document/document.h"
#include "document/json.h"
#include "findings/findings.h"

int analysis_ask(struct store *store, const struct selection *whose,
                 const struct analysis_request *request, struct analysis *analysis)
{
    struct bottlenecks_request summary = {.k = request->k};
    struct ops_request ops = {
        .device = OPS_CPU, .sort = request->sort, .by = request->by, .k = request->k};
    struct steps_request steps = {.points = request->points > 0 ? request->points
                                                                : STEPS_POINTS_MAX};
    struct memory_request memory = {0};
    struct gpu_request gpu = {0};
    int error;

    *analysis = (struct analysis){.replay = {.number = NOT_KNOWN}};
    error = bottlenecks_query(store, whose, &summary, &analysis->summary);
    if (error == 0)
        error = ops_query(store, whose, &ops, &analysis->cpu);
    ops.device = OPS_ACCELERATOR;
    if (error == 0)
        error = ops_query(store, whose, &ops, &analysis->cuda);
    if (error == 0 && whose->window.kind == WINDOW_DEFAULT)
        error = outer_query(store, whose, request->k, &analysis->outer);
    if (error == 0)
        error = steps_query(store, whose, &steps, &analysis->steps);
    if (error == 0)
        error = gpu_query(store, whose, &gpu, &analysis->gpu);
    if (error == 0)
        error = memory_query(store, whose, &memory, &analysis->memory);
    if (error == 0 && request->critical_path &&
        replay_query(store, whose, &analysis->replay) == 0)
        analysis->summary.replay = analysis->replay.table;
    else if (error == 0 && !request->quick)
        bottlenecks_replay(store, whose, &analysis->summary);
    return error;
}

/* Whose numbers a file's are. */
static struct selection whose_of(const struct file_result *file,
                                 const struct analysis_request *request)
{
    struct selection whose = {.rank = request->rank, .window = request->window};

    memcpy(whose.session, file->session, sizeof(whose.session));
    if (whose.rank == SELECT_ANY && file->rank >= 0)
        whose.rank = file->rank;
    else if (whose.rank == SELECT_ANY)
        whose.pid = file->pid;
    return whose;
}

int analysis_make(struct store *store, const struct file_result *file,
                  const struct analysis_request *request, struct analysis *analysis)
{
    struct selection whose = whose_of(file, request);
    int error;

    error = analysis_ask(store, &whose, request, analysis);
    analysis->file = file;
    return error;
}

void analysis_free(struct analysis *analysis)
{
    bottlenecks_free(&analysis->summary);
    answer_free(&analysis->cpu.head);
    answer_free(&analysis->cuda.head);
    answer_free(&analysis->outer.head);
    answer_free(&analysis->steps.head);
    answer_free(&analysis->gpu.head);
    answer_free(&analysis->memory.head);
    answer_free(&analysis->replay.head);
}

/* How the file is laid out. */
static const char *format_of(const struct file_result *file)
{
    if (file->is_array)
        return file->is_gzip ? "kineto-array-gzip" : "kineto-array";
    return file->is_gzip ? "kineto-gzip" : "kineto";
}

uint64_t analysis_skipped(const struct file_result *file)
{
    uint64_t sum = 0;

    for (int i = 0; i < TRACE_SKIPS; i++)
        sum += file->reader_skipped[i];
    for (int i = 0; i < FILE_SKIPS; i++)
        sum += file->skipped[i];
    return sum;
}

static void add_reason(cJSON *list, const char *reason, uint64_t count, uint64_t offset)
{
    if (count == 0)
        return;
    cJSON *part = cJSON_CreateObject();

    json_text(part, "reason", reason);
    json_count(part, "count", count);
    json_count(part, "first_offset", offset);
    cJSON_AddItemToArray(list, part);
}

cJSON *analysis_reasons_json(const struct file_result *file)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < TRACE_SKIPS; i++)
        add_reason(list, trace_skip_text((enum trace_skip)i), file->reader_skipped[i],
                   file->reader_offset[i]);
    for (int i = 0; i < FILE_SKIPS; i++)
        add_reason(list, file_skip_text((enum file_skip)i), file->skipped[i],
                   file->first_offset[i]);
    return list;
}

cJSON *analysis_incomplete_json(const struct file_result *file)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < FILE_REMARKS; i++) {
        cJSON *part = file->remarks[i] > 0 ? cJSON_CreateObject() : NULL;

        if (part == NULL)
            continue;
        json_text(part, "reason", file_remark_text((enum file_remark)i));
        json_count(part, "count", file->remarks[i]);
        cJSON_AddItemToArray(list, part);
    }
    return list;
}

static void add_skipped(cJSON *body, const struct file_result *file)
{
    cJSON *part = cJSON_AddObjectToObject(body, "skipped");
    uint64_t first = UINT64_MAX;

    for (int i = 0; i < TRACE_SKIPS; i++)
        if (file->reader_skipped[i] > 0 && file->reader_offset[i] < first)
            first = file->reader_offset[i];
    for (int i = 0; i < FILE_SKIPS; i++)
        if (file->skipped[i] > 0 && file->first_offset[i] < first)
            first = file->first_offset[i];
    json_count(part, "count", analysis_skipped(file));
    if (first == UINT64_MAX)
        cJSON_AddNullToObject(part, "first_offset");
    else
        json_count(part, "first_offset", first);
    cJSON_AddItemToObject(part, "reasons", analysis_reasons_json(file));
}

static void add_ops(cJSON *body, const struct analysis *analysis)
{
    cJSON *part = cJSON_AddObjectToObject(body, "ops"), *total;

    cJSON_AddItemToObject(part, "cpu", ops_list_json(&analysis->cpu));
    cJSON_AddItemToObject(part, "cuda", ops_list_json(&analysis->cuda));
    total = cJSON_AddObjectToObject(part, "total");
    json_count(total, "cpu", analysis->cpu.total_ops);
    json_count(total, "cuda", analysis->cuda.total_ops);
}

static void add_outermost(cJSON *body, const struct outer_answer *outer)
{
    cJSON *list = cJSON_AddArrayToObject(body, "outermost_cpu_ops");

    for (uint32_t i = 0; i < outer->row_count; i++) {
        cJSON *row = cJSON_CreateObject();

        json_text(row, "name", outer->rows[i].name);
        json_count(row, "count", outer->rows[i].count);
        json_ms(row, "total_ms", (double)outer->rows[i].total_ns);
        cJSON_AddItemToArray(list, row);
    }
}

static void add_steps(cJSON *body, const struct steps_answer *steps)
{
    cJSON *list = cJSON_AddArrayToObject(body, "step_rows"), *summary;

    for (uint32_t i = 0; i < steps->row_count; i++)
        cJSON_AddItemToArray(list, step_json(&steps->rows[i]));
    summary = cJSON_AddObjectToObject(body, "summary");
    cJSON_AddItemToObject(summary, "train", steps_summary_json(&steps->train));
    cJSON_AddItemToObject(summary, "validation",
                          steps_summary_json(&steps->validation));
}

const char *analysis_steps_from(const struct file_result *file)
{
    return file->inferred_steps ? "optimizer"
           : file->whole_step   ? "file"
                                : "ProfilerStep";
}

/* What a file says beyond what every session does. */
static void add_file(cJSON *body, const struct analysis *analysis)
{
    static const char *const memories[] = {NULL, "totals", "deltas"};
    const struct file_result *file = analysis->file;

    json_text(body, "format", format_of(file));
    json_text(body, "file", analysis->path);
    json_count(body, "events", file->events);
    json_count(body, "events_in_tables", file->taken);
    json_ms(body, "span_ms", (double)file->span_ns);
    add_skipped(body, file);
    cJSON_AddItemToObject(body, "incomplete", analysis_incomplete_json(file));
    json_text(body, "error", *file->error == '\0' ? NULL : file->error);
    json_text(body, "rank_from", file_rank_text(file->rank_from));
    cJSON_AddBoolToObject(body, "cut", file->is_cut);
    json_text(body, "steps_from",
              analysis->summary.head.steps == 0 ? NULL : analysis_steps_from(file));
    json_text(body, "memory_from", memories[file->memory]);
}

cJSON *analysis_json(const struct analysis *analysis)
{
    cJSON *body = bottlenecks_json(&analysis->summary), *gpu;

    if (analysis->file != NULL)
        add_file(body, analysis);
    if (!findings_are_sought(&analysis->summary))
        json_text(body, "findings_reason",
                  analysis->summary.foreign ? "it is not a PyTorch trace"
                                            : "they want more steps");
    gpu = gpu_json(&analysis->gpu);
    cJSON_AddItemToObject(body, "gpu", cJSON_DetachItemFromObject(gpu, "devices"));
    cJSON_Delete(gpu);
    add_steps(body, &analysis->steps);
    add_ops(body, analysis);
    add_outermost(body, &analysis->outer);
    if (analysis->replay.table.steps > 0)
        add_critical_path_json(cJSON_AddObjectToObject(body, "critical_path"),
                               &analysis->replay);
    return body;
}

/* ---- a trace file as a document of /api/report ------------------------------------------------ */

/* What /api/status says of a file that is served. */
static void add_status(cJSON *body, const struct analysis *analysis, const char *name)
{
    cJSON *status = cJSON_AddObjectToObject(body, "status"), *session;

    session = cJSON_CreateObject();
    json_text(session, "id", analysis->summary.head.session);
    json_text(session, "name", name);
    json_text(session, "state", "ended");
    json_integer(session, "rank",
                 analysis->summary.head.rank < 0 ? NOT_KNOWN
                                                 : analysis->summary.head.rank);
    cJSON_AddBoolToObject(session, "from_file", true);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(status, "sessions"), session);
}

cJSON *analysis_report(const struct analysis *analysis, const char *name)
{
    cJSON *body = cJSON_CreateObject(), *ops;

    json_text(body, "version", TRAINGLASS_VERSION);
    json_count(body, "created_unix_ms", (uint64_t)time(NULL) * 1000);
    add_status(body, analysis, name);
    cJSON_AddItemToObject(body, "bottlenecks", bottlenecks_json(&analysis->summary));
    cJSON_AddItemToObject(body, "steps", steps_json(&analysis->steps));
    cJSON_AddItemToObject(body, "memory", memory_json(&analysis->memory));
    cJSON_AddItemToObject(body, "gpu", gpu_json(&analysis->gpu));
    if (analysis->file != NULL)
        add_file(cJSON_AddObjectToObject(body, "file"), analysis);
    ops = cJSON_AddObjectToObject(body, "ops");
    cJSON_AddItemToObject(ops, "cpu", ops_list_json(&analysis->cpu));
    cJSON_AddItemToObject(ops, "cuda", ops_list_json(&analysis->cuda));
    json_text(cJSON_AddObjectToObject(body, "overhead"), "reason",
              "a trace file does not say what recording it cost");
    return body;
}
