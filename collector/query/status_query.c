#include "query/status_query.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "query/parts.h"
#include "wire/clock.h"

int parts_capabilities(struct answer *head, const struct process *process,
                       struct status_capability **list, uint32_t *count)
{
    if (!ARENA_LIST(&head->arena, *list, WIRE_SOURCES + 1))
        return -ENOMEM;
    for (uint32_t i = 0; i < WIRE_SOURCES; i++) {
        const struct process_capability *from = &process->capabilities[i];

        if (from->state == WIRE_STATE_UNKNOWN || i > WIRE_SOURCE_STACKS)
            continue;
        (*list)[(*count)++] = (struct status_capability){
            .source = i,
            .state = from->state,
            .reason = arena_text(&head->arena, texts_get(process->texts, from->reason)),
            .detail = arena_text(&head->arena, texts_get(process->texts, from->detail)),
            .events = from->events,
            .lost = from->lost,
            .cost_ns = from->cost_ns,
            .events_per_s = from->events_per_s};
    }
    return 0;
}

static const struct process_fact *fact_of(const struct process *process,
                                          const char *key, enum wire_fact_type type)
{
    for (uint32_t i = 0; i < process->fact_count; i++)
        if (process->facts[i].type == type &&
            strcmp(texts_get(process->texts, process->facts[i].key), key) == 0)
            return &process->facts[i];
    return NULL;
}

double parts_fact_count(const struct process *process, const char *key)
{
    const struct process_fact *fact = fact_of(process, key, WIRE_FACT_NUMBER);

    return fact != NULL && fact->number >= 0 ? fact->number : UNKNOWN;
}

const char *parts_fact_text(const struct process *process, const char *key)
{
    const struct process_fact *fact = fact_of(process, key, WIRE_FACT_TEXT);

    return fact == NULL ? "" : texts_get(process->texts, fact->text);
}

int parts_facts(struct answer *head, const struct process *process,
                struct status_fact **list, uint32_t *count)
{
    if (!ARENA_LIST(&head->arena, *list, process->fact_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < process->fact_count; i++) {
        const struct process_fact *from = &process->facts[i];

        (*list)[(*count)++] = (struct status_fact){
            .key = arena_text(&head->arena, texts_get(process->texts, from->key)),
            .type = from->type,
            .text = arena_text(&head->arena, texts_get(process->texts, from->text)),
            .number = from->number};
    }
    return 0;
}

/* On the session's axis, by the collector's clock. */
static int64_t session_now(const struct session *session)
{
    return (int64_t)clock_ns(CLOCK_MONOTONIC) - session->zero_monotonic_ns;
}

static double age_of(const struct session *session, const struct process *process)
{
    if (process->newest_ns == INT64_MIN)
        return UNKNOWN;
    double age = (double)(session_now(session) - process->newest_ns);

    return age > 0 ? age : 0;
}

static uint64_t steps_of(const struct process *process)
{
    uint64_t folded = process->steps.train == NULL ? 0 : process->steps.train->count;

    return process->told_steps > folded ? process->told_steps : folded;
}

/* What was dead this long before the command's end did not end by what ended that. */
#define TOGETHER_NS INT64_C(60000000000)

/* Somebody of the session was there when it ended: a launcher that ends its workers, which
 * the next command of a shell script is not. */
static bool was_outlived(const struct session *session, const struct process *process)
{
    for (uint32_t i = 0; i < session->process_count; i++) {
        const struct process *other = &session->processes[i];

        if (other != process && other->state == PROCESS_ENDED)
            return true;
    }
    return false;
}

/* What left without a good-bye has not crashed where the command's end says better: it is the
 * command, and that exited by itself (_exit() runs no exit handlers); the command succeeded,
 * and its launcher ended its workers (but for what the kernel killed); or somebody ended the
 * job. */
static enum process_state process_state_of(const struct session *session,
                                           const struct process *process)
{
    const struct state_end *end = &session->end;
    bool exited, succeeded, stopped, together;

    if (process->state != PROCESS_CRASHED || !end->known)
        return process->state;
    together =
        end->realtime_ns == 0 || process->alive_ns == INT64_MIN ||
        end->realtime_ns - session->zero_realtime_ns - process->alive_ns < TOGETHER_NS;
    exited = end->signal == 0 && end->pid != 0 && end->pid == process->identity.pid;
    succeeded = end->signal == 0 && end->exit_code == 0 && !end->oom &&
                (together || was_outlived(session, process));
    stopped = end->stopped_by != 0 && together;
    return exited || succeeded || stopped ? PROCESS_ENDED : PROCESS_CRASHED;
}

static int fill_process(struct answer *head, const struct session *session,
                        const struct process *process, struct status_process *to)
{
    const struct process_identity *who = &process->identity;
    /* Nothing that was told of a crash that is none is a reason. */
    enum process_state state = process_state_of(session, process);
    bool until_now =
        process->state == PROCESS_RUNNING || process->alive_ns == INT64_MIN;

    *to = (struct status_process){
        .pid = who->pid,
        .parent_pid = who->parent_pid,
        .rank = who->rank,
        .world_size = who->world_size,
        .role = pick_role(session, process),
        .state = state,
        .reason =
            arena_text(&head->arena, state == PROCESS_ENDED ? "" : process->reason),
        .host = arena_text(&head->arena, who->host),
        .version = arena_text(&head->arena, who->version),
        .steps = steps_of(process),
        .start_ns = process->start_ns,
        .last_event_ns =
            process->newest_ns == INT64_MIN ? NOT_KNOWN : process->newest_ns,
        .last_event_age_ns = age_of(session, process),
        .lost_events = process->lost + process->nested_lost,
        .threads_refused = process->threads_refused,
        .names_refused = process->names_refused,
        .late_events = process->ops.late_events + process->device.ops.late_events +
                       process->device.late_events,
        .ops_recorded = (process->recording & EVENT_STEP_OPS) != 0,
        .same_host = who->same_namespace,
        .segment_path = arena_text(&head->arena, who->path)};
    int error = parts_facts(head, process, &to->facts, &to->fact_count);

    if (error == 0)
        error =
            parts_capabilities(head, process, &to->capabilities, &to->capability_count);
    if (error == 0)
        error = parts_threads(head, process,
                              until_now ? session_now(session) : process->alive_ns, to);
    return error;
}

/* What the signal and the note say; a kill by the kernel is only likely where another
 * sender is possible. */
static void fill_end(struct answer *head, const struct session *session,
                     const struct process *process, struct status_end *end)
{
    const struct state_end *note = &session->end;
    int stopped = note->stopped_by;

    *end = (struct status_end){.known = note->known,
                               .exit_code = note->known ? note->exit_code : -1,
                               .signal = stopped != 0 ? stopped : note->signal,
                               .oom = note->oom,
                               .certain = true,
                               .cause = ""};
    if (!note->known && process->state == PROCESS_ENDED && process->said_goodbye) {
        end->known = true;
        end->exit_code = (int)process->exit_code;
    }
    if (stopped != 0) {
        end->cause = stopped == SIGINT    ? "interrupted, as by Ctrl-C"
                     : stopped == SIGTERM ? "asked to end, as by kill or a batch system"
                                          : "hung up, as when a terminal is closed";
    } else if (note->signal == SIGKILL && note->oom) {
        end->cause = "killed by the kernel: out of memory";
        end->certain = false;
    } else if (note->signal == SIGKILL) {
        end->cause = "killed by SIGKILL: by somebody, or by the kernel for want of "
                     "memory";
        end->certain = false;
    } else if (note->signal != 0) {
        const char *name = sigabbrev_np(note->signal);

        end->cause = name == NULL ? arena_print(&head->arena, "killed by signal %d",
                                                note->signal)
                                  : arena_print(&head->arena, "killed by SIG%s", name);
    } else if (!note->known && process->state == PROCESS_CRASHED) {
        end->certain = false;
        end->cause = "killed: it ended without running its exit handlers";
    }
}

static enum process_state state_of(const struct session *session)
{
    enum process_state state = PROCESS_ENDED;
    bool crashed = false, lost = true;

    for (const struct process *process = session->processes; process != NULL;
         process = process->next) {
        if (process->state == PROCESS_RUNNING &&
            process->identity.role != WIRE_ROLE_WORKER)
            return PROCESS_RUNNING;
        lost = lost && process->state == PROCESS_LOST;
        crashed |= process_state_of(session, process) == PROCESS_CRASHED &&
                   process->identity.role != WIRE_ROLE_WORKER;
    }
    state = lost ? PROCESS_LOST : crashed ? PROCESS_CRASHED : PROCESS_ENDED;
    if (session->end.known && session->end.signal != 0 &&
        session->end.stopped_by == 0 && state == PROCESS_ENDED)
        state = PROCESS_CRASHED;
    return state;
}

static int fill_session(struct answer *head, const struct session *session,
                        struct status_session *to)
{
    const struct process *chosen = pick_default(session);
    int error = 0;

    *to = (struct status_session){
        .id = arena_text(&head->arena, session->id),
        .name = arena_text(&head->arena, session->name),
        .state = state_of(session),
        .reason = arena_text(
            &head->arena,
            process_state_of(session, chosen) == PROCESS_ENDED ? "" : chosen->reason),
        .steps = steps_of(chosen),
        .start_unix_ns = session->zero_realtime_ns,
        .last_event_age_ns = age_of(session, chosen),
        .world_size = chosen->identity.world_size,
        .step_ns = UNKNOWN,
        .rev = chosen->rev,
        .from_file = session->from_file,
        .processes_dropped = session->processes_dropped,
        .unread = chosen->unread};
    if (chosen->steps.train != NULL && chosen->steps.train->count > 0)
        to->step_ns =
            chosen->steps.train->total_ns / (double)chosen->steps.train->count;
    fill_end(head, session, chosen, &to->end);
    if (!ARENA_LIST(&head->arena, to->processes, session->process_count))
        return -ENOMEM;
    for (const struct process *process = session->processes;
         process != NULL && error == 0; process = process->next) {
        struct status_process *at = &to->processes[to->process_count++];

        error = fill_process(head, session, process, at);
        at->selected = strcmp(head->session, session->id) == 0 &&
                       head->pid == process->identity.pid;
        to->lost_events += at->lost_events;
        to->threads_refused += at->threads_refused;
        to->names_refused += at->names_refused;
        to->late_events += at->late_events;
    }
    return error;
}

/* The GPUs' meters are the server's own source, the same for all jobs of the machine. */
static void add_meters(struct answer *head, const struct hardware_reading *hardware,
                       struct status_session *session)
{
    for (uint32_t i = 0; i < session->process_count; i++) {
        struct status_process *process = &session->processes[i];

        uint32_t gpus = hardware->device_count + hardware->devices_unseen;

        if (session->from_file || hardware->state == WIRE_STATE_UNKNOWN)
            continue;
        process->capabilities[process->capability_count++] = (struct status_capability){
            .source = STATUS_SOURCE_NVML,
            .state = hardware->state,
            .reason = arena_text(&head->arena, hardware->reason),
            .detail = hardware->driver[0] == '\0'
                          ? ""
                          : arena_print(&head->arena, "driver %s, %u GPU%s",
                                        hardware->driver, gpus, gpus == 1 ? "" : "s"),
            .cost_ns = UNKNOWN,
            .events_per_s = UNKNOWN};
    }
}

static void sort_newest_first(struct status_session *sessions, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct status_session moved = sessions[i];
        uint32_t at = i;

        for (; at > 0 && sessions[at - 1].start_unix_ns < moved.start_unix_ns; at--)
            sessions[at] = sessions[at - 1];
        sessions[at] = moved;
    }
}

static int fill_watches(const struct store *store, struct status_answer *answer)
{
    if (!ARENA_LIST(&answer->head.arena, answer->watching, store->watch_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < store->watch_count; i++) {
        const struct watch_state *from = &store->watches[i];

        answer->watching[answer->watching_count++] = (struct status_watch){
            .path = arena_text(&answer->head.arena, from->path),
            .readable = from->readable,
            .reason = arena_text(&answer->head.arena, from->reason),
            .segments = from->segments};
    }
    return 0;
}

static bool was_seen(const struct store *store, const char *session)
{
    for (uint32_t i = 0; i < store->session_count; i++)
        if (store->sessions[i]->process_count > 0 &&
            strcmp(store->sessions[i]->id, session) == 0)
            return true;
    return false;
}

static int fill_commands(const struct store *store, struct status_answer *answer)
{
    struct arena *arena = &answer->head.arena;

    if (!ARENA_LIST(arena, answer->commands, store->command_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < store->command_count; i++) {
        const struct command_state *from = &store->commands[i];

        if (!was_seen(store, from->session))
            answer->commands[answer->command_count++] =
                (struct status_command){.session = arena_text(arena, from->session),
                                        .command = arena_text(arena, from->command),
                                        .pid = from->pid,
                                        .start_unix_ns = from->realtime_ns,
                                        .ended = from->ended};
    }
    return 0;
}

int status_query(struct store *store, const struct selection *selection,
                 struct status_answer *answer)
{
    struct pick pick;

    *answer = (struct status_answer){0};
    /* No session is no error here: the list is empty and the watches say where one
     * would appear. */
    if (pick_begin(&pick, store, selection, &answer->head) != 0)
        pthread_rwlock_rdlock(&store->lock);
    int error = fill_watches(store, answer);

    if (error == 0)
        error = fill_commands(store, answer);
    answer->sessions_dropped = store->sessions_dropped;
    answer->sessions =
        arena_new(&answer->head.arena, store->session_count, sizeof(*answer->sessions));
    if (answer->sessions == NULL)
        error = -ENOMEM;
    for (uint32_t i = 0; i < store->session_count && error == 0; i++)
        if (store->sessions[i]->process_count > 0)
            error = fill_session(&answer->head, store->sessions[i],
                                 &answer->sessions[answer->session_count++]);
    for (uint32_t i = 0; i < answer->session_count && error == 0; i++)
        add_meters(&answer->head, &store->hardware.now, &answer->sessions[i]);
    pthread_rwlock_unlock(&store->lock);
    sort_newest_first(answer->sessions, answer->session_count);
    return error;
}

int status_brief_query(struct store *store, const struct selection *selection,
                       struct status_brief *answer)
{
    struct pick pick;

    *answer = (struct status_brief){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    answer->state = state_of(pick.session);
    answer->steps = steps_of(pick.process);
    answer->last_event_age_ns = age_of(pick.session, pick.process);
    pick_end(&pick);
    return 0;
}

int overhead_query(struct store *store, const struct selection *selection,
                   struct overhead_answer *answer)
{
    struct pick pick;

    *answer = (struct overhead_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    const struct process_governor *from = &pick.process->governor;
    double nan = UNKNOWN;

    pick_window(&pick, &selection->window);
    answer->level = pick.process->level;
    answer->state = from->state;
    answer->budget_pct = from->known ? from->budget_pct : nan;
    answer->measured_pct = from->known ? from->measured_pct : nan;
    answer->ci95_low_pct = from->known ? from->ci_low_pct : nan;
    answer->ci95_high_pct = from->known ? from->ci_high_pct : nan;
    answer->detail_pct = from->known ? from->detail_pct : nan;
    answer->burst_pct = from->known ? from->burst_pct : nan;
    answer->fixed_pct = from->known ? from->fixed_pct : nan;
    answer->recorded_share = from->known ? from->recorded_share : nan;
    answer->phases_share = from->known ? from->phases_share : nan;
    answer->recorded_steps = from->recorded_steps;
    answer->control_steps = from->control_steps;
    answer->steps_needed = from->steps_needed;
    if (!from->known && answer->head.reason[0] == '\0')
        answer->head.reason = "the probe has not told its cost yet";
    error = parts_capabilities(&answer->head, pick.process, &answer->sources,
                               &answer->source_count);
    pick_end(&pick);
    return error;
}
