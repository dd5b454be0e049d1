/* Directories in which segments appear: asked of the kernel (inotify) and looked
 * through from time to time, for a file system may not tell. */
#ifndef INGEST_WATCH_H
#define INGEST_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "aggregate/state.h"

struct watch_directory {
    char path[WIRE_DIRECTORY_BYTES];
    int descriptor; /* of inotify; -1 not watched */
    bool own;       /* found under /dev/shm, not asked for */
    bool readable;
    char reason[160];
    uint32_t segments;
    uint32_t
        looked_at; /* how many of its files, where a scan left others out; else 0 */
    bool crowded;  /* a scan left files out because the store is full */
};

struct watch {
    int inotify;
    int shared; /* descriptor of /dev/shm itself, in which users' folders appear; or -1 */
    bool all_users;
    struct watch_directory directories[STATE_WATCHES];
    uint32_t count;
    uint32_t
        users_left_out; /* folders of users beyond STATE_WATCHES, at the last scan */
};

struct watch_file {
    const char *directory, *name; /* of the last part */
    char path[WIRE_PATH_BYTES];
    dev_t device;
    ino_t inode;
};

/* 0, or negative errno. */
MUST_CHECK int watch_open(struct watch *watch, bool all_users);
void watch_close(struct watch *watch);

/* False when there are too many or the path is too long. */
MUST_CHECK bool watch_add(struct watch *watch, const char *path);

/* Reads what the kernel told; true when something that a scan looks for may have appeared
 * or gone: not for what others do beside it. */
bool watch_told(struct watch *watch);

#define WATCH_FILES_MAX 4096u /* more in one directory are somebody's mistake */

/* Calls `found` for every regular file that ends in `suffix`, up to WATCH_FILES_MAX of each
 * directory. */
typedef void watch_found(void *user, const struct watch_file *file);
void watch_scan(struct watch *watch, const char *suffix, watch_found *found,
                void *user);

#endif
