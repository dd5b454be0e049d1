#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/state.h"

struct store *store_new(const struct store_limits *limits)
{
    struct store *store = calloc(1, sizeof(*store));
    pthread_rwlockattr_t attributes;

    if (store == NULL)
        return NULL;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes,
                                  PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&store->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    history_init(&store->history, limits == NULL ? 0 : limits->history_bytes);
    history_init(&store->file_history, limits == NULL ? 0 : limits->history_bytes);
    store->digest_bytes = limits == NULL ? 0 : limits->digest_bytes;
    store->host.cpu_limit = __builtin_nan("");
    store->host.memory_limit_bytes = __builtin_nan("");
    return store;
}

static void session_free(struct session *session)
{
    while (session->processes != NULL) {
        struct process *next = session->processes->next;

        process_free(session->processes);
        session->processes = next;
    }
    free(session);
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    for (uint32_t i = 0; i < store->session_count; i++)
        session_free(store->sessions[i]);
    hardware_free(&store->hardware);
    pthread_rwlock_destroy(&store->lock);
    free(store);
}

uint64_t store_rev(const struct store *store)
{
    return atomic_load_explicit(&store->rev, memory_order_relaxed);
}

void state_changed(struct store *store)
{
    atomic_fetch_add_explicit(&store->rev, 1, memory_order_relaxed);
}

static bool runs(const struct session *session)
{
    for (const struct process *process = session->processes; process != NULL;
         process = process->next)
        if (process->state == PROCESS_RUNNING)
            return true;
    return false;
}

void state_drop(struct store *store, struct session *session)
{
    for (uint32_t i = 0; i < store->session_count; i++) {
        if (store->sessions[i] != session)
            continue;
        store->session_count--;
        memmove(&store->sessions[i], &store->sessions[i + 1],
                (store->session_count - i) * sizeof(store->sessions[0]));
        session_free(session);
        state_changed(store);
        return;
    }
}

void state_drop_process(struct store *store, struct session *session,
                        struct process *process)
{
    struct process **at = &session->processes;

    while (*at != NULL && *at != process)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = process->next;
    process_free(process);
    if (--session->process_count == 0)
        state_drop(store, session);
    else
        state_changed(store);
}

static bool make_room(struct store *store)
{
    if (store->session_count < STORE_SESSIONS_MAX)
        return true;
    for (uint32_t i = 0; i < store->session_count; i++) {
        if (runs(store->sessions[i]))
            continue;
        state_drop(store, store->sessions[i]);
        store->sessions_dropped++;
        return true;
    }
    return false;
}

struct session *state_session(struct store *store, const char *id)
{
    for (uint32_t i = 0; i < store->session_count; i++)
        if (strcmp(store->sessions[i]->id, id) == 0)
            return store->sessions[i];
    if (!make_room(store))
        return NULL;
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    snprintf(session->id, sizeof(session->id), "%s", id);
    session->end.exit_code = -1;
    session->order = ++store->next_order;
    store->sessions[store->session_count++] = session;
    return session;
}

/* A loader's workers come anew with every epoch, for as long as the job lives. */
static bool drop_a_worker(struct store *store, struct session *session)
{
    struct process *oldest = session->processes;

    while (oldest != NULL && (oldest->identity.role != WIRE_ROLE_WORKER ||
                              oldest->state == PROCESS_RUNNING))
        oldest = oldest->next;
    if (oldest == NULL)
        return false;
    state_drop_process(store, session, oldest);
    session->processes_dropped++;
    return true;
}

struct process *state_process(struct store *store, struct session *session,
                              const struct process_identity *identity)
{
    if (session->process_count >= STATE_PROCESSES && !drop_a_worker(store, session))
        return NULL;
    struct history *history =
        session->from_file ? &store->file_history : &store->history;
    struct process *process =
        process_new(identity, ++store->next_serial, history, store->digest_bytes);

    if (process == NULL)
        return NULL;
    struct process **last = &session->processes;

    while (*last != NULL)
        last = &(*last)->next;
    *last = process;
    session->process_count++;
    return process;
}

struct process *state_find(struct store *store, uint32_t serial,
                           struct session **session)
{
    for (uint32_t i = 0; i < store->session_count; i++) {
        for (struct process *process = store->sessions[i]->processes; process != NULL;
             process = process->next) {
            if (process->serial != serial)
                continue;
            *session = store->sessions[i];
            return process;
        }
    }
    return NULL;
}

static bool has_step(const struct session *session)
{
    for (const struct process *process = session->processes; process != NULL;
         process = process->next)
        if (process->told_steps > 0 || process->steps.count > 0)
            return true;
    return false;
}

/* Runs before trace files: the window of a running job is newer than the job. Jobs that
 * run before those that are over: one may have come and gone beside it. */
static bool is_before(const struct session *session, const struct session *other)
{
    bool steps = has_step(session), others = has_step(other);

    if (steps != others)
        return steps;
    if (session->from_file != other->from_file)
        return other->from_file;
    if (runs(session) != runs(other))
        return runs(session);
    return session->zero_realtime_ns >= other->zero_realtime_ns;
}

struct session *state_newest(const struct store *store)
{
    struct session *newest = NULL;

    for (uint32_t i = 0; i < store->session_count; i++)
        if (newest == NULL || is_before(store->sessions[i], newest))
            newest = store->sessions[i];
    return newest;
}
