#include "query/host_query.h"

#include <errno.h>

#include "query/pick.h"

static void fill_point(const struct host_sample *from, struct host_point *to)
{
    *to = (struct host_point){.unix_ns = from->unix_ns,
                              .cpu_share = (double)from->cpu_share,
                              .steal_share = (double)from->steal_share,
                              .iowait_share = (double)from->iowait_share,
                              .job_cpu = UNKNOWN,
                              .disk_read_bytes_per_s = (double)from->disk_read,
                              .disk_write_bytes_per_s = (double)from->disk_write,
                              .net_receive_bytes_per_s = (double)from->net_receive,
                              .net_send_bytes_per_s = (double)from->net_send,
                              .throttled_share = (double)from->throttled_share,
                              .memory_used_bytes = from->memory_used_bytes};
}

static int list_points(const struct pick *pick, struct host_answer *answer)
{
    const struct host_state *state = &pick->store->host;
    uint64_t count =
        state->count < STATE_HOST_POINTS ? state->count : STATE_HOST_POINTS;
    int64_t from = answer->head.window.from_ns + answer->head.start_unix_ns;
    int64_t to = answer->head.window.to_ns + answer->head.start_unix_ns;

    if (!ARENA_LIST(&answer->head.arena, answer->points, count))
        return -ENOMEM;
    for (uint64_t i = state->count - count; i < state->count; i++) {
        const struct host_sample *sample = &state->points[i % STATE_HOST_POINTS];

        if (sample->unix_ns >= from && sample->unix_ns < to)
            fill_point(sample, &answer->points[answer->point_count++]);
    }
    return 0;
}

static void sort_busiest(struct host_answer *answer)
{
    for (uint32_t i = 1; i < answer->process_count; i++) {
        struct host_process moved = answer->processes[i];
        uint32_t at = i;

        for (; at > 0 && !(answer->processes[at - 1].cpu_share >= moved.cpu_share);
             at--)
            answer->processes[at] = answer->processes[at - 1];
        answer->processes[at] = moved;
    }
}

static int list_processes(const struct pick *pick, struct host_answer *answer)
{
    double cores = 0;

    if (!ARENA_LIST(&answer->head.arena, answer->processes,
                    pick->session->process_count))
        return -ENOMEM;
    for (const struct process *process = pick->session->processes; process != NULL;
         process = process->next) {
        if (isnan(process->cpu_share) || process->state != PROCESS_RUNNING)
            continue;
        cores += process->cpu_share;
        answer->processes[answer->process_count++] =
            (struct host_process){.pid = process->identity.pid,
                                  .rank = process->identity.rank,
                                  .role = process->identity.role,
                                  .cpu_share = process->cpu_share,
                                  .rss_bytes = process->rss_bytes};
    }
    answer->now.job_cpu = answer->process_count > 0 ? cores : UNKNOWN;
    sort_busiest(answer);
    return 0;
}

int host_query(struct store *store, const struct selection *selection,
               struct host_answer *answer)
{
    struct pick pick;

    *answer = (struct host_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    const struct host_state *state = &store->host;

    pick_window(&pick, &selection->window);
    const float none = NAN;

    fill_point(&(struct host_sample){.cpu_share = none,
                                     .steal_share = none,
                                     .iowait_share = none,
                                     .disk_read = none,
                                     .disk_write = none,
                                     .net_receive = none,
                                     .net_send = none,
                                     .throttled_share = none,
                                     .memory_used_bytes = UNKNOWN},
               &answer->now);
    if (answer->head.from_file) {
        answer->head.reason = "a trace file says nothing of its machine";
        answer->cpu_limit = answer->memory_limit_bytes = UNKNOWN;
        pick_end(&pick);
        return 0;
    }
    if (state->count > 0)
        fill_point(&state->points[(state->count - 1) % STATE_HOST_POINTS],
                   &answer->now);
    else
        answer->head.reason = "no sample yet: one a second while a process runs";
    answer->cpu_limit = state->cpu_limit;
    answer->memory_limit_bytes = state->memory_limit_bytes;
    answer->memory_limit_name =
        state->memory_limited_by_container ? "container" : "machine";
    answer->core_share =
        arena_new(&answer->head.arena, state->core_count, sizeof(*answer->core_share));
    error = answer->core_share == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < state->core_count && error == 0; i++)
        answer->core_share[answer->core_count++] = (double)state->core_share[i];
    if (error == 0)
        error = list_points(&pick, answer);
    if (error == 0)
        error = list_processes(&pick, answer);
    pick_end(&pick);
    return error;
}
