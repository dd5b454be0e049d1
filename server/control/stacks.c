#include "control/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/segment.h"

#define WAIT_MS  1000 /* a process that runs answers in a few ms, a stopped one never */
#define LOOK_MS  20
#define QUIET_MS 60 /* no more text for so long: the last frame has been written */

static int refuse(int error, char *reason, const char *why)
{
    (void)snprintf(reason, STACKS_REASON_BYTES, "%s", why);
    return error;
}

/* Bit `signal` of the line SigCgt of a /proc/<pid>/status. */
static bool is_caught(const char *text, int signal)
{
    const char *line = strstr(text, "\nSigCgt:");

    if (line == NULL || signal < 1 || signal > 64)
        return false;
    return (strtoull(line + strlen("\nSigCgt:"), NULL, 16) >> (signal - 1) & 1) != 0;
}

/* Reads all of a small file of /proc at `folder`; "" when it cannot. */
static void read_proc(int folder, const char *name, char *text, size_t size)
{
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, text, size - 1);

    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = '\0';
}

/* Field 22 of /proc/<pid>/stat; the name in field 2 may hold anything but ends at ')'. */
static uint64_t start_ticks(const char *stat)
{
    const char *at = strrchr(stat, ')');

    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

/* The process that `folder` (/proc/<pid>) shows is the segment's and waits for it. */
static bool is_the_one(int folder, const struct wire_header *header, uid_t owner,
                       int signal)
{
    char text[4096];
    struct stat who;

    if (fstat(folder, &who) != 0 || who.st_uid != owner)
        return false;
    read_proc(folder, "stat", text, sizeof(text));
    if (start_ticks(text) != header->start_ticks)
        return false;
    read_proc(folder, "status", text, sizeof(text));
    return is_caught(text, signal);
}

static int send_signal(const char *path, int signal, char *reason)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct wire_header *header = malloc(sizeof(*header));
    char folder_path[64];
    struct stat owner;
    int pidfd = -1, folder = -1, error = -ESRCH;

    if (header == NULL || file < 0 || fstat(file, &owner) != 0 ||
        pread(file, header, sizeof(*header), 0) != (ssize_t)sizeof(*header) ||
        header->magic != WIRE_MAGIC || header->pid == 0 || header->pid > INT32_MAX) {
        error = refuse(-ESRCH, reason, "its segment cannot be read any more");
        goto done;
    }
    pidfd = pidfd_open((pid_t)header->pid, 0);
    (void)snprintf(folder_path, sizeof(folder_path), "/proc/%" PRIu32, header->pid);
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pidfd < 0 || folder < 0 || !is_the_one(folder, header, owner.st_uid, signal)) {
        error = refuse(-ESRCH, reason,
                       "the process is not there, or does not listen for the signal");
        goto done;
    }
    error = pidfd_send_signal(pidfd, signal, NULL, 0) == 0 ? 0 : -errno;
    if (error != 0)
        (void)refuse(error, reason,
                     "the kernel lets another user's server send no signal");
done:
    if (pidfd >= 0)
        close(pidfd);
    if (folder >= 0)
        close(folder);
    if (file >= 0)
        close(file);
    free(header);
    return error;
}

static off_t size_of(int file)
{
    struct stat now;

    return fstat(file, &now) == 0 && S_ISREG(now.st_mode) ? now.st_size : -1;
}

/* Waits until the file has grown past `before` and stands still; its size then. */
static off_t wait_for_text(int file, off_t before)
{
    off_t size = before;
    int quiet_ms = 0;

    for (int waited_ms = 0; waited_ms < WAIT_MS && quiet_ms < QUIET_MS;
         waited_ms += LOOK_MS) {
        (void)poll(NULL, 0, LOOK_MS);
        off_t now = size_of(file);

        quiet_ms = now == size && now > before ? quiet_ms + LOOK_MS : 0;
        size = now;
    }
    return size;
}

static int read_answer(int file, off_t from, off_t to, struct stacks *stacks)
{
    size_t length = (size_t)(to - from);

    stacks->truncated = length > STACKS_BYTES_MAX;
    if (stacks->truncated)
        length = STACKS_BYTES_MAX;
    stacks->text = malloc(length + 1);
    if (stacks->text == NULL)
        return -ENOMEM;
    ssize_t got = pread(file, stacks->text, length, from);

    stacks->length = got > 0 ? (size_t)got : 0;
    stacks->text[stacks->length] = '\0';
    return 0;
}

int stacks_ask(const char *path, int signal, struct stacks *stacks, char *reason)
{
    char stacks_path[4096];
    size_t length = strlen(path);
    int error = -EINVAL;

    *stacks = (struct stacks){0};
    if (signal < SIGRTMIN || signal > SIGRTMAX || length < 5 ||
        snprintf(stacks_path, sizeof(stacks_path), "%.*s.stacks", (int)length - 4,
                 path) >= (int)sizeof(stacks_path))
        return refuse(-EINVAL, reason, "the process names no signal for it");
    int file = open(stacks_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    off_t before = file < 0 ? -1 : size_of(file), after;

    if (before < 0) {
        error = refuse(-ENOENT, reason, "the file for the stacks cannot be read");
        goto done;
    }
    error = send_signal(path, signal, reason);
    if (error != 0)
        goto done;
    after = wait_for_text(file, before);
    if (after > before)
        error = read_answer(file, before, after, stacks);
    else
        error =
            refuse(-ETIMEDOUT, reason, "the process did not answer within a second");
done:
    if (file >= 0)
        close(file);
    return error;
}
