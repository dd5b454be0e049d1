/* What the files behind a question about ops share: ops_query.c gives the answer, ops_sums.c
 * sums the digests, ops_drawn.c weighs what was drawn, ops_rows.c makes a row of its sums,
 * ops_quantiles.c adds the percentiles. */
#ifndef QUERY_OPS_INSIDE_H
#define QUERY_OPS_INSIDE_H

#include "aggregate/kernels.h"
#include "query/parts.h"

#define OPS_NO_ROW UINT32_MAX

/* Sums of one row over the digests of one class. */
struct ops_class_sum {
    uint64_t count;
    double total_ns, self_ns, squares;
};

/* What was drawn, as far as it stands for all steps that were not recorded on demand. */
struct ops_drawn_sum {
    double count, total_ns, self_ns;
    double variance;         /* of self_ns, for these steps: 0 when all were recorded */
    double process_variance; /* the same for such steps at large */
};

struct ops_row_sum {
    struct ops_class_sum by_class[DIGEST_CLASSES];
    struct ops_class_sum block; /* of ops_add_drawn() alone */
    struct ops_drawn_sum drawn;
    int64_t min_ns, max_ns;
    uint32_t row;     /* OPS_NO_ROW: of workers, with its percentiles */
    double key, key2; /* by which it is sorted, larger first */
    struct op_row answer;
};

struct ops_use {
    const struct digest *digest;
    enum digest_class class;
};

/* One question while it is answered. */
struct ops_asking {
    const struct pick *pick;
    const struct ops_request *request;
    const struct ops *ops;
    const struct texts *texts;
    const struct ops_group *group; /* NULL: by name */
    bool by_kernels; /* steps with GPU work are those that were recorded */
    bool by_both;    /* of these those whose ops were recorded too */
    const struct ops_asking *launched; /* live: device time by op; NULL not known */
    struct ops_use *uses;
    uint32_t use_count, use_capacity;
    enum digest_class class; /* while collecting */
    bool failed;
    struct ops_row_sum *rows; /* by row id, then compacted to those that match */
    uint32_t row_count;
    const char *multiprocessors; /* the fact; "" where the process does not tell */
    uint64_t steps;              /* of the window */
    uint64_t recorded[DIGEST_CLASSES]; /* steps with the device's detail */
    uint64_t all_steps;                /* of the digests, for user ranges */
    bool whole;                        /* a file, all of it */
    bool apart; /* what lies outside of steps counts too: not in a file of a live run */
    double step_ns;
    double share_ns;      /* what a share is of */
    double validation_ns; /* summed time of the window's batches */
    double validations;   /* how many */
    const char *watched;  /* names, with a comma between them */
};

/* Do digests of the class tell of rows of the kind? Detail is complete in recorded steps
 * alone. */
ALWAYS_INLINE bool ops_tells(const struct ops_asking *asking, enum ops_kind kind,
                             enum digest_class class)
{
    if (asking->steps == 0)
        return class >= DIGEST_VALIDATION;
    if (asking->apart)
        return true;
    return class < DIGEST_VALIDATION && (class != DIGEST_BARE || kind == OPS_RANGE);
}

ALWAYS_INLINE void ops_class_add(struct ops_class_sum *sum,
                                 const struct digest_row *row)
{
    sum->count += row->count;
    sum->total_ns += (double)row->total_ns;
    sum->self_ns += (double)row->self_ns;
    sum->squares += row->self_squares;
}

/* Fills `drawn` of all rows when everything else was added up; the uses are sorted. Where
 * the window has training steps. */
MUST_CHECK int ops_add_drawn(struct ops_asking *asking);

/* From sums of recorded steps to all steps of the window: sum->answer. What was recorded on
 * demand stands for itself; what was drawn stands for the rest too. */
void ops_scale(const struct ops_asking *asking, struct ops_row_sum *sum);

/* What follows from counts and times: of a step, of a call, as a share; the rest is not
 * known yet. */
void ops_derive(const struct ops_asking *asking, struct op_row *row);

/* After ops_scale(): all but the percentiles; a watched range is kept in the answer. */
void ops_describe(const struct ops_asking *asking, struct ops_row_sum *sum,
                  struct ops_answer *answer);

/* Rows of functions that are watched in the loader's workers, after the others. */
void ops_add_workers(struct ops_asking *asking, struct ops_answer *answer);

/* Percentiles of rows[0..count). */
MUST_CHECK int ops_measure(struct ops_asking *asking, uint32_t count);

/* Adds a row, which is no overflow and has its numbers per step. */
void ops_sums_add(const struct op_row *row, struct ops_answer *answer);

/* After all rows, of a window of `steps` that shows a running job as it goes: checkpoints
 * that come seldom are judged by the distance between those of the run. */
void ops_sums_saving(const struct ops_saving *saving, double steps,
                     struct ops_answer *answer);

/* Kernels of several devices, those that run side by side and those that ran outside of the
 * steps together take longer than a device computes in a step, `compute_ns`: their sums, but
 * those of collectives, count as far as they fit into it. NaN: as they are. */
void ops_sums_fit(double compute_ns, struct ops_answer *answer);

/* Chooses the table to read. False, with the reason, where the group that was asked for is not
 * known. */
bool ops_choose_table(struct ops_asking *asking, struct ops_answer *answer);

/* Sets the time that shares are of, and the number of steps. */
void ops_measure_window(struct ops_asking *asking, const struct steps_answer *steps,
                        struct ops_answer *answer);

#endif
