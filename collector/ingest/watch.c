#include "ingest/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/text.h"

#define SHARED      "/dev/shm"
#define OWN_PREFIX  "trainglass-"
#define INTERESTING (IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_ATTRIB)

int watch_open(struct watch *watch, bool all_users)
{
    *watch = (struct watch){.all_users = all_users};
    watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->inotify < 0)
        return -errno;
    watch->shared = -1;
    if (all_users)
        watch->shared =
            inotify_add_watch(watch->inotify, SHARED, IN_CREATE | IN_MOVED_TO);
    return 0;
}

void watch_close(struct watch *watch)
{
    if (watch->inotify >= 0)
        close(watch->inotify);
    watch->inotify = -1;
}

bool watch_add(struct watch *watch, const char *path)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (strcmp(watch->directories[i].path, path) == 0)
            return true;
    struct watch_directory *directory = &watch->directories[watch->count];

    if (watch->count == STATE_WATCHES || strlen(path) >= sizeof(directory->path))
        return false;
    *directory = (struct watch_directory){.descriptor = -1};
    snprintf(directory->path, sizeof(directory->path), "%s", path);
    watch->count++;
    return true;
}

static bool has_suffix(const char *name, const char *suffix)
{
    return text_ends(name, suffix) && strlen(name) > strlen(suffix);
}

/* Loaders make and remove files in shared memory for each batch: those tell us nothing. */
static bool is_ours(const struct watch *watch, const struct inotify_event *event)
{
    if (event->len == 0) /* of the directory itself, or more than was kept */
        return true;
    if (event->wd == watch->shared)
        return strncmp(event->name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0;
    return has_suffix(event->name, ".seg") || has_suffix(event->name, ".end") ||
           has_suffix(event->name, ".run");
}

bool watch_told(struct watch *watch)
{
    _Alignas(struct inotify_event) char events[4096];
    bool any = false;
    ssize_t got;

    while ((got = read(watch->inotify, events, sizeof(events))) > 0)
        for (const char *at = events; at < events + got;) {
            const struct inotify_event *event = (const void *)at; /* padded to fit */

            any |= is_ours(watch, event);
            at += sizeof(*event) + event->len;
        }
    return any;
}

/* Directories of other users count only where their owner is who the name says. */
static void find_users(struct watch *watch)
{
    DIR *shared = opendir(SHARED);
    struct dirent *entry;

    watch->users_left_out = 0;
    while (shared != NULL && (entry = readdir(shared)) != NULL) {
        char path[sizeof(SHARED) + sizeof(entry->d_name) + 1], *end;
        struct stat status;

        if (strncmp(entry->d_name, OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
            continue;
        const char *digits = entry->d_name + strlen(OWN_PREFIX);
        unsigned long uid = strtoul(digits, &end, 10);

        snprintf(path, sizeof(path), "%s/%s", SHARED, entry->d_name);
        if (*digits < '0' || *digits > '9' || *end != '\0' ||
            lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != uid)
            continue;
        if (!watch_add(watch, path))
            watch->users_left_out++;
        for (uint32_t i = 0; i < watch->count; i++)
            watch->directories[i].own |= strcmp(watch->directories[i].path, path) == 0;
    }
    if (shared != NULL)
        closedir(shared);
}

static void explain(struct watch_directory *directory, int error)
{
    struct stat status;

    directory->readable = false;
    if (error == ENOENT)
        snprintf(directory->reason, sizeof(directory->reason),
                 "does not exist yet: it appears with the first run");
    else if (error == EACCES && stat(directory->path, &status) == 0)
        snprintf(
            directory->reason, sizeof(directory->reason),
            "belongs to uid %u: run the server as that user, or start the job with "
            "TRAINGLASS_SHARE=group or all",
            (unsigned)status.st_uid);
    else
        snprintf(directory->reason, sizeof(directory->reason), "cannot be read: %s",
                 strerrorname_np(error));
}

static void scan_one(struct watch *watch, struct watch_directory *directory,
                     const char *suffix, watch_found *found, void *user)
{
    int fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *open_directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    uint32_t files = 0;

    if (open_directory == NULL) {
        explain(directory, errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    directory->readable = true;
    directory->reason[0] = '\0';
    /* Again each time: a directory that was removed and made anew is another one. */
    directory->descriptor =
        inotify_add_watch(watch->inotify, directory->path, INTERESTING);
    while ((entry = readdir(open_directory)) != NULL) {
        struct watch_file file = {.directory = directory->path, .name = entry->d_name};
        struct stat status;

        if (entry->d_name[0] == '.' || !has_suffix(entry->d_name, suffix) ||
            fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (files == WATCH_FILES_MAX) {
            directory->looked_at = WATCH_FILES_MAX;
            break;
        }
        int length = snprintf(file.path, sizeof(file.path), "%s/%s", directory->path,
                              entry->d_name);

        if (length < 0 || (size_t)length >= sizeof(file.path))
            continue;
        file.device = status.st_dev;
        file.inode = status.st_ino;
        files++;
        found(user, &file);
    }
    directory->segments = files;
    closedir(open_directory);
}

/* Said where the last one is that can be read: the others say why they cannot. */
static void tell_left_out(struct watch *watch)
{
    if (watch->users_left_out == 0 || watch->count == 0)
        return;
    struct watch_directory *last = &watch->directories[watch->count - 1];

    for (uint32_t i = watch->count; i-- > 0;)
        if (watch->directories[i].readable) {
            last = &watch->directories[i];
            break;
        }

    snprintf(last->reason, sizeof(last->reason),
             "the last of the %u folders that are watched; those of %u more users are "
             "not: TRAINGLASS_DIR names one",
             STATE_WATCHES, watch->users_left_out);
}

void watch_scan(struct watch *watch, const char *suffix, watch_found *found, void *user)
{
    if (watch->all_users)
        find_users(watch);
    for (uint32_t i = 0; i < watch->count; i++)
        scan_one(watch, &watch->directories[i], suffix, found, user);
    tell_left_out(watch);
}
