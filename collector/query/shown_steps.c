
#include "query/parts.h"

#define RECORDED ((uint32_t)(EVENT_STEP_OPS | EVENT_STEP_KERNELS))

/* Of what is remembered the oldest quarter goes next: who follows a link has as long. */
#define GOES_NEXT 4

static int64_t oldest_event(const struct process *process)
{
    for (const struct history_block *block = process->blocks.oldest; block != NULL;
         block = block->after)
        if (block->thread < process->thread_count &&
            process->threads[block->thread] != NULL &&
            process->threads[block->thread]->tells_steps)
            return block->from_ns;
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct process_thread *thread = process->threads[i];

        if (thread != NULL && thread->tells_steps && thread->open_block != NULL)
            return thread->open_block->from_ns;
    }
    return INT64_MAX;
}

/* Steps that begin from then on can be shown. */
static int64_t shown_since(const struct pick *pick)
{
    int64_t oldest = oldest_event(pick->process), now = pick->head->now_ns;

    if (oldest >= now)
        return INT64_MAX;
    return pick->process->history->dropped_blocks == 0
               ? INT64_MIN
               : oldest + (now - oldest) / GOES_NEXT;
}

static bool is_shown(const struct step *step, int64_t since_ns)
{
    return (step->flags & STEP_APART) == 0 && step->start_ns >= since_ns;
}

/* The first step of a run is long for reasons of its own. */
static bool warms_up(const struct step *step)
{
    return (step->flags & EVENT_STEP_FIRST) != 0;
}

/* What the best recorded of them have: others would miss a part. */
static uint32_t level_of(const struct pick *pick, int64_t since_ns)
{
    uint32_t count, first = pick_steps(pick, &count), level = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(&pick->process->steps, i);
        uint32_t own = step->flags & RECORDED;

        if (is_shown(step, since_ns) && !warms_up(step) && step->whole && own > level)
            level = own;
    }
    return level;
}

/* Takes the step where it is longer than what was taken before. */
static void take(const struct step *step, double ns, double *longest, int64_t *number)
{
    if (!(ns > *longest))
        return;
    *longest = ns;
    *number = (int64_t)step->number;
}

void parts_shown(const struct pick *pick, struct shown_steps *shown)
{
    int64_t since = shown_since(pick);
    uint32_t count, first = pick_steps(pick, &count), level = level_of(pick, since);
    double longest = -1, recorded = -1, waited = 0;

    *shown = (struct shown_steps){NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN};
    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(&pick->process->steps, i);
        double ns = (double)step->duration_ns;

        if (!is_shown(step, since))
            continue;
        if (shown->first == NOT_KNOWN)
            shown->first = (int64_t)step->number;
        if (warms_up(step))
            continue;
        take(step, ns, &longest, &shown->longest);
        if (level > 0 && step->whole && (step->flags & RECORDED) == level)
            take(step, ns, &recorded, &shown->recorded);
        take(step, step_phase_ns(step, EVENT_PHASE_DATA), &waited, &shown->waited);
    }
}
