/* Pieces that several queries share. The store's lock is held (query/pick.h). */
#ifndef QUERY_PARTS_H
#define QUERY_PARTS_H

#include "query/between_ops.h"
#include "query/gpu_query.h"
#include "query/hardware_query.h"
#include "query/load.h"
#include "query/memory_query.h"
#include "query/ops_query.h"
#include "query/pick.h"
#include "query/ranks_query.h"
#include "query/rhythm.h"
#include "query/shown_steps.h"
#include "query/status_query.h"
#include "query/steps_query.h"

void parts_step_row(const struct step *step, double median_ns, struct step_row *row);

/* Everything unknown. */
void parts_clear_summary(struct steps_summary *summary);

/* Summaries and outside_ns over the head's window. */
MUST_CHECK int parts_steps_summary(const struct pick *pick, bool whole_run,
                                   struct steps_answer *answer);

/* After the summary; raw_bytes stay 0, and `remembered` is of the newest alone. */
MUST_CHECK int parts_slow(const struct pick *pick, struct steps_answer *answer);

/* After the rows: means, where these are a reduction. */
MUST_CHECK int parts_means(const struct pick *pick, struct steps_answer *answer);

/* After pick_window(). */
MUST_CHECK int parts_rhythm(const struct pick *pick, struct rhythm *rhythm);
void parts_load(const struct pick *whole, struct load *load);

/* Likewise. */
void parts_shown(const struct pick *pick, struct shown_steps *shown);

/* After pick_window(). */
void parts_between_ops(const struct pick *pick, struct between_ops *between);

/* Share of a stretch, or of the seconds that it lies in, that the process's first thread
 * waited for a core; NaN unknown. */
double parts_delay(const struct process *process, int64_t from_ns, int64_t to_ns);

/* After pick_window(). Of one rank there is nothing to compare, and the reason. */
MUST_CHECK int parts_ranks(const struct pick *pick, struct ranks_answer *answer);

/* Why there are no steps, if there are none. */
void parts_explain_steps(const struct pick *pick, struct answer *head);

/* The table; answer->head has its window. `steps` are of the same window. */
MUST_CHECK int parts_ops(const struct pick *pick, const struct ops_request *request,
                         const struct steps_answer *steps, struct ops_answer *answer);

/* After it: the functions that call these ops, where stacks are known. */
MUST_CHECK int parts_callers(const struct pick *pick, const struct steps_answer *steps,
                             struct ops_answer *cpu);

/* Likewise the module with most of their time, where modules are known. */
MUST_CHECK int parts_modules(const struct pick *pick, const struct steps_answer *steps,
                             struct ops_answer *cpu);

/* Names of ranges in workers that are told; calls of more are counted. */
#define PARTS_WORKER_RANGES 64u

/* A range in the workers of a trainer's loaders, all of them together. */
struct parts_worker_range {
    const char *name; /* of the store */
    uint32_t workers;
    double count, total_ns; /* in the window, but for validation */
    double validation_ns;   /* by loaders that feed validation */
    uint64_t recorded_count;
    double recorded_total_ns, p50_ns, p95_ns, p99_ns; /* NaN without a call */
    int64_t min_ns, max_ns;
};

/* Fills up to PARTS_WORKER_RANGES; returns calls whose name found no room. */
uint64_t parts_worker_ranges(const struct pick *pick, const char *query,
                             struct parts_worker_range *ranges, uint32_t *found);

/* points 0: none. */
MUST_CHECK int parts_memory(const struct pick *pick, uint32_t points,
                            struct memory_answer *answer);

/* points 0: none. */
MUST_CHECK int parts_gpu(const struct pick *pick, uint32_t points,
                         struct gpu_answer *answer);

/* A fact that is a text; "" where nobody told it. */
const char *parts_fact_text(const struct process *process, const char *key);

/* One that is a count; NaN where nobody told it, or it is negative. */
double parts_fact_count(const struct process *process, const char *key);

/* A worker that says that its loader feeds no training. */
bool parts_feeds_no_training(const struct process *worker);

/* The head has its window. points 0: none. */
MUST_CHECK int parts_hardware(const struct pick *pick, uint32_t points,
                              struct hardware_answer *answer);

MUST_CHECK int parts_facts(struct answer *head, const struct process *process,
                           struct status_fact **list, uint32_t *count);

MUST_CHECK int parts_capabilities(struct answer *head, const struct process *process,
                                  struct status_capability **list, uint32_t *count);

/* What each thread is in until `until_ns`; of the training thread also its step and
 * phase. */
MUST_CHECK int parts_threads(struct answer *head, const struct process *process,
                             int64_t until_ns, struct status_process *to);

#endif
