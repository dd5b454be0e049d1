#ifndef INGEST_TRACE_FEED_MAGIC_H
#define INGEST_TRACE_FEED_MAGIC_H

#include <stddef.h>

/* What a file is that begins so, and what to do: one sentence; NULL where it may be a trace. */
const char *magic_sentence(const void *bytes, size_t length);

#endif
