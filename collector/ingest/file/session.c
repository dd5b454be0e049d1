/* Which session and rank a file's events are put into. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "aggregate/state.h"
#include "ingest/file/parts.h"
#include "wire/hash.h"

/* What is to be added to the file's stamps; nothing where that leaves the range of
 * stamps, and the file says so. */
static int64_t base_of(const struct file *file, const struct trace_reader *reader)
{
    int64_t base_ns = trace_reader_head(reader)->base_time_ns, from_ns, to_ns;

    if (base_ns == 0 || (!__builtin_add_overflow(base_ns, file->from_ns, &from_ns) &&
                         !__builtin_add_overflow(base_ns, file->to_ns, &to_ns) &&
                         from_ns >= -FILE_TIME_MAX_NS && to_ns <= FILE_TIME_MAX_NS))
        return base_ns;
    if (file->result->error[0] == '\0')
        snprintf(file->result->error, sizeof(file->result->error),
                 "its base time is impossible: it was left out");
    return 0;
}

/* ---- whose it is ------------------------------------------------------------------------- */

static void identify(struct file *file, const struct trace_reader *reader,
                     const struct file_part *part, struct process_identity *identity)
{
    const struct trace_head *head = trace_reader_head(reader);
    int64_t pid = 0;

    *identity = (struct process_identity){
        .rank = -1, .local_rank = -1, .world_size = -1, .role = WIRE_ROLE_TRAINER};
    if (file->thread_count > 0 &&
        trace_names_number(file->names, file->threads[file->trainer].pid, &pid) &&
        pid > 0 && pid <= INT32_MAX)
        identity->pid = (uint32_t)pid;
    if (head->has_rank && head->rank >= 0 && head->rank <= INT32_MAX &&
        part->processes == NULL) {
        identity->rank = (int32_t)head->rank;
        if (head->world_size >= 0 && head->world_size <= INT32_MAX)
            identity->world_size = (int32_t)head->world_size;
    } else if (part->rank >= 0) {
        identity->rank = part->rank;
        file->result->rank_from = part->rank_from;
    }
    snprintf(identity->path, sizeof(identity->path), "%.255s", file->result->name);
}

/* ---- the session --------------------------------------------------------------------- */

/* Stamps as ns since `zero_ns`; those of tracks when they are read. */
static void shift(struct file *file, int64_t zero_ns)
{
    struct file_step *steps = file->steps.items;
    struct file_mark *phases = file->phases.items;

    file->zero_ns = zero_ns;
    file->from_ns -= zero_ns;
    file->to_ns -= zero_ns;
    for (uint32_t i = 0; i < file->steps.count; i++) {
        steps[i].start_ns -= zero_ns;
        steps[i].end_ns -= zero_ns;
    }
    for (uint32_t i = 0; i < file->phases.count; i++) {
        phases[i].start_ns -= zero_ns;
        phases[i].end_ns -= zero_ns;
    }
}

void file_name_session(struct file_result *result, const char *path)
{
    snprintf(result->session, sizeof(result->session), "t-%012" PRIx64,
             hash_text(path) & UINT64_C(0xffffffffffff));
}

/* Is there a rank in the session that nobody could choose from this one? */
static bool has_twin(const struct store *store, const char *id,
                     const struct process_identity *identity)
{
    for (uint32_t i = 0; i < store->session_count; i++) {
        if (strcmp(store->sessions[i]->id, id) != 0)
            continue;
        for (const struct process *process = store->sessions[i]->processes;
             process != NULL; process = process->next) {
            const struct process_identity *other = &process->identity;

            if (other->rank < 0 ? identity->pid == other->pid
                                : identity->rank == other->rank || identity->rank < 0)
                return true;
        }
    }
    return false;
}

/* The store is locked. */
static void set_apart(struct file_result *result,
                      const struct process_identity *identity)
{
    char own[sizeof(result->session) + sizeof(result->name)];

    /* Files of one name may have been put into different sessions. */
    (void)snprintf(own, sizeof(own), "%s/%s", result->session, result->name);
    result->is_apart = true;
    file_name_session(result, own);
    if (result->error[0] != '\0')
        return;
    if (identity->rank < 0)
        snprintf(result->error, sizeof(result->error),
                 "does not say which rank it is, as others of the folder do: shown by "
                 "itself");
    else
        snprintf(result->error, sizeof(result->error),
                 "is rank %d, as another file of the folder is: shown by itself",
                 identity->rank);
}

int file_enter(struct file *file, struct store *store,
               const struct trace_reader *reader, const struct file_part *part,
               struct process **made)
{
    int64_t base_ns = base_of(file, reader);
    struct process_identity identity;
    struct session *session;

    identify(file, reader, part, &identity);
    pthread_rwlock_wrlock(&store->lock);
    if (part->twins_apart && has_twin(store, file->result->session, &identity))
        set_apart(file->result, &identity);
    session = state_session(store, file->result->session);
    if (session != NULL && session->process_count == 0) {
        const char *path = file->result->name, *slash = strrchr(path, '/');

        snprintf(session->name, sizeof(session->name), "%.63s",
                 slash == NULL ? path : slash + 1);
        session->from_file = true;
        session->own_file = file->own;
        session->zero_monotonic_ns = session->zero_realtime_ns =
            base_ns + file->from_ns;
    }
    *made = session == NULL ? NULL : state_process(store, session, &identity);
    if (*made != NULL) {
        (*made)->foreign = file->foreign;
        shift(file, session->zero_realtime_ns - base_ns);
    }
    bool full = session != NULL && session->process_count == STATE_PROCESSES;

    if (*made == NULL && session != NULL && session->process_count == 0)
        state_drop(store, session);
    pthread_rwlock_unlock(&store->lock);
    if (*made == NULL && full)
        snprintf(file->result->error, sizeof(file->result->error),
                 "a session has room for %u ranks", STATE_PROCESSES);
    file->result->pid = identity.pid;
    file->result->rank = identity.rank;
    return *made == NULL ? -ENOMEM : 0;
}
