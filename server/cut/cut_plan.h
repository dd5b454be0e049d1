/* What must be known of a whole trace before a piece of it can be cut out. */
#ifndef CUT_PLAN_H
#define CUT_PLAN_H

#include "cut/cut.h"
#include "ingest/file/clusters.h"

/* ---- which parts of the file hold nothing of a range: the second reading leaps over them.
 * One row for each stretch of text, whatever stands in it: 0.5 MB for 1 GB. ---- */

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

/* ---- the plan ---- */

struct cut_step {
    int64_t start_ns, end_ns;
    int64_t written_ns; /* its start as the file rounds it: up to 2 us earlier */
    uint64_t number;
    uint32_t pid, tid; /* names */
};

/* When what has this key began: a launch by its correlation, a flow by its id. */
struct cut_start {
    uint64_t key; /* 0: the slot is free */
    int64_t time_ns;
};

struct cut_plan {
    const struct cut_request *request;
    const struct trace_names *names; /* of the first reader, while it runs */
    const struct trace_head *head;   /* likewise */
    struct cut_blocks blocks;        /* of the file */
    struct cut_step *steps;          /* of one thread, by time */
    uint32_t step_count, step_capacity;
    struct cut_start *starts; /* open addressing */
    uint64_t start_count, start_mask;
    uint64_t events, skipped;       /* of the first reading; no metadata */
    struct file_clusters clusters;  /* of what counts in analyze: file time */
    int64_t first_ns, last_ns;      /* of these, without strays */
    uint32_t first_step, last_step; /* indices of those asked for */
    int64_t from_ns, to_ns;         /* the range, file time */
    bool out_of_memory;
    bool too_large; /* for the request's plan_bytes */
};

void cut_plan_open(struct cut_plan *plan, const struct cut_request *request);
void cut_plan_close(struct cut_plan *plan);

/* Callback of the first reader. */
bool cut_plan_take(void *user, struct trace_event *events, uint32_t count);

/* After the last event: the range that was asked for. -ENODATA and a sentence in `error`
 * when the file has none. */
MUST_CHECK int cut_plan_choose(struct cut_plan *plan, char *error, size_t size);

/* Does the event belong to the range? Where the range ended before *reference_ns (its
 * launch, its flow's start, else itself) it would not. */
bool cut_plan_keeps(const struct cut_plan *plan, const struct trace_event *event,
                    int64_t *reference_ns);

#endif
