/* Pieces that several queries share. The store's lock is held (query/pick.h). */
#ifndef QUERY_PARTS_H
#define QUERY_PARTS_H

#include "query/bottlenecks_query.h"
#include "query/numbers.h"
#include "query/pick.h"

void parts_step_row(const struct step *step, double median_ns, struct step_row *row);

/* Everything unknown. */
void parts_clear_summary(struct steps_summary *summary);

/* ---- parts of an answer over the head's window: after pick_window() ------------------ */

/* Summaries and outside_ns; then the slow steps, whose raw_bytes stay 0 and of which the newest
 * alone may be remembered; after the rows, means, where these are a reduction. */
MUST_CHECK int parts_steps_summary(const struct pick *pick, bool whole_run,
                                   struct steps_answer *answer);
MUST_CHECK int parts_slow(const struct pick *pick, struct steps_answer *answer);
MUST_CHECK int parts_means(const struct pick *pick, struct steps_answer *answer);

/* Why there are no steps, if there are none. */
void parts_explain_steps(const struct pick *pick, struct answer *head);

MUST_CHECK int parts_rhythm(const struct pick *pick, struct rhythm *rhythm);
void parts_load(const struct pick *whole, struct load *load);
void parts_between_ops(const struct pick *pick, struct between_ops *between);

/* Of one rank there is nothing to compare, and the reason. */
MUST_CHECK int parts_ranks(const struct pick *pick, struct ranks_answer *answer);

/* `steps` are of the same window. After the table of CPU ops, where stacks and modules are
 * known: the functions that call them, and the module with most of their time. */
MUST_CHECK int parts_ops(const struct pick *pick, const struct ops_request *request,
                         const struct steps_answer *steps, struct ops_answer *answer);
MUST_CHECK int parts_callers(const struct pick *pick, const struct steps_answer *steps,
                             struct ops_answer *cpu);
MUST_CHECK int parts_modules(const struct pick *pick, const struct steps_answer *steps,
                             struct ops_answer *cpu);

/* With so many points; 0: none. */
MUST_CHECK int parts_memory(const struct pick *pick, uint32_t points,
                            struct memory_answer *answer);
MUST_CHECK int parts_gpu(const struct pick *pick, uint32_t points,
                         struct gpu_answer *answer);
MUST_CHECK int parts_hardware(const struct pick *pick, uint32_t points,
                              struct hardware_answer *answer);

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

/* ---- of a process -------------------------------------------------------------------- */

/* Share of a stretch, or of the seconds that it lies in, that the process's first thread
 * waited for a core; NaN unknown. */
double parts_delay(const struct process *process, int64_t from_ns, int64_t to_ns);

/* A fact that is a text; "" where nobody told it. */
const char *parts_fact_text(const struct process *process, const char *key);

/* One that is a count; NaN where nobody told it, or it is negative. */
double parts_fact_count(const struct process *process, const char *key);

/* A worker that says that its loader feeds no training. */
bool parts_feeds_no_training(const struct process *worker);

MUST_CHECK int parts_facts(struct answer *head, const struct process *process,
                           struct status_fact **list, uint32_t *count);

MUST_CHECK int parts_capabilities(struct answer *head, const struct process *process,
                                  struct status_capability **list, uint32_t *count);

/* What each thread is in until `until_ns`; of the training thread also its step and
 * phase. */
MUST_CHECK int parts_threads(struct answer *head, const struct process *process,
                             int64_t until_ns, struct status_process *to);

/* Fills use_ns and idle_ns, on how many steps they stand, and why on none. 0 or -ENOMEM. */
MUST_CHECK int gpu_means(const struct pick *pick, const struct gpu_table *table,
                         struct gpu_device *device);

/* Why of no step the work is known though it was recorded; "" that cannot be said. */
const char *gpu_why_unknown(const struct process *process);

/* Fills compute_first_ns and compute_last_ns from the steps in [range[0], range[1]).
 * Returns 0, or -ENOMEM. */
MUST_CHECK int gpu_drift(struct arena *arena, const struct gpu *gpu,
                         const struct gpu_table *table, const int64_t range[2],
                         struct gpu_device *device);

#define WARM_UP_CALM 5u /* so many usual steps end it; no run warms up later */

/* While training steps are looked at from the run's first on; all zero before. */
struct warm_up {
    uint32_t seen, end; /* steps so far, and up to the last slow one */
    uint32_t calm;      /* usual ones since that */
};

/* Takes the next step beside the median; false: it was over before. */
bool warm_up_goes_on(struct warm_up *warm_up, double ns, double median_ns);

/* Of `count` remembered steps, `first` and later ones: how many from there on lie in the run's
 * warm-up and before all GPU work that is recorded. No mean of that work knows them. At most a
 * quarter of those that train; validation and deep windows between them count. */
uint32_t warm_up_unknown(const struct steps *steps, uint32_t first, uint32_t count);

#endif
