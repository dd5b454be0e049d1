#include "probe/steps.h"

void steps_init(struct steps *steps, uint64_t gap_ticks, steps_emit *emit,
                void *context)
{
    *steps = (struct steps){.emit = emit, .context = context, .gap_ticks = gap_ticks};
}

static void end_step(struct steps *steps, uint64_t time, uint8_t flags)
{
    struct steps_output output = {.kind = STEPS_OUT_STEP,
                                  .start = steps->step_start,
                                  .end = time,
                                  .number = steps->number,
                                  .epoch = steps->epoch,
                                  .flags = flags};

    steps->step_start = time;
    steps->number++;
    steps->emit(steps->context, &output);
}

void steps_mark(struct steps *steps, const struct steps_mark *mark)
{
    if (steps->step_start == 0)
        steps->step_start = mark->time;
    if (mark->kind == STEPS_STEP)
        end_step(steps, mark->time, EVENT_STEP_MARKED);
    else if (mark->kind == STEPS_OPTIMIZER_END)
        end_step(steps, mark->time, 0);
}

uint32_t steps_phase(const struct steps *steps)
{
    return steps->in_backward > 0 ? EVENT_PHASE_BACKWARD + 1 : 0;
}
