/* Bytes of a trace that are neither a file nor memory, such as a member of an archive. */
#ifndef INGEST_TRACE_FEED_SOURCE_H
#define INGEST_TRACE_FEED_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct trace_source {
    /* Up to `size` bytes, from any thread but one at a time; 0 at the end, or a negative
     * errno. Adds to *packed_bytes how much of a file was read for them. NULL: no source. */
    ssize_t (*read)(void *user, void *to, size_t size, uint64_t *packed_bytes);
    void *user;
};

#endif
