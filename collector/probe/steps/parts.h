/* What the files of the state machine share: steps.c feeds, phases.c knows what
 * time was spent on, batches.c what was fetched for. */
#ifndef PROBE_STEPS_PARTS_H
#define PROBE_STEPS_PARTS_H

#include "probe/steps/steps.h"

/* ---- phases.c ---- */

/* The time since the last mark gets a meaning, or waits for one. */
void steps_piece_end(struct steps *steps, uint64_t now);
/* What waited was a forward pass (a backward begins). */
void steps_pieces_forward(struct steps *steps);
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

/* ---- steps.c ---- */

void steps_source(struct steps *steps, enum steps_source source, uint64_t now);
void steps_epoch_out(struct steps *steps, uint32_t epoch, uint64_t time);
/* The update that was held ended a step. */
void steps_held_end(struct steps *steps);

#endif
