/* Files that people take for a trace: each gets the sentence that says what it is. */
#ifndef INGEST_TRACE_STRANGER_H
#define INGEST_TRACE_STRANGER_H

#include "ingest/trace/reader.h"

/* What the file is that had no event; NULL where nothing tells. Static. */
const char *stranger_sentence(const struct trace_head *head,
                              const struct trace_report *report);

#endif
