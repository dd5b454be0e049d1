/* Fills blocks from a descriptor or from memory: what the feed's thread does. */
#ifndef INGEST_TRACE_FEED_FILL_H
#define INGEST_TRACE_FEED_FILL_H

#include <stdatomic.h>

#include "ingest/trace/feed/feed.h"
#include "ingest/trace/feed/hole.h"
#include "ingest/trace/feed/inflater.h"
#include "ingest/trace/feed/source.h"

struct fill {
    int descriptor; /* -1: `source`, or `bytes` */
    bool is_ours;   /* to be closed */
    bool may_wait;  /* a pipe, a terminal: wait for it and for `wake` at once */
    bool looked;    /* at the first bytes */
    bool at_end;
    struct trace_source source;
    const uint8_t *bytes;
    uint64_t bytes_left; /* of `bytes`, or of the file's size when it was opened */
    bool has_size;
    int error;

    uint8_t *in; /* FILL_IN_BYTES: the first bytes, and what is to be inflated */
    size_t in_at, in_left;
    struct inflater *inflater; /* of gzip */
    bool between_members;

    /* What is not read of a plain file on disk; borrowed, see hole.h. */
    const struct trace_hole *holes;
    uint32_t hole_count;
    uint64_t at; /* of the next byte, in a file with holes */

    int wake;              /* eventfd */
    atomic_bool cancelled; /* relaxed: nothing is handed over with it */
    _Atomic uint64_t file_bytes, file_size; /* relaxed: for a progress line */
    struct feed_report report;
};

MUST_CHECK int fill_open(struct fill *fill); /* zeroed before */
void fill_close(struct fill *fill);
MUST_CHECK int fill_open_path(struct fill *fill, const char *path);
MUST_CHECK int fill_open_descriptor(struct fill *fill, int descriptor);
void fill_open_bytes(struct fill *fill, const void *bytes, size_t size);
void fill_open_source(struct fill *fill, const struct trace_source *source);

/* Up to FEED_BLOCK_BYTES; 1, 0 when nothing is left, or a negative errno. */
MUST_CHECK int fill_block(struct fill *fill, char *bytes, uint32_t *length);

void fill_position(const struct fill *fill, uint64_t *file_bytes, uint64_t *of);
void fill_cancel(struct fill *fill);

#endif
