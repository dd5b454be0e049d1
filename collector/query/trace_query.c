#include "query/trace_query.h"

#include <errno.h>

#include "query/parts.h"

static bool is_wanted(const struct pick *pick, const struct process *process,
                      const struct trace_request *request)
{
    return request->all_ranks || process == pick->process ||
           (process->identity.role == WIRE_ROLE_WORKER &&
            process->identity.parent_pid == pick->process->identity.pid);
}

static bool is_in(const struct history_block *block, const struct pick *pick)
{
    const struct answer_window *window = &pick->head->window;

    return block->thread < PROCESS_THREADS && block->count > 0 &&
           block->to_ns >= window->from_ns && block->from_ns < window->to_ns;
}

/* Where the blocks of each thread begin; places[thread_count] is how many there are. */
static void find_places(const struct pick *pick, const struct process *process,
                        uint32_t places[PROCESS_THREADS + 1])
{
    uint32_t next = 0;

    for (const struct history_block *block = process->blocks.oldest; block != NULL;
         block = block->after)
        places[block->thread < PROCESS_THREADS ? block->thread : 0] +=
            is_in(block, pick) ? 1 : 0;
    for (uint32_t i = 0; i <= process->thread_count; i++) {
        /* One more for the open block. */
        uint32_t count = i < process->thread_count ? places[i] + 1 : 0;

        places[i] = next;
        next += count;
    }
}

static void put(struct trace_process *to, uint32_t place, struct history_block *owned)
{
    to->blocks[place] = (struct trace_block){.block = owned,
                                             .events = owned->events,
                                             .count = owned->count,
                                             .thread = owned->thread};
}

/* Sealed blocks are shared, open ones copied: by thread, then by time. Two passes over
 * its history, however many threads there are: its blocks lie far apart. */
static int take_blocks(const struct pick *pick, const struct process *process,
                       struct trace_process *to)
{
    uint32_t places[PROCESS_THREADS + 1] = {0}, kept = 0;

    find_places(pick, process, places);
    uint32_t most = places[process->thread_count];

    if (!ARENA_LIST(&pick->head->arena, to->blocks, most))
        return -ENOMEM;
    for (struct history_block *block = process->blocks.oldest; block != NULL;
         block = block->after)
        if (is_in(block, pick))
            put(to, places[block->thread]++, history_share(block));
    for (uint32_t thread = 0; thread < process->thread_count; thread++) {
        const struct process_thread *from = process->threads[thread];

        if (from == NULL || from->open_block == NULL || !is_in(from->open_block, pick))
            continue;
        struct history_block *copy = history_copy(from->open_block);

        if (copy != NULL)
            put(to, places[thread], copy);
    }
    for (uint32_t i = 0; i < most; i++)
        if (to->blocks[i].block != NULL)
            to->blocks[kept++] = to->blocks[i];
    to->block_count = kept;
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
    if (!ARENA_LIST(&pick->head->arena, to->steps, last - first))
        return -ENOMEM;
    for (uint32_t i = first; i < last; i++) {
        struct step_row *row = &to->steps[to->step_count++];

        parts_step_row(steps_at(steps, i), (double)INFINITY, row);
        row->works_known = gpu_knows_all(&process->gpu, row->start_ns);
    }
    return 0;
}

static int take_process(const struct pick *pick, const struct process *process,
                        struct trace_process *to)
{
    struct arena *arena = &pick->head->arena;

    *to = (struct trace_process){.pid = process->identity.pid,
                                 .rank = process->identity.rank,
                                 .role = pick_role(pick->session, process),
                                 .name = arena_text(arena, pick->session->name),
                                 .host = arena_text(arena, process->identity.host),
                                 .lost_events = process->lost + process->nested_lost};
    to->texts = texts_share(process->texts);
    if (!ARENA_LIST(arena, to->threads, process->thread_count))
        return -ENOMEM;
    to->thread_count = process->thread_count;
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct process_thread *thread = process->threads[i];
        uint32_t name = thread == NULL ? 0 : thread->name;

        to->threads[i].tid = thread == NULL ? 0 : thread->tid;
        to->threads[i].tells_steps = thread != NULL && thread->tells_steps;
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
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    answer->processes = arena_new(&answer->head.arena, pick.session->process_count,
                                  sizeof(*answer->processes));
    error = answer->processes == NULL ? -ENOMEM : 0;
    answer->forgot = pick.process->history->dropped_blocks > 0;
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
