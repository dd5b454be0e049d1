/* What the training thread's time was spent on. */
#include <stddef.h>

#include "probe/steps/parts.h"

static void emit_phase(struct steps *steps, const struct steps_piece *piece,
                       uint64_t number)
{
    struct steps_output output = {.kind = STEPS_OUT_PHASE,
                                  .start = piece->start,
                                  .end = piece->end,
                                  .number = number,
                                  .epoch = steps->epoch,
                                  .phase = piece->phase};

    steps->emit(steps->context, &output);
}

void steps_queue_out(struct steps *steps)
{
    for (uint32_t i = 0; i < steps->queued; i++)
        emit_phase(steps, &steps->queue[i], steps->number);
    steps->queued = 0;
}

void steps_phase_out(struct steps *steps, enum event_phase phase, uint64_t start,
                     uint64_t end)
{
    struct steps_piece piece = {start, end, phase};

    if (steps->validation > 0) {
        emit_phase(steps, &piece, STEPS_NO_NUMBER);
        return;
    }
    steps->known |= (uint8_t)(1u << phase);
    if (piece.start < steps->step_start) /* the step begins after a validation */
        piece.start = steps->step_start;
    if (piece.start >= piece.end)
        return;
    if (steps->held_end != 0 && steps->queued < STEPS_QUEUE)
        steps->queue[steps->queued++] = piece;
    else
        emit_phase(steps, &piece, steps->number);
}

/* A piece more; the last one grows over what finds no room, gaps and all. */
static void append(struct steps_piece *pieces, uint32_t *count, struct steps_piece more)
{
    struct steps_piece *last = *count > 0 ? &pieces[*count - 1] : NULL;

    if (last != NULL && last->end == more.start && last->phase == more.phase)
        last->end = more.end;
    else if (*count < STEPS_PIECES)
        pieces[(*count)++] = more;
    else
        pieces[STEPS_PIECES - 1].end = more.end;
}

/* Data, and a forward pass that somebody said, wait with a batch whose use is not known
 * yet. */
static void batch_piece(struct steps *steps, enum event_phase phase, uint64_t start,
                        uint64_t end)
{
    struct steps_batch *batch = &steps->batch;

    if (batch->start == 0 || steps->batch_trains)
        steps_phase_out(steps, phase, start, end);
    else
        append(batch->pieces, &batch->count, (struct steps_piece){start, end, phase});
}

void steps_piece_end(struct steps *steps, uint64_t now)
{
    uint64_t start = steps->piece_start;

    steps->piece_start = now;
    if (start == 0 || start >= now)
        return;
    struct steps_piece piece = {start, now, EVENT_PHASE_FORWARD};

    if (steps->in_fetch > 0) {
        batch_piece(steps, EVENT_PHASE_DATA, start, now);
    } else if (steps->in_backward > 0) {
        steps_phase_out(steps, EVENT_PHASE_BACKWARD, start, now);
    } else if (steps->in_zero_grad > 0) {
        return; /* neither forward nor update */
    } else if (steps->in_forward > 0) {
        batch_piece(steps, EVENT_PHASE_FORWARD, start, now);
    } else if (steps->in_graph && !steps->forward_said) {
        append(steps->pieces, &steps->piece_count, piece);
    } else if (steps->in_optimizer > 0) {
        piece.phase = EVENT_PHASE_OPTIMIZER;
        append(steps->pieces, &steps->piece_count, piece);
    }
}

void steps_pieces_out(struct steps *steps)
{
    for (uint32_t i = 0; i < steps->piece_count; i++)
        steps_phase_out(steps, steps->pieces[i].phase, steps->pieces[i].start,
                        steps->pieces[i].end);
    steps->piece_count = 0;
}

void steps_pieces_update(struct steps *steps)
{
    for (uint32_t i = 0; i < steps->piece_count; i++)
        if (steps->pieces[i].phase == EVENT_PHASE_OPTIMIZER)
            steps_phase_out(steps, EVENT_PHASE_OPTIMIZER, steps->pieces[i].start,
                            steps->pieces[i].end);
    steps->piece_count = 0;
}

void steps_pieces_drop(struct steps *steps)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < steps->piece_count; i++)
        if (steps->pieces[i].phase == EVENT_PHASE_OPTIMIZER)
            steps->pieces[kept++] = steps->pieces[i];
    steps->piece_count = kept;
}

bool steps_awaits_graph(const struct steps *steps)
{
    return !steps->in_graph && steps->in_fetch == 0 && steps->in_backward == 0 &&
           steps->in_zero_grad == 0;
}

/* Where nobody sees graphs, a batch that was fetched is in its forward pass. */
static bool may_be_forward(const struct steps *steps)
{
    return !steps->graph_seen && !steps->forward_said && steps->batch.fetched != 0 &&
           steps->batch.start != 0 && !steps->batch_trains;
}

uint32_t steps_phase(const struct steps *steps)
{
    if (steps->in_fetch > 0)
        return EVENT_PHASE_DATA + 1;
    if (steps->in_backward > 0)
        return EVENT_PHASE_BACKWARD + 1;
    if (steps->in_forward > 0 || steps->in_graph || may_be_forward(steps))
        return EVENT_PHASE_FORWARD + 1;
    if (steps->in_optimizer > 0)
        return EVENT_PHASE_OPTIMIZER + 1;
    return 0;
}
