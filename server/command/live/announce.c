#include "command/live/announce.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/segments/segment_file.h"
#include "wire/clock.h"
#include "wire/run_note.h"

#define NOTE_PATH_BYTES (PLACE_BYTES + WIRE_TEXT + 8)

static void note_path(const struct contract *contract, char path[NOTE_PATH_BYTES])
{
    snprintf(path, NOTE_PATH_BYTES, "%s/%s.run", contract->directory,
             contract->session);
}

/* A run that was killed could not remove its own, nor finish what it was making. */
static void remove_stale(const char *directory)
{
    DIR *folder = opendir(directory);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!segment_file_is(entry->d_name, ".run") &&
            !segment_file_is(entry->d_name, ".run.new"))
            continue;
        int fd = openat(dirfd(folder), entry->d_name,
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (folder != NULL)
        closedir(folder);
}

/* It has its lock before it has its name. */
static int write_locked(const char *made, const char *path, const char *text,
                        size_t length, mode_t mode)
{
    int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fchmod(fd, mode) == 0 &&
        write(fd, text, length) == (ssize_t)length && rename(made, path) == 0)
        return fd;
    unlink(made);
    close(fd);
    return -1;
}

int announce_command(const struct contract *contract, char *const *argv, pid_t pid,
                     int share)
{
    struct run_note note = {.pid = (uint32_t)pid,
                            .realtime_ns = clock_ns(CLOCK_REALTIME)};
    char path[NOTE_PATH_BYTES], made[NOTE_PATH_BYTES + 8], text[RUN_NOTE_BYTES_MAX];

    if (contract->directory[0] == '\0')
        return -1;
    run_note_command(&note, argv);
    size_t length = run_note_format(&note, text, sizeof(text));

    note_path(contract, path);
    snprintf(made, sizeof(made), "%s.new", path);
    remove_stale(contract->directory);
    return write_locked(made, path, text, length, contract_note_mode(share));
}

void announce_end(const struct contract *contract, int lock)
{
    char path[NOTE_PATH_BYTES];

    if (lock < 0)
        return;
    note_path(contract, path);
    unlink(path);
    close(lock);
}
