/* What of loading is worth to be made cheaper, as far as the job tells: how much of it is
 * collating. Of workers that are no forks only what is watched is known. */
#ifndef FINDINGS_LOADING_H
#define FINDINGS_LOADING_H

#include "findings/rules.h"

/* The larger part, to follow a sentence: ": 92 % of it in `collate_fn`", of workers "; 92 %
 * of loading is spent in `collate_fn`"; "" unknown. */
const char *loading_part(struct rule_context *context);

/* More than half of it is collating, which waits for no storage. */
bool loading_is_collating(const struct rule_context *context);

void loading_evidence(struct rule_context *context, struct finding *finding);

/* What to work on. */
void loading_advise_part(struct rule_context *context, struct finding *finding);

/* Where workers load, how to learn what their functions take. */
void loading_advise_watching(struct rule_context *context, struct finding *finding);

/* Of batches that are late now and then, the latest by so much longer than a step: how many
 * to load ahead. False where that would hide none, or too many would be needed. */
bool loading_advise_ahead(struct rule_context *context, struct finding *finding,
                          double late_ns);

/* The wait for batches that are there, per step: the threads of a worker that hand them over
 * need Python's lock, which its samples or its `collate_fn` hold. 0 where that takes no
 * longer than it may. */
double loading_unanswered_ns(const struct rule_context *context);

/* Workers that never rest have no batch ready once in a round of theirs. Where none is late
 * for longer than all that they load ahead lasts, they keep up with the trainer and wait for
 * it: only some batches are slow. */
bool loading_keeps_up(const struct rule_context *context);

/* Then. */
void loading_advise_few_late(struct rule_context *context, struct finding *finding);

/* Waited per step for the first batches of epochs, and for those at a period. */
double loading_late_ns(const struct rule_context *context);

/* What the same work would save per step if all workers had alike of it; 0 where none is
 * slow. */
double loading_slow_worker_ns(const struct rule_context *context);

#endif
