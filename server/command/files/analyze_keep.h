/* The files that analyze writes beside its answer: stacks, a flame graph, a page. Each is whole or
 * not there. */
#ifndef COMMAND_ANALYZE_KEEP_H
#define COMMAND_ANALYZE_KEEP_H

#include "ingest/file/paths.h"
#include "trace/flame.h"

struct cJSON;

struct analyze_keep {
    const char *stacks, *flame, *html; /* paths; NULL not wanted */
    enum flame_metric metric;          /* of the stacks */
    const char *name;                  /* of the trace */
    int code;                          /* exit code of what was written so far */
    struct cJSON *several; /* of more files than one: their reports; NULL of one */
};

bool analyze_keep_wants_paths(const struct analyze_keep *keep);

/* Of one file: written at once. Of several: kept for the page of all. NULL is no memory
 * for it. */
void analyze_keep_report(struct analyze_keep *keep, const struct cJSON *report);

/* Ranks that were compared, as /api/ranks says it; takes `ranks`. */
void analyze_keep_ranks(struct analyze_keep *keep, struct cJSON *ranks);

/* After the last of several files; what was interrupted is not `whole`, and not written. */
void analyze_keep_finish(struct analyze_keep *keep, bool whole);

/* For file_request.on_paths; `user` is a struct analyze_keep. */
void analyze_keep_paths(void *user, const struct file_paths *paths);

#endif
