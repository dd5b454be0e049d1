/* What stands around the events: kept as text, bounded, and the few numbers read. */
#ifndef INGEST_TRACE_PARSE_HEAD_H
#define INGEST_TRACE_PARSE_HEAD_H

#include "ingest/trace/reader.h"

struct head {
    struct trace_head seen;
    struct trace_span spans[TRACE_SPANS_MAX];
    size_t bytes;
};

/* Keeps copies of key and value, or counts that it cannot. `span` is cut when its value
 * is only a beginning. */
void head_add(struct head *head, const struct trace_span *span);
void head_close(struct head *head);

#endif
