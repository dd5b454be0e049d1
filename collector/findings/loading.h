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

/* ", and `prefetch_factor=4`" where `most` is 4; "" where so many are ahead, or nothing sets
 * it. */
const char *loading_and_ahead(struct rule_context *context, double most);

/* Of batches that are late now and then, the latest by so much longer than a step: how many
 * to load ahead. False where that would hide none, or too many would be needed. */
bool loading_advise_ahead(struct rule_context *context, struct finding *finding,
                          double late_ns);

/* What it takes to take a batch over from a worker, ready or not: each tensor's memory is
 * asked for in a talk of several turns between the processes, opened and mapped. No worker
 * makes that less; the thread that pins memory does it beside the training. A job with
 * workers tells itself how long it waited for them (EVENT_WAITED). Of a job without any it
 * is a guess: beside a training 0.9 to 1.9 ms for two tensors, and where nothing else runs
 * 1.3, 1.4 to 2.2 and 3.1 to 5.7 ms for one, two and eight of a kB or a MB, of it two thirds
 * CPU time (medians; torch 2.2 and 2.15 on a virtual core of 2.5 GHz). Other machines are
 * faster than that rather than slower. */
#define TENSORS_USUAL 2.0 /* inputs and targets */
#define TENSORS_MOST  100.0
#define TAKING_LEAST  0.25 /* of it, on the fastest machine */
#define TAKING_MOST   2.0

static inline double loading_taking_ns(double tensors)
{
    return 500000.0 + 500000.0 * tensors;
}

/* Of a batch, as far as the job tells. */
double loading_tensors(const struct rule_context *context);

/* What a worker of the training's loader uses of a core while it trains. Those of another
 * loader, as of a validation set, rest meanwhile, and work when these rest. NaN unknown, or
 * it has none. */
double loading_worker_share(const struct rule_context *context);

/* The wait for batches that are there, per step: the threads of a worker that hand them over
 * need Python's lock, which its samples or its `collate_fn` hold. 0 where that takes no
 * longer than it may. What is told apart may lie here or in the wait for a batch: as much
 * of it as possible there, and all of it here. */
double loading_unanswered_ns(const struct rule_context *context);
double loading_surely_unanswered_ns(const struct rule_context *context);

/* Workers that never rest have no batch ready once in a round of theirs. Where none is late
 * for longer than all that they load ahead lasts, they keep up with the trainer and wait for
 * it: only some batches are slow. */
bool loading_keeps_up(const struct rule_context *context);

/* Then: more batches ahead would hide those few. */
bool loading_hides_few_late(const struct rule_context *context);
void loading_advise_few_late(struct rule_context *context, struct finding *finding);

/* Waited per step for the run's first batches, for those of epochs and at a period, and for
 * the few that came far later than all others: these stand apart unless the workers keep up
 * but for a few, and more batches ahead would hide them. */
double loading_late_ns(const struct rule_context *context);
bool loading_rare_stand_apart(const struct rule_context *context);

/* What the same work would save per step if all workers had alike of it; 0 where none is
 * slow. */
double loading_slow_worker_ns(const struct rule_context *context);

/* All of these: findings of their own, or of the run's start. */
double loading_told_apart_ns(const struct rule_context *context);

/* Half of the 95 % interval of the wait without a ready batch, and of what goes unanswered. */
double loading_waited_error_ns(const struct rule_context *context);

/* A worker that others keep from its core loads no batch meanwhile; where nobody sees the
 * workers, they fare as the trainer does. What the job's own processes take from each
 * other is the loader's: there are too many of them. */
double loading_kept_from_cores_ns(const struct rule_context *context);

#endif
