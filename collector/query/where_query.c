#include "query/where_query.h"

#include <errno.h>
#include <string.h>

#include "query/numbers.h"
#include "query/replay_inside.h"
#include "wire/event.h"

/* Verdicts on names that came lately: a step has a few hundred. */
#define VERDICTS 4096u

struct search {
    const struct trace_process *process;
    const char *name;
    struct {
        uint32_t id;
        bool same;
    } verdicts[VERDICTS];
    struct where_step *found; /* one per step of the process */
};

static bool is_named(struct search *search, uint32_t id)
{
    uint32_t slot = id % VERDICTS;

    if (id == 0)
        return false;
    if (search->verdicts[slot].id != id) {
        search->verdicts[slot].id = id;
        search->verdicts[slot].same =
            strcmp(trace_name(search->process, id), search->name) == 0;
    }
    return search->verdicts[slot].same;
}

static bool is_op(uint8_t kind)
{
    return kind == EVENT_CPU_OP || kind == EVENT_USER_RANGE || kind == EVENT_KERNEL ||
           kind == EVENT_MEMCPY || kind == EVENT_MEMSET;
}

/* The step that `ns` lies in; step_count when it lies in none. */
static uint32_t step_at(const struct trace_process *process, int64_t ns)
{
    uint32_t after = numbers_upto(&process->steps[0].start_ns,
                                  sizeof(process->steps[0]), process->step_count, ns);
    const struct step_row *step = after == 0 ? NULL : &process->steps[after - 1];

    return step != NULL && (double)(ns - step->start_ns) <= step->duration_ns
               ? after - 1
               : process->step_count;
}

static void look_through(struct search *search, const struct trace_block *block)
{
    const struct trace_process *process = search->process;

    for (uint32_t i = 0; i < block->count; i++) {
        const struct event *event = &block->events[i];

        if (!is_op(EVENT_KIND(event->meta)) ||
            !is_named(search, EVENT_NAME(event->meta)))
            continue;
        uint32_t at = step_at(process, (int64_t)event->time);

        if (at == process->step_count)
            continue;
        search->found[at].total_ns += (double)event->value;
        search->found[at].count++;
    }
}

/* Steps that hold it, to the front. */
static uint32_t keep_found(const struct search *search)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < search->process->step_count; i++) {
        const struct step_row *step = &search->process->steps[i];
        struct where_step found = search->found[i];

        if (found.count == 0 || step->number < 0)
            continue;
        found.number = step->number;
        found.end_ns = step->start_ns + (int64_t)step->duration_ns;
        search->found[kept++] = found;
    }
    return kept;
}

int where_query(struct store *store, const struct selection *selection,
                const char *name, struct where_answer *answer)
{
    struct trace_request request = {.all_ranks = false};
    int error = trace_query(store, selection, &request, &answer->trace);
    struct arena *arena = &answer->trace.head.arena;
    struct search *search;

    answer->steps = NULL;
    answer->count = 0;
    if (error != 0 || answer->trace.process_count == 0)
        return error;
    if (!ARENA_LIST(arena, search, 1))
        return -ENOMEM;
    search->process = replay_steps_of(&answer->trace);
    if (search->process == NULL)
        search->process = &answer->trace.processes[0];
    search->name = name;
    if (!ARENA_LIST(arena, search->found, search->process->step_count + 1))
        return -ENOMEM;
    for (uint32_t i = 0; i < search->process->block_count; i++)
        look_through(search, &search->process->blocks[i]);
    answer->count = keep_found(search);
    answer->steps = search->found;
    if (answer->count > WHERE_STEPS_MAX) {
        answer->steps += answer->count - WHERE_STEPS_MAX;
        answer->count = WHERE_STEPS_MAX;
    }
    return 0;
}

void where_free(struct where_answer *answer)
{
    trace_release(&answer->trace);
}
