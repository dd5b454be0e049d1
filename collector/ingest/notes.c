#include "ingest/notes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "aggregate/state.h"
#include "wire/end_note.h"
#include "wire/run_note.h"

/* What is in a note, whose file's name without the suffix is `id`; 0 where it cannot be read. `held`:
 * only where its `run` holds its exclusive lock, as long as the command runs. */
static size_t read_note(const struct watch_file *file, bool held, char *text,
                        size_t size, char id[WIRE_TEXT])
{
    int length = (int)strlen(file->name) - (int)strlen(".end");
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = -1;

    snprintf(id, WIRE_TEXT, "%.*s", length, file->name);
    if (fd >= 0 &&
        (!held || (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)))
        got = read(fd, text, size);
    if (fd >= 0)
        close(fd);
    return got > 0 ? (size_t)got : 0;
}

void notes_add_end(void *user, const struct watch_file *file)
{
    struct store *store = user;
    char id[WIRE_TEXT], text[END_NOTE_BYTES_MAX];
    struct end_note note;
    size_t got = read_note(file, false, text, sizeof(text), id);

    if (got == 0 || !end_note_parse(text, got, &note))
        return;
    pthread_rwlock_wrlock(&store->lock);
    for (uint32_t i = 0; i < store->session_count; i++) {
        struct session *session = store->sessions[i];

        if (!end_note_is_about(id, session->id) || session->end.known)
            continue;
        session->end = (struct state_end){
            .known = true,
            .exit_code = note.signal != 0 ? -1 : (int)(note.exit_code & 0xff),
            .signal = (int)(note.signal & 0x7f),
            .stopped_by = (int)end_note_stopped_by(&note),
            .pid = note.pid,
            .oom = note.oom_kills > 0,
            .realtime_ns = (int64_t)(note.realtime_ns & INT64_MAX)};
        state_changed(store);
    }
    pthread_rwlock_unlock(&store->lock);
}

struct commands {
    struct command_state list[STATE_COMMANDS];
    uint32_t count;
};

static void add_command(void *user, const struct watch_file *file)
{
    struct commands *commands = user;
    char text[RUN_NOTE_BYTES_MAX];
    struct run_note note;
    char id[WIRE_TEXT];
    size_t got = read_note(file, true, text, sizeof(text), id);

    if (got == 0 || commands->count == STATE_COMMANDS ||
        !run_note_parse(text, got, &note))
        return;
    struct command_state *to = &commands->list[commands->count++];

    snprintf(to->session, sizeof(to->session), "%s", id);
    snprintf(to->command, sizeof(to->command), "%s", note.command);
    to->pid = note.pid;
    to->realtime_ns = (int64_t)(note.realtime_ns & INT64_MAX);
}

static bool is_among(const struct commands *commands, const char *session)
{
    for (uint32_t i = 0; i < commands->count; i++)
        if (strcmp(commands->list[i].session, session) == 0)
            return true;
    return false;
}

static bool was_recorded(const struct store *store, const char *session)
{
    for (uint32_t i = 0; i < store->session_count; i++)
        if (strcmp(store->sessions[i]->id, session) == 0)
            return true;
    return false;
}

/* It outlives a `run` that is killed. */
static bool goes_on(const struct command_state *command)
{
    return command->pid != 0 && command->pid <= INT32_MAX &&
           (kill((pid_t)command->pid, 0) == 0 || errno == EPERM);
}

/* Whoever started a command and finds nothing of it looks here for the reason. */
static void keep_unseen(struct commands *commands, const struct store *store)
{
    for (uint32_t i = 0; i < store->command_count; i++) {
        const struct command_state *before = &store->commands[i];

        if (commands->count == STATE_COMMANDS || is_among(commands, before->session) ||
            was_recorded(store, before->session) || (!before->ended && goes_on(before)))
            continue;
        commands->list[commands->count] = *before;
        commands->list[commands->count++].ended = true;
    }
}

void notes_tell_commands(struct watch *watch, struct store *store)
{
    struct commands commands = {.count = 0};

    watch_scan(watch, ".run", add_command, &commands);
    /* At once: a reader between two of them would miss what runs. */
    pthread_rwlock_wrlock(&store->lock);
    keep_unseen(&commands, store);
    memcpy(store->commands, commands.list, sizeof(commands.list));
    store->command_count = commands.count;
    pthread_rwlock_unlock(&store->lock);
}
