#include "control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "query/status_query.h"

/* What the probe does when nobody asked for anything. */
#define CONTROL_BUDGET_PPM 10000u

bool control_sibling(const char *segment_path, const char *ending, char *path,
                     size_t size)
{
    int length = (int)strlen(segment_path) - 4;

    return length > 0 && strcmp(segment_path + length, ".seg") == 0 &&
           snprintf(path, size, "%.*s%s", length, segment_path, ending) < (int)size;
}

bool control_path(const char *segment_path, char *path, size_t size)
{
    return control_sibling(segment_path, ".ctl", path, size);
}

/* What was asked before; the defaults when nothing readable is there. */
static struct control control_read(const char *path, const struct control *in_force)
{
    struct control asked,
        control = {.level = WIRE_LEVEL_AUTO, .budget_ppm = CONTROL_BUDGET_PPM};
    unsigned char bytes[1024];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t size;

    if (in_force != NULL) {
        control.level = in_force->level;
        control.budget_ppm = in_force->budget_ppm;
    }
    if (file < 0)
        return control;
    size = read(file, bytes, sizeof(bytes));
    close(file);
    return size > 0 && control_parse(bytes, (size_t)size, &asked) ? asked : control;
}

static int write_new(const char *path, const struct control *control)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = 0;

    if (file < 0)
        return -errno;
    if (write(file, control, sizeof(*control)) != (ssize_t)sizeof(*control))
        error = errno != 0 ? -errno : -EIO;
    if (close(file) != 0 && error == 0)
        error = -errno;
    return error;
}

/* What is asked next is added to what was asked before: one at a time, of the threads of this
 * server and beside another one. The lock is that of the folder; -1: none, and who asks at the
 * same moment may be lost. */
static int lock_folder(const char *path)
{
    char folder[4096];
    const char *name = strrchr(path, '/');
    int length = name != NULL ? (int)(name - path) : 0;

    if (length == 0 || length >= (int)sizeof(folder))
        return -1;
    (void)snprintf(folder, sizeof(folder), "%.*s", length, path);
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (file >= 0 && flock(file, LOCK_EX) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static int write_change(const char *path, const struct control_change *change)
{
    struct control control = control_read(path, change->in_force);
    char fresh[4096];
    int error;

    control.sequence++;
    if (change->level >= 0)
        control.level = (uint32_t)change->level;
    if (change->budget_ppm >= 0)
        control.budget_ppm = (uint32_t)change->budget_ppm;
    if (change->burst_steps > 0) {
        control.burst_id++;
        control.burst_steps = change->burst_steps;
    }
    if (change->window != NULL) {
        control.window_id = change->window->id;
        control.window_steps = change->window->steps;
        control.window_seconds = change->window->seconds;
        control.window_flags = change->window->flags;
        control.window_bytes = change->window->bytes;
        control.window_first_step = change->window->first_step;
        control.window_until_unix_ms = change->window->until_unix_ms;
    }
    control_seal(&control);
    if (snprintf(fresh, sizeof(fresh), "%s.%d.new", path, (int)gettid()) >=
        (int)sizeof(fresh))
        return -ENAMETOOLONG;
    error = write_new(fresh, &control);
    if (error == 0 && rename(fresh, path) != 0)
        error = -errno;
    if (error != 0 && error != -EEXIST)
        (void)unlink(fresh);
    return error;
}

int control_write(const char *path, const struct control_change *change)
{
    int lock = lock_folder(path);
    int error = write_change(path, change);

    if (lock >= 0)
        close(lock);
    return error;
}

/* The control file of a trainer that runs; false for others. */
static bool find_file(const struct status_process *process, char *path, size_t size)
{
    return process->state == PROCESS_RUNNING && process->role == WIRE_ROLE_TRAINER &&
           process->segment_path != NULL &&
           control_path(process->segment_path, path, size);
}

static int ask_session(const struct status_session *session,
                       const struct control_change *change, char *reason)
{
    int asked = 0, error = 0;

    for (uint32_t i = 0; i < session->process_count; i++) {
        char path[4096];

        if (!find_file(&session->processes[i], path, sizeof(path)))
            continue;
        error = control_write(path, change);
        if (error != 0)
            break;
        asked++;
    }
    if (error != 0)
        (void)snprintf(reason, CONTROL_REASON_BYTES,
                       "cannot write beside the job's segments: %s", strerror(-error));
    else if (asked == 0)
        (void)snprintf(reason, CONTROL_REASON_BYTES, "the session does not run");
    if (error != 0)
        return error;
    return asked == 0 ? -ESRCH : asked;
}

struct control control_in_force(struct store *store, const struct selection *selection)
{
    struct control control = {.level = WIRE_LEVEL_AUTO,
                              .budget_ppm = CONTROL_BUDGET_PPM};
    struct overhead_answer now;

    if (overhead_query(store, selection, &now) == 0) {
        if (now.level < WIRE_LEVELS)
            control.level = now.level;
        if (now.budget_pct >= 0 && now.budget_pct <= 100)
            control.budget_ppm = (uint32_t)(now.budget_pct * 1e4 + 0.5);
    }
    answer_free(&now.head);
    return control;
}

int control_ask(struct store *store, const struct selection *selection,
                const struct control_change *change, char *reason)
{
    struct control in_force = control_in_force(store, selection);
    struct control_change whole = *change;
    const struct status_session *session;
    struct status_answer status;
    int result = status_query(store, selection, &status);

    whole.in_force = &in_force;

    if (result == 0) {
        session = status_session_find(&status, status.head.session);
        result = session == NULL ? -ENOENT : ask_session(session, &whole, reason);
    }
    if (result == -ENOENT)
        (void)snprintf(reason, CONTROL_REASON_BYTES, "no such session");
    answer_free(&status.head);
    return result;
}

static const char *obstacle_of(const struct status_session *session)
{
    bool running = false;

    if (session == NULL)
        return "no session";
    for (uint32_t i = 0; i < session->process_count; i++) {
        char path[4096];
        char *slash;

        if (!find_file(&session->processes[i], path, sizeof(path)))
            continue;
        running = true;
        slash = strrchr(path, '/');
        if (slash == NULL)
            continue;
        *slash = '\0';
        if (access(path, W_OK) != 0)
            return "the job's directory is not writable for this server";
    }
    return running ? NULL : "the session does not run";
}

const char *control_obstacle(struct store *store, const struct selection *selection)
{
    struct status_answer status;
    const char *why = "no session";

    if (status_query(store, selection, &status) == 0)
        why = obstacle_of(status_session_find(&status, status.head.session));
    answer_free(&status.head);
    return why;
}
