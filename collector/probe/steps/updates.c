/* Backwards and updates: what of them ends a step. */
#include "probe/steps/parts.h"

/* Updates in one ProfilerStep# after which nobody calls step() on it any more. */
#define UPDATES_IN_PROFILER_STEP 16u
/* The id of updates that happen inside a backward, one optimizer for each parameter. */
#define IN_BACKWARD UINT32_MAX

void steps_infer(struct steps *steps, uint32_t id, uint64_t now)
{
    switch (cadence_update(&steps->cadence, id)) {
    case CADENCE_INSIDE:
        break;
    case CADENCE_HELD:
        steps_queue_out(steps);
        steps->held_end = now;
        break;
    case CADENCE_BEFORE:
        steps_held_end(steps);
        break;
    case CADENCE_BOTH:
        steps_held_end(steps);
        steps_end(steps, now, 0, false);
        break;
    case CADENCE_END:
        steps_held_forget(steps);
        steps_end(steps, now, 0, false);
        steps->first |= steps->cadence.moved;
        break;
    }
}

static void update_ended(struct steps *steps, uint32_t id, uint64_t now)
{
    steps->updated = true;
    steps_update_known(steps, now);
    if (steps->source == STEPS_BY_PROFILER) {
        steps->updates_in_profiler_step++;
        if (steps->profiler_open &&
            steps->updates_in_profiler_step <= UPDATES_IN_PROFILER_STEP)
            return;
        steps->profiler_gone = true;
        steps_source(steps, STEPS_BY_OPTIMIZER, now);
    }
    if (steps->source == STEPS_BY_OPTIMIZER)
        steps_infer(steps, id, now);
}

void steps_optimizer_begin(struct steps *steps, uint32_t id, uint64_t now)
{
    if (steps->in_optimizer++ == 0)
        steps->optimizer_id = 0;
    if (id != 0)
        steps->optimizer_id = id;
    if (steps->in_optimizer > 1 || steps->in_backward > 0 || steps->validation > 0)
        return;
    steps_batch_trains(steps, now);
    steps_pieces_drop(steps);
    steps->in_graph = false;
}

void steps_optimizer_end(struct steps *steps, uint32_t id, uint64_t now)
{
    if (steps->in_optimizer == 0)
        return;
    if (id != 0)
        steps->optimizer_id = id;
    if (--steps->in_optimizer > 0)
        return;
    if (steps->in_backward > 0) {
        steps->updates_in_backward++;
        return;
    }
    steps_pieces_update(steps);
    if (steps->validation == 0)
        update_ended(steps, steps->optimizer_id, now);
}

void steps_backward_begin(struct steps *steps, uint32_t nodes, uint64_t now)
{
    if (steps->in_backward++ > 0 || steps->in_fetch > 0)
        return;
    steps->backward_nodes = nodes;
    if (steps->validation == 0)
        steps_batch_trains(steps, now);
    steps_pieces_out(steps);
    steps->in_graph = false;
}

static void backward_over(struct steps *steps, uint64_t now)
{
    if (steps->in_optimizer > 0)
        return; /* of a closure: its update comes */
    steps_backward_over(steps, steps->backward_nodes, now);
}

void steps_backward_end(struct steps *steps, uint64_t now)
{
    if (steps->in_backward == 0 || --steps->in_backward > 0)
        return;
    if (steps->in_fetch > 0 || steps->validation > 0)
        steps->updates_in_backward = 0;
    else if (steps->updates_in_backward > 0)
        update_ended(steps, IN_BACKWARD, now);
    else
        backward_over(steps, now);
    steps->updates_in_backward = 0;
}
