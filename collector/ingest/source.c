#include "ingest/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ingest/guard.h"
#include "wire/clock.h"

/* The largest layout that wire_layout_for() makes is far below. */
#define BYTES_MAX ((uint64_t)1 << 32)
#define RETAKE_NS INT64_C(2000000000)

struct opening {
    struct source *source;
    struct wire_header header; /* private copy of what is fixed */
    uint64_t steps;
    const char *reason;
    int result;
};

static void open_view(void *user)
{
    struct opening *opening = user;
    struct source *source = opening->source;

    opening->result =
        wire_view_open(&source->view, source->base, source->bytes, &opening->reason);
    if (source->bytes < sizeof(struct wire_header))
        return;
    memcpy(&opening->header, source->base,
           offsetof(struct wire_header, heartbeat_ticks));
    if (opening->result == 0)
        opening->steps =
            atomic_load_explicit(&source->view.header->steps, memory_order_relaxed);
}

static int map_file(struct source *source, const char *path)
{
    struct stat status;

    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (source->fd < 0)
        return -errno;
    if (fstat(source->fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EPROTO;
    source->device = status.st_dev;
    source->inode = status.st_ino;
    if (status.st_size < (off_t)sizeof(struct wire_header))
        return -EAGAIN;
    if ((uint64_t)status.st_size > BYTES_MAX)
        return -EFBIG;
    source->bytes = (uint64_t)status.st_size;
    void *base = mmap(NULL, source->bytes, PROT_READ, MAP_SHARED, source->fd, 0);

    if (base == MAP_FAILED)
        return -errno;
    source->base = base;
    return 0;
}

/* `clean` gets a copy of a fixed field that may lack its NUL. */
static void take_text(char *clean, size_t size, const char *field, size_t length)
{
    texts_clean(field, strnlen(field, length), clean, size);
}

static void identify(const struct source *source, const struct wire_header *header,
                     struct process_identity *identity)
{
    *identity = (struct process_identity){.pid = header->pid,
                                          .parent_pid = header->parent_pid,
                                          .rank = header->rank,
                                          .local_rank = header->local_rank,
                                          .world_size = header->world_size,
                                          .role = header->role,
                                          .start_ticks = header->start_ticks};
    struct stat own;

    identity->same_namespace = header->pid_namespace != 0 &&
                               stat("/proc/self/ns/pid", &own) == 0 &&
                               header->pid_namespace == own.st_ino;
    take_text(identity->host, sizeof(identity->host), header->host, WIRE_TEXT);
    take_text(identity->version, sizeof(identity->version), header->version,
              sizeof(header->version));
    snprintf(identity->path, sizeof(identity->path), "%s", source->path);
}

/* The session's id is part of file names and addresses: anything else is replaced. */
static void take_session(char *id, const char *field)
{
    size_t length = strnlen(field, WIRE_TEXT - 1);

    for (size_t i = 0; i < length; i++) {
        char c = field[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

        id[i] = plain ? c : '_';
    }
    id[length] = '\0';
    if (length == 0)
        snprintf(id, WIRE_TEXT, "unnamed");
}

static int64_t sane_ns(uint64_t ns)
{
    return ns < (uint64_t)1 << 61 ? (int64_t)ns : 0;
}

/* Makes the process; -ENOSPC where the store has no place for one more. The caller holds
 * the lock. */
static int join_session(struct source *source, struct store *store,
                        const struct wire_header *header, struct process **made)
{
    char id[WIRE_TEXT];
    struct process_identity identity;

    take_session(id, header->session);
    identify(source, header, &identity);
    source->pid = identity.same_namespace ? identity.pid : 0;
    struct session *session = state_session(store, id);

    *made = NULL;
    if (session == NULL)
        return store->session_count < STORE_SESSIONS_MAX ? -ENOMEM : -ENOSPC;
    if (session->process_count == 0) {
        session->zero_monotonic_ns = sane_ns(header->zero_monotonic_ns);
        session->zero_realtime_ns = sane_ns(header->zero_realtime_ns);
        take_text(session->name, sizeof(session->name), header->run_name, WIRE_TEXT);
    }
    source->timeline.zero_ns = session->zero_monotonic_ns;
    *made = state_process(store, session, &identity);
    state_changed(store);
    if (*made == NULL)
        return session->process_count < STATE_PROCESSES ? -ENOMEM : -ENOSPC;
    source->serial = (*made)->serial;
    return 0;
}

static int refused(struct source *source, struct store *store,
                   const struct opening *opening)
{
    char reason[160];
    struct process *process;

    if (opening->result == -EPROTO || source->bytes < sizeof(struct wire_header))
        return opening->result;
    if (opening->result == -ENOTSUP)
        snprintf(
            reason, sizeof(reason),
            "written by format %u.%u, this server reads %u.x: update trainglass on "
            "both sides to the same version",
            opening->header.major, opening->header.minor, WIRE_MAJOR);
    else
        snprintf(reason, sizeof(reason), "%s", opening->reason);
    pthread_rwlock_wrlock(&store->lock);
    if (join_session(source, store, &opening->header, &process) == 0)
        process_finish(process, PROCESS_LOST, reason);
    pthread_rwlock_unlock(&store->lock);
    return opening->result;
}

int source_open(struct source *source, struct store *store, const char *path)
{
    struct opening opening = {.source = source, .reason = ""};

    *source = (struct source){.fd = -1, .main_thread = UINT32_MAX};
    snprintf(source->path, sizeof(source->path), "%s", path);
    int error = map_file(source, path);

    if (error != 0)
        goto fail;
    error = -EFAULT;
    if (!guard_run(open_view, &opening))
        goto fail;
    error = opening.result;
    if (error == -EPROTO && opening.header.magic == 0)
        error = -EAGAIN; /* the magic is written last */
    else if (error != 0)
        error = refused(source, store, &opening);
    if (error != 0)
        goto fail;
    error = -ENOMEM;
    source->tells_known = opening.header.minor >= 4;
    source->tsc = opening.header.clock == WIRE_CLOCK_TSC;
    source->texts = calloc(source->view.layout.name_count + 1u, sizeof(*source->texts));
    source->threads =
        calloc(source->view.layout.thread_count, sizeof(*source->threads));
    if (source->texts == NULL || source->threads == NULL)
        goto fail;
    pthread_rwlock_wrlock(&store->lock);
    struct process *process;

    error = join_session(source, store, &opening.header, &process);
    if (error == 0)
        process->told_steps = opening.steps;
    pthread_rwlock_unlock(&store->lock);
    if (error != 0)
        goto fail;
    source_pair(source, !source_died(source));
    pthread_rwlock_wrlock(&store->lock);
    process = source_process(source, store);
    if (process != NULL)
        process->start_ns = process->alive_ns =
            timeline_ns(&source->timeline, opening.header.created_ticks);
    pthread_rwlock_unlock(&store->lock);
    return 0;
fail:
    source_close(source);
    return error;
}

void source_close(struct source *source)
{
    uint32_t count = source->threads == NULL ? 0 : source->view.layout.thread_count;

    for (uint32_t i = 0; i < count; i++)
        free(source->threads[i].staged);
    free(source->threads);
    free(source->texts);
    if (source->base != NULL)
        munmap(source->base, source->bytes);
    if (source->fd >= 0)
        close(source->fd);
    source->threads = NULL;
    source->texts = NULL;
    source->base = NULL;
    source->fd = -1;
}

/* A job that closes all descriptors closes the lock's too, until it takes it again at a
 * step's end: it lives as long as the file is in its memory. */
static bool is_mapped(const struct source *source)
{
    char path[32], line[512], access[5];
    bool found = false;

    if (source->pid == 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%u/maps", source->pid);
    FILE *maps = fopen(path, "re");

    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        unsigned major_number, minor_number;
        unsigned long long inode;

        found = sscanf(line, "%*s %4s %*s %x:%x %llu", access, &major_number,
                       &minor_number, &inode) == 4 &&
                access[1] == 'w' && /* a reader's is not */
                inode == source->inode &&
                makedev(major_number, minor_number) == source->device;
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

bool source_died(const struct source *source)
{
    if (flock(source->fd, LOCK_SH | LOCK_NB) != 0)
        return errno != EWOULDBLOCK && errno != EINTR;
    flock(source->fd, LOCK_UN);
    return !is_mapped(source);
}

struct goodbye {
    const struct wire_header *header;
    uint32_t ended, exit_code;
    uint64_t steps;
};

static void read_goodbye(void *user)
{
    struct goodbye *goodbye = user;
    const struct wire_header *header = goodbye->header;

    goodbye->ended = RELAXED(header->ended);
    goodbye->exit_code = RELAXED(header->exit_code);
    goodbye->steps = RELAXED(header->steps);
}

bool source_is_gone(struct source *source, int64_t now_ns)
{
    struct goodbye goodbye = {.header = source->view.header};
    int64_t since =
        source->wrote_ns > source->locked_ns ? source->wrote_ns : source->locked_ns;

    if (!source_died(source)) {
        source->locked_ns = now_ns;
        return false;
    }
    return source->pid != 0 || now_ns - since >= RETAKE_NS ||
           !guard_run(read_goodbye, &goodbye) || goodbye.ended == 1;
}

struct process *source_process(const struct source *source, struct store *store)
{
    struct session *session;

    return state_find(store, source->serial, &session);
}

void source_lose(struct source *source, struct store *store, const char *reason)
{
    pthread_rwlock_wrlock(&store->lock);
    struct process *process = source_process(source, store);

    if (process != NULL) {
        process->unread = false;
        process_finish(process, PROCESS_LOST, reason);
    }
    state_changed(store);
    pthread_rwlock_unlock(&store->lock);
    source_close(source);
    source->state = SOURCE_LOST;
}

/* How it ended, by its own word: gone without a good-bye is crashed, however young. */
static enum process_state tell_end(struct process *process,
                                   const struct goodbye *goodbye,
                                   char reason[PROCESS_REASON])
{
    bool clean = goodbye->ended == 1;

    process->said_goodbye = clean;
    process->exit_code = goodbye->exit_code;
    process->told_steps = goodbye->steps;
    reason[0] = '\0';
    if (!clean && goodbye->steps > 0)
        snprintf(reason, PROCESS_REASON, "crashed at step %llu",
                 (unsigned long long)goodbye->steps);
    else if (!clean)
        snprintf(reason, PROCESS_REASON, "crashed before its first step ended");
    return clean ? PROCESS_ENDED : PROCESS_CRASHED;
}

/* `unread`: its events wait until somebody asks for them. */
static void end_process(struct source *source, struct store *store, bool unread)
{
    struct goodbye goodbye = {.header = source->view.header};
    char reason[PROCESS_REASON];

    if (!guard_run(read_goodbye, &goodbye)) {
        source_lose(source, store, SOURCE_CUT_SHORT);
        return;
    }
    pthread_rwlock_wrlock(&store->lock);
    struct process *process = source_process(source, store);

    if (process != NULL) {
        enum process_state state = tell_end(process, &goodbye, reason);

        process->unread = unread;
        if (unread) {
            process->state = state;
            snprintf(process->reason, sizeof(process->reason), "%s", reason);
            process->rev++;
        } else {
            process_finish(process, state, reason);
        }
    }
    state_changed(store);
    pthread_rwlock_unlock(&store->lock);
    source->state = unread ? SOURCE_WAITING : SOURCE_DONE;
    if (!unread)
        source_close(source);
}

void source_put_off(struct source *source, struct store *store)
{
    end_process(source, store, true);
}

void source_finish(struct source *source, struct store *store)
{
    end_process(source, store, false);
}
