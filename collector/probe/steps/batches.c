/* What was fetched, and what for: a batch trains when a backward or an update follows
 * it. One that is followed by the next batch is a validation's, or was fetched ahead (by
 * one: Accelerate; all of an update's micro-batches: Hugging Face's Trainer): they wait
 * until that is clear. */
#include "probe/steps/parts.h"

/* Two loaders asked within so many gaps are one batch, as in zip(a, b). */
#define GAPS_BETWEEN_LOADERS 10u

/* A job that built an optimizer and never uses it evaluates: after so many batches they
 * are its steps. Long enough for a first validation before training. */
#define ROWS_BEFORE_STEPS 256u

/* So many wait where it is no training's loader: a validation's rows are wanted soon. */
#define HELD_ELSEWHERE 2u

static bool is_other(uint32_t a, uint32_t b)
{
    return a != 0 && b != 0 && a != b;
}

static void open_batch(struct steps *steps, uint32_t loader, uint64_t now)
{
    steps->batch = (struct steps_batch){.start = now, .loader = loader};
    steps->batch_trains = false;
}

static void emit_piece(struct steps *steps, struct steps_piece piece, uint64_t number)
{
    struct steps_output output = {.kind = STEPS_OUT_PHASE,
                                  .start = piece.start,
                                  .end = piece.end,
                                  .number = number,
                                  .epoch = steps->epoch,
                                  .phase = piece.phase};

    if (piece.start < piece.end)
        steps->emit(steps->context, &output);
}

/* A batch that did not train: a validation row, or a step where nothing trains. */
static void batch_out(struct steps *steps, const struct steps_batch *batch, bool late,
                      uint64_t now)
{
    bool idle = !steps->will_train || steps->rows >= ROWS_BEFORE_STEPS;
    bool step = idle && steps->validation == 0 && steps->source <= STEPS_BY_BATCH;
    struct steps_output output = {.kind = STEPS_OUT_STEP,
                                  .start = batch->start,
                                  .end = batch->end,
                                  .number = STEPS_NO_NUMBER,
                                  .epoch = steps->epoch,
                                  .flags = EVENT_STEP_VALIDATION,
                                  .known = 1u << EVENT_PHASE_DATA |
                                           1u << EVENT_PHASE_FORWARD,
                                  .late = late};

    if (step) {
        steps_source(steps, STEPS_BY_BATCH, now);
        output.number = steps->number;
        output.flags = steps->first ? EVENT_STEP_FIRST : 0;
        steps->first = false;
    }
    for (uint32_t i = 0; i < batch->count; i++)
        emit_piece(steps, batch->pieces[i], output.number);
    if (!steps->forward_said && batch->fetched != 0)
        emit_piece(
            steps,
            (struct steps_piece){batch->fetched, batch->end, EVENT_PHASE_FORWARD},
            output.number);
    steps->number += step;
    steps->rows += !step;
    if (steps->step_start != 0 && !steps->trained && steps->step_start < batch->end)
        steps->step_start = batch->end;
    steps->validation_from = batch->end;
    steps->emit(steps->context, &output);
}

void steps_held_out(struct steps *steps, uint64_t now)
{
    for (uint32_t i = 0; i < steps->held_count; i++)
        batch_out(steps, &steps->held[i], true, now);
    steps->held_count = 0;
}

static void data_out(struct steps *steps, const struct steps_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->pieces[i].phase == EVENT_PHASE_DATA)
            steps_phase_out(steps, EVENT_PHASE_DATA, batch->pieces[i].start,
                            batch->pieces[i].end);
}

void steps_held_train(struct steps *steps)
{
    for (uint32_t i = 0; i < steps->held_count; i++)
        data_out(steps, &steps->held[i]);
    steps->held_count = 0;
}

void steps_row_out(struct steps *steps, uint64_t now)
{
    struct steps_batch row = {.start = steps->validation_from, .end = now};

    if (steps->batch.start != 0) {
        steps_batch_end(steps, now);
        return;
    }
    if (row.start < row.end)
        batch_out(steps, &row, false, now);
}

/* An iteration that trained does so to its end: what it fetches, it fetches ahead. */
static bool fetches_ahead(const struct steps *steps, uint32_t loader)
{
    return loader != 0 && loader == steps->training_loader &&
           steps->training_batches > 0 && !steps->evaluating;
}

static uint32_t may_wait(const struct steps *steps, uint32_t loader)
{
    bool may_train = steps->training_loader == 0 || loader == steps->training_loader;

    return loader != 0 && steps->will_train && may_train ? STEPS_HELD : HELD_ELSEWHERE;
}

static void hold(struct steps *steps, uint64_t now)
{
    const struct steps_batch *batch = &steps->batch;

    if (steps->held_count >= may_wait(steps, batch->loader)) {
        if (!fetches_ahead(steps, batch->loader)) {
            steps_held_out(steps, now);
            batch_out(steps, batch, false, now);
            steps->evaluating = true;
            return;
        }
        if (steps->step_start == 0)
            steps->step_start = steps->held[0].start;
        steps_held_train(steps);
    }
    steps->held[steps->held_count++] = *batch;
}

void steps_batch_end(struct steps *steps, uint64_t now)
{
    struct steps_batch *batch = &steps->batch;

    batch->end = now;
    if (steps->validation > 0 || steps->evaluating) {
        batch_out(steps, batch, false, now);
    } else if (steps->source == STEPS_BY_FRAMEWORK) {
        if (steps->step_start == 0)
            steps->step_start = batch->start;
        data_out(steps, batch); /* fetched ahead: it says what validates */
    } else {
        hold(steps, now);
    }
    batch->start = 0;
}

/* A pause between two trainings, as between the cells of a notebook: a second, and eight
 * steps. */
#define PAUSE_GAPS  50000u /* of 20 us */
#define PAUSE_STEPS 8u

static bool was_pause(const struct steps *steps)
{
    return steps->silent_ticks > PAUSE_GAPS * steps->gap_ticks &&
           steps->silent_ticks > PAUSE_STEPS * steps->step_usual_ticks;
}

void steps_fetch_begin(struct steps *steps, uint32_t loader, uint64_t now)
{
    struct steps_batch *batch = &steps->batch;

    if (batch->start == 0 || steps->batch_trains) {
        if (steps->validation == 0 && steps->held_end != 0 &&
            cadence_confirm(&steps->cadence))
            steps_held_end(steps);
        if (steps->batch_trains)
            steps_trained_batch_end(steps, now);
        open_batch(steps, loader, now);
        return;
    }
    bool other = is_other(loader, batch->loader);
    bool ahead = loader != 0 && loader == batch->loader;
    uint64_t gap = steps->gap_ticks * (other ? GAPS_BETWEEN_LOADERS : 1);

    if (batch->fetched == 0) {
        batch->loader = loader != 0 ? loader : batch->loader;
        if (was_pause(steps)) /* between its iterator and the first request */
            open_batch(steps, batch->loader, now);
        return;
    }
    if (!ahead && now - batch->fetched <= gap)
        return;
    steps_batch_end(steps, now);
    if (other) {
        steps_held_out(steps, now);
        steps->evaluating = false;
    }
    open_batch(steps, loader, now);
}

/* Trained batches in a row: some critics train on more of their own loader's, one after the
 * other, but not so many. */
#define TAKES_OVER 16u

/* It alone has trained for a while: the loop over the other one was left in its middle. */
static bool has_taken_over(const struct steps *steps, uint32_t loader)
{
    return loader == steps->other_loader && steps->other_batches > TAKES_OVER;
}

void steps_fetch_end(struct steps *steps, bool exhausted, uint64_t now)
{
    struct steps_batch *batch = &steps->batch;

    if (!exhausted) {
        batch->fetched = now;
        return;
    }
    batch->fetched = 0; /* its data time goes to whoever fetches next */
    steps->training_exhausted |=
        batch->loader != 0 && (batch->loader == steps->training_loader ||
                               has_taken_over(steps, batch->loader));
    if (!fetches_ahead(steps, batch->loader))
        steps_held_out(steps, now);
    steps_trained_batches_exhausted(steps, now);
    steps->evaluating = false;
}

/* The running batch is not one of what begins now: it was fetched before all for its shape,
 * or never came before a pause. What lies before the iterator, or before an optimizer that is
 * built, belongs to no step then. */
static void leave_batch(struct steps *steps, bool may_peek)
{
    const struct steps_batch *batch = &steps->batch;
    bool opened = batch->start != 0 && !steps->batch_trains && batch->fetched != 0;
    bool peeks = may_peek && opened && !steps->peeked && steps->number == 0 &&
                 steps->rows == 0 && steps->held_count == 0;

    if (steps->in_fetch > 0 || steps->validation > 0 || steps->trained)
        return;
    steps->peeked |= peeks;
    if (peeks || (!opened && steps->held_count == 0 && was_pause(steps)))
        steps->batch.start = steps->step_start = 0;
}

void steps_optimizer_built(struct steps *steps)
{
    steps->will_train = steps->updates_known = true;
    leave_batch(steps, false);
}

/* next(iter(loader)) in a loop builds an iterator for each batch: no epoch. */
void steps_iterator_begin(struct steps *steps, uint32_t loader)
{
    leave_batch(steps, true);
    if (loader == 0 || loader != steps->training_loader)
        return;
    if (steps->training_batches > 1 || steps->training_exhausted)
        steps->training_renewed = true;
    steps->training_batches = 0;
}

static void count_epochs(struct steps *steps)
{
    uint32_t loader = steps->batch.loader;
    bool other = is_other(loader, steps->training_loader);

    if (loader == 0)
        return;
    if (other && !steps->training_exhausted) {
        steps->other_batches =
            loader == steps->other_loader ? steps->other_batches + 1 : 1;
        steps->other_loader = loader;
        return;
    }
    steps->other_loader = 0;
    bool begins = steps->training_loader == 0 || other || steps->training_renewed;

    steps->training_loader = loader;
    steps->training_batches++;
    steps->training_renewed = steps->training_exhausted = false;
    if (begins && !steps->epoch_said)
        steps_epoch_out(steps, steps->epoch + 1, steps->batch.start);
}

void steps_batch_trains(struct steps *steps, uint64_t now)
{
    struct steps_batch *batch = &steps->batch;
    bool fetched = batch->start != 0 && !steps->batch_trains;
    uint64_t start = !fetched                ? now
                     : steps->held_count > 0 ? steps->held[0].start
                                             : batch->start;

    steps->evaluating = false;
    steps->will_train = true;
    if (steps->source == STEPS_BY_BATCH)
        steps->step_start = start;
    if (steps->source <= STEPS_BY_BATCH)
        steps_source(steps, STEPS_BY_OPTIMIZER, now);
    if (steps->step_start == 0)
        steps->step_start = start;
    steps->trained = true;
    if (!fetched)
        return;
    steps_held_train(steps);
    for (uint32_t i = 0; i < batch->count; i++)
        steps_phase_out(steps, batch->pieces[i].phase, batch->pieces[i].start,
                        batch->pieces[i].end);
    count_epochs(steps);
    steps->batch_trains = true;
}
