/* What a step is where no update is known: an optimizer of another kind than torch's, an
 * update by hand. The batch, where batches are fetched; else the backward, or the group of
 * them that comes again. An update that does come takes over again. */
#include "probe/steps/parts.h"

/* Micro-batches of an update whose optimizer was built, at the least: after so many
 * backwards without one it is not that optimizer which trains. */
#define PATIENCE 64u

/* Backwards of one batch; more train on it alone. Some critics have 5 or 10. */
#define BACKWARDS_OF_BATCH 16u

/* So many backwards tell whether their graphs come again. */
#define GRAPHS_TO_LEARN 8u

bool steps_update_missing(const struct steps *steps)
{
    if (!steps->updates_known)
        return steps->unanswered > 1;
    return steps->unanswered >= PATIENCE + 2 * steps->unanswered_most;
}

/* Does the state machine decide what a step is, or did somebody say? */
static bool is_inferred(const struct steps *steps)
{
    return steps->source <= STEPS_BY_OPTIMIZER && steps->validation == 0;
}

/* What was taken for updates is forgotten. */
static void forget(struct steps *steps)
{
    steps->cadence = (struct cadence){.count = 0};
    steps_held_forget(steps);
}

void steps_update_known(struct steps *steps, uint64_t now)
{
    bool replaced =
        steps->source == STEPS_BY_TRAINED_BATCH || steps->source == STEPS_BY_BACKWARD;

    if (steps->unanswered > steps->unanswered_most)
        steps->unanswered_most = steps->unanswered;
    steps->unanswered = steps->batch_backwards = 0;
    if (replaced || !steps->updates_known)
        forget(steps);
    steps->updates_known = true;
    if (replaced)
        steps_source(steps, STEPS_BY_OPTIMIZER, now);
}

/* ---- batches --------------------------------------------------------------------- */

void steps_trained_batch_end(struct steps *steps, uint64_t now)
{
    if (!is_inferred(steps) || !steps->trained || steps->unanswered == 0 ||
        steps->source == STEPS_BY_BACKWARD)
        return;
    if (steps->source != STEPS_BY_TRAINED_BATCH) {
        if (!steps->updates_known && steps->held_end == 0) {
            steps->held_end = now; /* if the next one has no update either */
            return;
        }
        if (!steps_update_missing(steps))
            return;
        steps_source(steps, STEPS_BY_TRAINED_BATCH, now);
        steps_held_end(steps);
    }
    if (steps->trained)
        steps_end(steps, now, 0, false);
}

void steps_trained_batches_exhausted(struct steps *steps, uint64_t now)
{
    if (!is_inferred(steps) || steps->updates_known || steps->held_end == 0 ||
        steps->cadence.count > 0)
        return;
    steps_source(steps, STEPS_BY_TRAINED_BATCH, now);
    steps_held_end(steps);
}

/* ---- backwards ------------------------------------------------------------------- */

/* A graph is known by its number of nodes, where that comes again. */
static uint32_t graph_of(struct steps *steps, uint32_t nodes)
{
    if (!steps->backwards_irregular && steps->cadence.count >= GRAPHS_TO_LEARN &&
        !cadence_remembers(&steps->cadence, nodes)) {
        steps->backwards_irregular = true;
        forget(steps);
    }
    uint32_t id = steps->backwards_irregular ? 1 : nodes;

    /* What else was built before the first one counts with it: its number says nothing. */
    if (steps->cadence.count == 1) {
        steps->cadence = (struct cadence){.count = 0};
        (void)cadence_update(&steps->cadence, id);
    }
    return id;
}

void steps_backward_over(struct steps *steps, uint32_t nodes, uint64_t now)
{
    bool of_batch =
        steps->batch.start != 0 && steps->batch_backwards < BACKWARDS_OF_BATCH;
    bool first = !steps->updates_known && steps->cadence.count == 0;

    steps->unanswered++;
    steps->batch_backwards++;
    if (!is_inferred(steps))
        return;
    if (steps->source != STEPS_BY_BACKWARD) {
        if (of_batch || (steps->updates_known && !steps_update_missing(steps)))
            return;
        if (!first && steps->cadence.count > 1)
            forget(steps);
        if (!first) /* it is a step if the next one has no update either */
            steps_source(steps, STEPS_BY_BACKWARD, now);
    }
    steps_infer(steps, graph_of(steps, nodes), now);
}

/* ---- the end ----------------------------------------------------------------------- */

/* Nothing follows that could tell more: what may have been a step was one. */
static void finish_step(struct steps *steps)
{
    bool unanswered = steps->trained && steps->unanswered > 0;

    if (!is_inferred(steps))
        return;
    if (!steps->updates_known && unanswered && steps->source == STEPS_BY_OPTIMIZER)
        steps_source(steps,
                     steps->batch_trains ? STEPS_BY_TRAINED_BATCH : STEPS_BY_BACKWARD,
                     steps->piece_start);
    (void)cadence_confirm(&steps->cadence);
    steps_held_end(steps);
    if (steps->trained && unanswered && steps->source == STEPS_BY_TRAINED_BATCH)
        steps_end(steps, steps->piece_start, 0, false);
}

void steps_finish(struct steps *steps, uint64_t now)
{
    const struct steps_batch *batch = &steps->batch;
    bool fetched = batch->start != 0 && batch->fetched != 0 && !steps->batch_trains;
    bool trains = steps->will_train && (steps->training_loader == 0 ||
                                        batch->loader == steps->training_loader);

    finish_step(steps);
    if (!fetched || trains || !is_inferred(steps) || steps->in_fetch > 0)
        return;
    steps_piece_end(steps, now);
    steps_batch_end(steps, now);
    steps_held_out(steps, now);
}
