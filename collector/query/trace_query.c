#include "query/trace_query.h"

#include <errno.h>
#include <math.h>

#include "query/parts.h"
#include "query/pick.h"

static bool is_wanted(const struct pick *pick, const struct process *process,
                      const struct trace_request *request)
{
    return request->all_ranks || process == pick->process ||
           (process->identity.role == WIRE_ROLE_WORKER &&
            process->identity.parent_pid == pick->process->identity.pid);
}

static bool touches(const struct history_block *block,
                    const struct answer_window *window)
{
    return block->count > 0 && block->to_ns >= window->from_ns &&
           block->from_ns < window->to_ns;
}

static void add_block(struct trace_process *to, struct history_block *owned)
{
    to->blocks[to->block_count++] = (struct trace_block){.block = owned,
                                                         .events = owned->events,
                                                         .count = owned->count,
                                                         .thread = owned->thread};
}

static uint32_t count_blocks(const struct pick *pick, const struct process *process)
{
    uint32_t count = process->thread_count;

    for (const struct history_block *block = pick->store->history.oldest; block != NULL;
         block = block->newer)
        count +=
            block->process == process->serial && touches(block, &pick->head->window);
    return count;
}

/* Sealed blocks are shared, open ones copied: by thread, then by time. */
static int take_blocks(const struct pick *pick, const struct process *process,
                       struct trace_process *to)
{
    const struct answer_window *window = &pick->head->window;
    uint32_t most = count_blocks(pick, process);

    to->blocks = arena_new(&pick->head->arena, most, sizeof(*to->blocks));
    if (to->blocks == NULL)
        return -ENOMEM;
    for (uint32_t thread = 0; thread < process->thread_count; thread++) {
        const struct process_thread *from = process->threads[thread];

        if (from == NULL)
            continue;
        for (struct history_block *block = pick->store->history.oldest; block != NULL;
             block = block->newer)
            if (block->process == process->serial && block->thread == thread &&
                touches(block, window))
                add_block(to, history_share(block));
        if (from->open_block == NULL || !touches(from->open_block, window))
            continue;
        struct history_block *copy = history_copy(from->open_block);

        if (copy == NULL)
            return -ENOMEM;
        add_block(to, copy);
    }
    return 0;
}

static int take_steps(const struct pick *pick, const struct process *process,
                      struct trace_process *to)
{
    const struct steps *steps = &process->steps;
    const struct answer_window *window = &pick->head->window;
    uint32_t first = steps_after(steps, window->from_ns), last = first;

    while (last < steps_remembered(steps) &&
           steps_at(steps, last)->start_ns < window->to_ns)
        last++;
    to->steps = arena_new(&pick->head->arena, last - first, sizeof(*to->steps));
    if (to->steps == NULL)
        return -ENOMEM;
    for (uint32_t i = first; i < last; i++)
        parts_step_row(steps_at(steps, i), (double)INFINITY,
                       &to->steps[to->step_count++]);
    return 0;
}

static int take_process(const struct pick *pick, const struct process *process,
                        struct trace_process *to)
{
    struct arena *arena = &pick->head->arena;

    *to = (struct trace_process){.pid = process->identity.pid,
                                 .rank = process->identity.rank,
                                 .role = process->identity.role,
                                 .name = arena_text(arena, pick->session->name),
                                 .host = arena_text(arena, process->identity.host),
                                 .lost_events = process->lost + process->nested_lost};
    to->texts = texts_share(process->texts);
    to->threads = arena_new(arena, process->thread_count, sizeof(*to->threads));
    if (to->threads == NULL)
        return -ENOMEM;
    to->thread_count = process->thread_count;
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct process_thread *thread = process->threads[i];
        uint32_t name = thread == NULL ? 0 : thread->name;

        to->threads[i].tid = thread == NULL ? 0 : thread->tid;
        to->threads[i].name = arena_text(arena, texts_get(process->texts, name));
    }
    int error = take_blocks(pick, process, to);

    return error == 0 ? take_steps(pick, process, to) : error;
}

int trace_query(struct store *store, const struct selection *selection,
                const struct trace_request *request, struct trace_answer *answer)
{
    struct pick pick;

    *answer = (struct trace_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_window(&pick, &selection->window);
    answer->processes = arena_new(&answer->head.arena, pick.session->process_count,
                                  sizeof(*answer->processes));
    error = answer->processes == NULL ? -ENOMEM : 0;
    for (const struct process *process = pick.session->processes;
         process != NULL && error == 0; process = process->next) {
        if (!is_wanted(&pick, process, request))
            continue;
        struct trace_process *to = &answer->processes[answer->process_count++];

        error = take_process(&pick, process, to);
        for (uint32_t i = 0; i < to->block_count; i++)
            answer->events += to->blocks[i].count;
    }
    if (answer->events == 0 && answer->head.reason[0] == '\0')
        answer->head.reason = "no event of this window is remembered";
    pick_end(&pick);
    return error;
}

const char *trace_name(const struct trace_process *process, uint32_t id)
{
    return texts_get(process->texts, id);
}

void trace_release(struct trace_answer *answer)
{
    for (uint32_t p = 0; p < answer->process_count; p++) {
        struct trace_process *process = &answer->processes[p];

        for (uint32_t i = 0; i < process->block_count; i++)
            history_release(process->blocks[i].block);
        texts_release(process->texts);
    }
    answer->process_count = 0;
    answer_free(&answer->head);
}
