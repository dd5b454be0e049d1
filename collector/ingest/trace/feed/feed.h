/* A file's bytes in blocks, inflated when they are gzip.
 *
 *     thread  read ─▶ inflate ─▶ scan ─▶ [block][block][block] ─▶ feed_next()
 *
 * A block has headroom before its bytes for what the reader did not finish in the one
 * before, and zeros behind them: text is parsed where it was read.
 */
#ifndef INGEST_TRACE_FEED_FEED_H
#define INGEST_TRACE_FEED_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingest/trace/feed/inflater.h"
#include "ingest/trace/scan/scan.h"
#include "wire/attributes.h"

#define FEED_BLOCK_BYTES (128u * 1024)
#define FEED_HEADROOM    (64u * 1024)
#define FEED_ZEROS       128u /* behind the bytes */

/* The reader holds two, the thread fills one, the rest are ready: all of them stay in
 * the second-level cache of two cores. */
#define FEED_BLOCKS 4u

/* A block is scanned in windows, each of which fits in the first-level cache. */
#define FEED_WINDOW (16u * 1024)

/* Where a window's entries begin in the block's index, and with what state. */
struct feed_mark {
    uint32_t entry;
    struct trace_scan_state state;
};

struct feed_block {
    char *bytes;
    uint32_t length;
    /* Scanned ahead, as if the text were undamaged from the file's first byte on; NULL
     * without a thread. Positions count from bytes - FEED_HEADROOM. */
    uint32_t *index;
    uint32_t entries; /* of the index; behind them some that say where the bytes end */
    const struct feed_mark *marks; /* one for each window, and one behind the last */
    const struct ahead_run *run;   /* what feed_look_ahead made of it; or NULL */
};

/* Looks ahead at a block, from the thread and before it is given out; `room` is below
 * FEED_BLOCKS, and the block's alone for as long as it is valid. */
typedef const struct ahead_run *
feed_look_ahead(void *user, const struct feed_block *block, uint32_t room);

/* What became of the file; complete after feed_next() returned 0 or an error,
 * or feed_stop(). */
struct feed_report {
    uint64_t text_bytes; /* given out */
    bool is_gzip;
    bool is_cut; /* ended before it should */
    char error[256];
};

struct feed;
struct fill;

/* NULL when out of memory. With a thread, that scans too. */
struct feed *feed_new(bool one_thread, trace_scan *scan);
void feed_free(struct feed *feed);

/* Has the thread look ahead where the reader has not yet come to the block before; or
 * always. Before feed_next(). */
void feed_set_ahead(struct feed *feed, feed_look_ahead *look, void *user, bool always);

/* Where its bytes come from, to be opened before feed_next(). */
struct fill *feed_fill(struct feed *feed);

/* 1 and a block, valid until the next but one call; 0 at the end; -ECANCELED, or an
 * error of what is not worth reading. After a failed read the blocks that came before
 * are given out, then the error. */
MUST_CHECK int feed_next(struct feed *feed, struct feed_block *block);

/* Ends the thread, whatever is left of the file. */
void feed_stop(struct feed *feed);

/* Fills blocks from a descriptor or from memory: what the feed's thread does. */
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

    uint8_t *in; /* IN_BYTES of fill.c: the first bytes, and what is to be inflated */
    size_t in_at, in_left;
    struct inflater *inflater; /* of gzip */
    bool between_members;

    /* What is not read of a plain file on disk; borrowed, see reader.h. */
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

/* Up to FEED_BLOCK_BYTES; 1, 0 when nothing is left, or a negative errno. */
MUST_CHECK int fill_block(struct fill *fill, char *bytes, uint32_t *length);

void fill_position(const struct fill *fill, uint64_t *file_bytes, uint64_t *of);
void fill_cancel(struct fill *fill);

#endif
