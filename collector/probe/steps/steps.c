#include "probe/steps/steps.h"

#include "probe/steps/parts.h"

void steps_init(struct steps *steps, uint64_t gap_ticks, uint64_t now, steps_emit *emit,
                void *context)
{
    *steps = (struct steps){.emit = emit,
                            .context = context,
                            .gap_ticks = gap_ticks,
                            .born = now,
                            .first = true};
}

/* ---- what comes out -------------------------------------------------------------- */

void steps_source(struct steps *steps, enum steps_source source, uint64_t now)
{
    struct steps_output output = {
        .kind = STEPS_OUT_SOURCE, .start = now, .end = now, .number = source};

    if (steps->source == source)
        return;
    steps->source = source;
    steps->first = true;
    steps->emit(steps->context, &output);
}

void steps_epoch_out(struct steps *steps, uint32_t epoch, uint64_t time)
{
    struct steps_output output = {
        .kind = STEPS_OUT_EPOCH, .start = time, .end = time, .number = epoch};

    if (steps->epoch == epoch)
        return;
    steps->epoch = epoch;
    steps->emit(steps->context, &output);
}

/* Of how long steps are, an eighth is the newest. */
#define USUAL_SHARE 8

static void learn_length(struct steps *steps, uint64_t ticks)
{
    int64_t more = (int64_t)(ticks - steps->step_usual_ticks) / USUAL_SHARE;

    steps->step_usual_ticks = steps->step_usual_ticks == 0
                                  ? ticks
                                  : (uint64_t)((int64_t)steps->step_usual_ticks + more);
}

void steps_end(struct steps *steps, uint64_t end, uint8_t flags, bool late)
{
    uint8_t first = steps->first ? EVENT_STEP_FIRST : 0;
    struct steps_output output = {.kind = STEPS_OUT_STEP,
                                  .start = steps->step_start,
                                  .end = end,
                                  .number = steps->number,
                                  .epoch = steps->epoch,
                                  .flags = (uint8_t)(flags | first),
                                  .known = steps->known,
                                  .late = late};

    learn_length(steps, end - steps->step_start);
    steps->number++;
    steps->step_start = end;
    steps->trained = steps->updated = false;
    /* What a late decision cannot tell the step that already runs, FIRST says. */
    steps->first = late;
    steps->updates_in_profiler_step = 0;
    if (!late) {
        steps->batch.start = 0;
        steps->piece_count = 0;
        steps->in_graph = false;
    }
    steps->emit(steps->context, &output);
}

void steps_held_end(struct steps *steps)
{
    uint64_t end = steps->held_end;

    steps->held_end = 0;
    if (end == 0)
        return;
    steps_end(steps, end, 0, true);
    steps->trained = steps->queued > 0;
    steps_queue_out(steps);
}

void steps_held_forget(struct steps *steps)
{
    steps->held_end = 0;
    steps_queue_out(steps);
}

/* ---- who says what a step is --------------------------------------------------------
 */

static void step_called(struct steps *steps, uint64_t now)
{
    if (steps->validation > 0) {
        steps_row_out(steps, now);
        return;
    }
    bool takes_over = steps->source != STEPS_BY_CALL;

    if (takes_over && steps->number == 0)
        steps_held_forget(steps);
    if (takes_over) {
        steps_held_end(steps);
        steps_source(steps, STEPS_BY_CALL, now);
    }
    if (takes_over && steps->number > 0 && !steps->trained) {
        steps->step_start = now; /* it follows an end that was inferred: no new step */
        return;
    }
    if (steps->step_start == 0 && steps->batch.start == 0)
        steps->step_start = steps->born;
    steps_batch_trains(steps, now);
    steps_end(steps, now, EVENT_STEP_MARKED, false);
}

static void profiler_step(struct steps *steps, bool begins, uint64_t now)
{
    bool from_first = steps->number == 0 && steps->source <= STEPS_BY_OPTIMIZER &&
                      steps->held_end == 0;

    if (begins && from_first && !steps->profiler_gone)
        steps_source(steps, STEPS_BY_PROFILER, now);
    steps->profiler_open = begins;
    if (begins || steps->source != STEPS_BY_PROFILER)
        return;
    if (steps->batch.start != 0 && steps->batch.fetched != 0)
        steps_batch_trains(steps, now);
    /* The profiler's end closes a range too, after the last step of a training. */
    if (steps->step_start != 0 && (steps->trained || !steps->will_train))
        steps_end(steps, now, EVENT_STEP_MARKED, false);
}

static void framework(struct steps *steps, bool takes, uint64_t now)
{
    if (takes ? steps->source >= STEPS_BY_FRAMEWORK
              : steps->source != STEPS_BY_FRAMEWORK)
        return;
    steps_held_end(steps);
    steps_held_out(steps, now);
    steps_source(steps, takes ? STEPS_BY_FRAMEWORK : STEPS_BY_OPTIMIZER, now);
    if (!steps->trained)
        steps->step_start = 0; /* the next step begins with its fetch */
}

static void batch_ended(struct steps *steps, bool updated, uint64_t now)
{
    if (steps->validation > 0) {
        if (steps->batch.start != 0)
            steps_batch_end(steps, now);
        return;
    }
    steps->updated |= updated || (steps->trained && steps_update_missing(steps));
    if (steps->source != STEPS_BY_FRAMEWORK || !steps->updated)
        return;
    if (steps->step_start == 0 || !steps->trained)
        steps_batch_trains(steps, now);
    steps_end(steps, now, EVENT_STEP_MARKED, false);
}

static void epoch_said(struct steps *steps, uint32_t number, uint64_t now)
{
    if (!steps->epoch_said && number == 0)
        steps->epoch_shift = 1;
    steps->epoch_said = true;
    steps_epoch_out(steps, number + steps->epoch_shift, now);
}

/* It is known now what was fetched ahead, and that no step goes on. */
static void validation_begins(struct steps *steps, uint64_t now)
{
    bool ahead = steps->batch.start != 0 && !steps->batch_trains && steps->will_train;

    if (cadence_confirm(&steps->cadence))
        steps_held_end(steps);
    if (ahead && steps->held_count == 0) {
        steps->held[steps->held_count++] = steps->batch;
        steps_held_train(steps);
    }
    steps_held_out(steps, now);
    steps->batch.start = 0;
    steps->validation = 1;
    steps->validation_from = now;
}

static void validation_ends(struct steps *steps, uint64_t now)
{
    if (steps->batch.start != 0 && steps->batch.fetched != 0)
        steps_batch_end(steps, now);
    steps->batch.start = 0;
    steps->validation = 0;
}

static void validation(struct steps *steps, bool begins, uint64_t now)
{
    struct steps_output output = {
        .kind = STEPS_OUT_VALIDATION, .start = now, .end = now, .number = begins};
    bool outermost = steps->validation == !begins;

    if (!outermost) {
        steps_depth(&steps->validation, begins);
        return;
    }
    if (begins)
        validation_begins(steps, now);
    else
        validation_ends(steps, now);
    steps->emit(steps->context, &output);
}

void steps_abandon(struct steps *steps)
{
    steps_held_end(steps);
    steps->in_fetch = steps->in_backward = steps->in_optimizer = 0;
    steps->in_zero_grad = steps->in_forward = steps->updates_in_backward = 0;
    steps->in_graph = false;
    steps->batch_backwards = 0;
    steps->piece_start = steps->step_start = 0;
    steps->piece_count = steps->held_count = steps->validation = 0;
    steps->batch.start = 0;
    steps->trained = steps->updated = steps->evaluating = steps->profiler_open = false;
    steps->first = true;
}

uint64_t steps_begun(const struct steps *steps)
{
    if (steps->step_start != 0)
        return steps->step_start;
    return steps->held_count > 0 ? steps->held[0].start : steps->batch.start;
}

/* ---- marks -------------------------------------------------------------------------
 */

static void fetch_begin(struct steps *steps, const struct steps_mark *mark)
{
    bool alone = steps->in_optimizer == 0 && steps->in_backward == 0;

    if (steps->in_fetch++ > 0)
        return;
    steps->in_graph = false;
    steps->batch_backwards = 0;
    if (alone)
        steps_fetch_begin(steps, mark->id, mark->time);
}

static void fetch_end(struct steps *steps, const struct steps_mark *mark)
{
    if (steps->in_fetch == 0 || --steps->in_fetch > 0)
        return;
    if (mark->kind != STEPS_ITERATOR_END && steps->batch.start != 0)
        steps_fetch_end(steps, mark->kind == STEPS_FETCH_EXHAUSTED, mark->time);
}

/* Steps of jobs that never fetch begin with the first thing that they do. */
static void begin_somewhere(struct steps *steps, uint64_t now)
{
    if (steps->step_start == 0 && steps->batch.start == 0 && steps->validation == 0)
        steps->step_start = now;
}

/* What somebody says, in place of what the thread does. */
static void hear(struct steps *steps, const struct steps_mark *mark)
{
    uint64_t now = mark->time;

    switch (mark->kind) {
    case STEPS_STEP:
        step_called(steps, now);
        break;
    case STEPS_PROFILER_STEP_BEGIN:
    case STEPS_PROFILER_STEP_END:
        profiler_step(steps, mark->kind == STEPS_PROFILER_STEP_BEGIN, now);
        break;
    case STEPS_FRAMEWORK:
        framework(steps, mark->id != 0, now);
        break;
    case STEPS_BATCH_END:
        batch_ended(steps, mark->id != 0, now);
        break;
    case STEPS_EPOCH:
        epoch_said(steps, mark->id, now);
        break;
    case STEPS_VALIDATION_BEGIN:
    case STEPS_VALIDATION_END:
        validation(steps, mark->kind == STEPS_VALIDATION_BEGIN, now);
        break;
    case STEPS_OPTIMIZER_BUILT:
        steps_optimizer_built(steps);
        break;
    default:
        break;
    }
}

/* Of several forward passes the newest is the one that a backward follows. */
static void graph_begins(struct steps *steps)
{
    if (!steps_awaits_graph(steps))
        return;
    steps_pieces_drop(steps);
    steps->in_graph = steps->graph_seen = true;
}

void steps_mark(struct steps *steps, const struct steps_mark *mark)
{
    steps->silent_ticks = steps->piece_start != 0 ? mark->time - steps->piece_start : 0;
    steps_piece_end(steps, mark->time);
    switch (mark->kind) {
    case STEPS_ITERATOR_BEGIN:
        steps_iterator_begin(steps, mark->id);
        fetch_begin(steps, mark);
        break;
    case STEPS_FETCH_BEGIN:
        fetch_begin(steps, mark);
        break;
    case STEPS_ITERATOR_END:
    case STEPS_FETCH_END:
    case STEPS_FETCH_EXHAUSTED:
        fetch_end(steps, mark);
        break;
    case STEPS_BACKWARD_BEGIN:
        steps_backward_begin(steps, mark->id, mark->time);
        break;
    case STEPS_BACKWARD_END:
        steps_backward_end(steps, mark->time);
        break;
    case STEPS_OPTIMIZER_BEGIN:
        steps_optimizer_begin(steps, mark->id, mark->time);
        break;
    case STEPS_OPTIMIZER_END:
        steps_optimizer_end(steps, mark->id, mark->time);
        break;
    case STEPS_ZERO_GRAD_BEGIN:
    case STEPS_ZERO_GRAD_END:
        begin_somewhere(steps, mark->time);
        steps_depth(&steps->in_zero_grad, mark->kind == STEPS_ZERO_GRAD_BEGIN);
        break;
    case STEPS_FORWARD_BEGIN:
    case STEPS_FORWARD_END:
        begin_somewhere(steps, mark->time);
        steps->forward_said = true;
        steps_pieces_drop(steps); /* no guess stands beside what is said */
        steps_depth(&steps->in_forward, mark->kind == STEPS_FORWARD_BEGIN);
        break;
    case STEPS_GRAPH_BEGIN:
        graph_begins(steps);
        break;
    default:
        hear(steps, mark);
        break;
    }
}
