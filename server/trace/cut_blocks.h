/* Which parts of a trace file hold nothing of a range: the second reading leaps over
 * them. One row for each stretch of text, whatever stands in it: 0.5 MB for 1 GB. */
#ifndef TRACE_CUT_BLOCKS_H
#define TRACE_CUT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "ingest/trace/reader.h"

/* From the earliest to the latest time for which an event may be kept, both inclusive. */
struct cut_reach {
    int64_t from_ns, to_ns;
};

static const struct cut_reach cut_reach_never = {INT64_MAX, INT64_MIN};
static const struct cut_reach cut_reach_always = {INT64_MIN, INT64_MAX};

struct cut_block {
    uint64_t offset; /* of its first event; it ends where the next one begins */
    struct cut_reach reach;
};

struct cut_blocks { /* all zero: none */
    struct cut_block *rows;
    size_t count, capacity;
    uint32_t spans; /* of the head, before the event that came last */
    bool out_of_memory;
};

void cut_blocks_close(struct cut_blocks *blocks);

/* The next event of the file; `head` as of its reader. */
void cut_blocks_take(struct cut_blocks *blocks, const struct trace_head *head,
                     uint64_t offset, struct cut_reach reach);

/* What may be left out of [from_ns, to_ns): into *holes, the caller's to free, NULL when
 * there is none. 0 or -ENOMEM. */
MUST_CHECK int cut_blocks_holes(const struct cut_blocks *blocks, int64_t from_ns,
                                int64_t to_ns, struct trace_hole **holes,
                                uint32_t *count);

#endif
