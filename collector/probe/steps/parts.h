/* What the files of the state machine share: steps.c feeds, phases.c knows what
 * time was spent on, batches.c what was fetched for. */
#ifndef PROBE_STEPS_PARTS_H
#define PROBE_STEPS_PARTS_H

#include "probe/steps/steps.h"

static inline void steps_depth(uint32_t *nested, bool begins)
{
    *nested = begins ? *nested + 1 : *nested - (*nested > 0);
}

/* ---- phases.c ---- */

/* The time since the last mark gets a meaning, or waits for one. */
void steps_piece_end(struct steps *steps, uint64_t now);
/* What waited came before a backward: all of it counts. */
void steps_pieces_out(struct steps *steps);
/* What waited in Optimizer.step was the update (it ends). */
void steps_pieces_update(struct steps *steps);
/* What waited outside of Optimizer.step was neither. */
void steps_pieces_drop(struct steps *steps);
/* A stretch of the running training step, or of the validation that somebody said. */
void steps_phase_out(struct steps *steps, enum event_phase phase, uint64_t start,
                     uint64_t end);
/* The queue's phases belong to the running step. */
void steps_queue_out(struct steps *steps);

/* ---- batches.c ---- */

void steps_fetch_begin(struct steps *steps, uint32_t loader, uint64_t now);
void steps_fetch_end(struct steps *steps, bool exhausted, uint64_t now);
void steps_iterator_begin(struct steps *steps, uint32_t loader);
void steps_optimizer_built(struct steps *steps);
/* A backward or an update begins: the running batch trains. */
void steps_batch_trains(struct steps *steps, uint64_t now);
/* The running batch ends unused by training; validation rows come out of it. */
void steps_batch_end(struct steps *steps, uint64_t now);
/* Batches that were held are a validation's. */
void steps_held_out(struct steps *steps, uint64_t now);
/* Batches fetched ahead are training's: their data time counts for the step. */
void steps_held_train(struct steps *steps);
/* A validation row without a fetch, from the end of the one before. */
void steps_row_out(struct steps *steps, uint64_t now);

/* ---- fallback.c ---- */

/* The next batch is asked for after one that trained. */
void steps_trained_batch_end(struct steps *steps, uint64_t now);
/* There was none left. */
void steps_trained_batches_exhausted(struct steps *steps, uint64_t now);
/* A backward is over; `nodes` of the graph that it followed, 0 unknown. */
void steps_backward_over(struct steps *steps, uint32_t nodes, uint64_t now);
/* An update is over: whatever was taken in its place is left again. */
void steps_update_known(struct steps *steps, uint64_t now);
/* So many backwards went without an update that none will come. */
bool steps_update_missing(const struct steps *steps);

/* ---- updates.c ---- */

void steps_backward_begin(struct steps *steps, uint32_t nodes, uint64_t now);
void steps_backward_end(struct steps *steps, uint64_t now);
void steps_optimizer_begin(struct steps *steps, uint32_t id, uint64_t now);
void steps_optimizer_end(struct steps *steps, uint32_t id, uint64_t now);
/* Ends steps as the updates, or what is taken for them, come. */
void steps_infer(struct steps *steps, uint32_t id, uint64_t now);

/* ---- steps.c ---- */

void steps_end(struct steps *steps, uint64_t end, uint8_t flags, bool late);

void steps_source(struct steps *steps, enum steps_source source, uint64_t now);
void steps_epoch_out(struct steps *steps, uint32_t epoch, uint64_t time);
/* The update that was held ended a step. */
void steps_held_end(struct steps *steps);
/* It did not. */
void steps_held_forget(struct steps *steps);

#endif
