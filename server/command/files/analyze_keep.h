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
};

bool analyze_keep_wants_paths(const struct analyze_keep *keep);

/* NULL is no memory for it. */
void analyze_keep_report(struct analyze_keep *keep, const struct cJSON *report);

/* For file_request.on_paths; `user` is a struct analyze_keep. */
void analyze_keep_paths(void *user, const struct file_paths *paths);

#endif
