/* All that the tables say of one trace file, or of one stretch of a session: for the
 * commands, their JSON and comparisons. */
#ifndef DOCUMENT_ANALYSIS_H
#define DOCUMENT_ANALYSIS_H

#include <cjson/cJSON.h>

#include "ingest/file/file.h"
#include "query/bottlenecks_query.h"
#include "query/replay_query.h"

struct store;

struct analysis_request {
    uint32_t k; /* ops of each list, 0 = 10 */
    enum ops_sort sort;
    enum group_by by;
    struct window window; /* WINDOW_DEFAULT: all of it */
    int32_t rank;         /* SELECT_ANY: as the file says */
    uint32_t points;      /* rows of steps: 2 or more, 0 = as many as there may be */
    bool critical_path;   /* also that of a step */
    bool quick; /* without replayed steps: a device's work by its busy share */
};

struct analysis {
    const char *path;               /* borrowed */
    const struct file_result *file; /* NULL: of a session */
    struct bottlenecks_answer summary;
    struct outer_answer outer;   /* empty for a part of the file */
    struct ops_answer cpu, cuda; /* as the request sorts and limits them */
    struct steps_answer steps;
    struct gpu_answer gpu;
    struct memory_answer memory;
    struct replay_answer replay; /* number NOT_KNOWN: not asked, or none */
};

/* -errno of the queries (query/answer.h); analysis_free() is owed in any case. */
MUST_CHECK int analysis_make(struct store *store, const struct file_result *file,
                             const struct analysis_request *request,
                             struct analysis *analysis);
MUST_CHECK int analysis_ask(struct store *store, const struct selection *whose,
                            const struct analysis_request *request,
                            struct analysis *analysis);
void analysis_free(struct analysis *analysis);

cJSON *analysis_json(const struct analysis *analysis);

/* The same as a document of /api/report, under `name`. */
cJSON *analysis_report(const struct analysis *analysis, const char *name);

/* What tells its steps: "ProfilerStep", "optimizer", or "file": all of it is one. */
const char *analysis_steps_from(const struct file_result *file);

/* Of all reasons, the reader's and the tables'. */
uint64_t analysis_skipped(const struct file_result *file);

/* [{"reason", "count", "first_offset"}] of what is in no table; [{"reason", "count"}] of
 * what is, and not all that it could be. */
cJSON *analysis_reasons_json(const struct file_result *file);
cJSON *analysis_incomplete_json(const struct file_result *file);

#endif
