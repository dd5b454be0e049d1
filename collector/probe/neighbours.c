#include "probe/neighbours.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/clock.h"

#define KEEP_SESSIONS   4u
#define KEEP_SECONDS    (INT64_C(24) * 3600)
#define KEEP_WORKERS    64u /* 16 MiB; as many live at once on a large machine */
#define WORKER_SECONDS  60  /* a server reads within one */
#define TEMPORARY_GRACE 60  /* seconds: nobody takes so long to make a segment */

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);

    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

/* Opens a name of the directory if it is a plain file of ours. */
static int open_ours(int directory, const char *name, struct stat *status)
{
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, status) == 0 && S_ISREG(status->st_mode) &&
        status->st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

/* Whoever lives in a segment holds LOCK_EX. */
static bool is_locked(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return true;
    (void)flock(fd, LOCK_UN);
    return false;
}

static void examine(struct neighbours *neighbours, const char *name)
{
    struct neighbour *one = &neighbours->list[neighbours->count];
    struct wire_header header;
    struct stat status;
    int fd = open_ours(neighbours->directory, name, &status);

    if (fd < 0)
        return;
    *one = (struct neighbour){
        .bytes = (uint64_t)status.st_size, .modified_s = status.st_mtime, .rank = -1};
    (void)snprintf(one->file, sizeof(one->file), "%s", name);
    one->alive = is_locked(fd);
    if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.magic == WIRE_MAGIC) {
        one->ours = true;
        one->rank = header.rank;
        one->role = header.role;
        memcpy(one->session, header.session, sizeof(one->session) - 1);
    }
    close(fd);
    char done[64];

    (void)snprintf(done, sizeof(done), "%.*s.done", (int)(strlen(name) - 4), name);
    one->folded = faccessat(neighbours->directory, done, F_OK, 0) == 0;
    neighbours->count++;
}

/* A process that was killed between making and naming its segment. */
static void drop_stale_temporary(int directory, const char *name)
{
    struct stat status;
    int fd = open_ours(directory, name, &status);

    if (fd < 0)
        return;
    int64_t now_s = (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000000u);

    /* Age first: our lock, however short, would be in the way of one that is being made. */
    if (now_s - status.st_mtime > TEMPORARY_GRACE && !is_locked(fd))
        (void)unlinkat(directory, name, 0);
    close(fd);
}

int neighbours_open(struct neighbours *neighbours, const char *directory)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;

    neighbours->count = 0;
    neighbours->directory = -1;
    if (stream == NULL)
        return -errno;
    neighbours->directory = fcntl(dirfd(stream), F_DUPFD_CLOEXEC, 0);
    while (neighbours->directory >= 0 && neighbours->count < NEIGHBOURS_MAX &&
           /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
           (entry = readdir(stream)) != NULL) {
        if (ends_with(entry->d_name, ".seg") &&
            strlen(entry->d_name) < sizeof(neighbours->list[0].file))
            examine(neighbours, entry->d_name);
        else if (ends_with(entry->d_name, ".tmp"))
            drop_stale_temporary(neighbours->directory, entry->d_name);
    }
    closedir(stream);
    return neighbours->directory >= 0 ? 0 : -EMFILE;
}

void neighbours_close(struct neighbours *neighbours)
{
    if (neighbours->directory >= 0)
        close(neighbours->directory);
    neighbours->directory = -1;
}

/* 1 for "<id>", n for "<id>.<n>", 0 for another session. */
static uint32_t generation_of(const char *session, const char *id)
{
    size_t length = strlen(id);
    char *end = NULL;

    if (strncmp(session, id, length) != 0)
        return 0;
    if (session[length] == '\0')
        return 1;
    if (session[length] != '.')
        return 0;
    unsigned long generation = strtoul(session + length + 1, &end, 10);

    return *end == '\0' && generation > 1 && generation < 1000000 ? (uint32_t)generation
                                                                  : 0;
}

void neighbours_session(const struct neighbours *neighbours,
                        const struct identity *identity, char *session)
{
    uint32_t newest = 1;
    bool ended = false;

    for (uint32_t i = 0; i < neighbours->count; i++) {
        const struct neighbour *one = &neighbours->list[i];
        uint32_t generation = generation_of(one->session, identity->session);

        if (generation == 0 || !one->ours || one->role == WIRE_ROLE_WORKER)
            continue;
        if (generation > newest) {
            newest = generation;
            ended = false;
        }
        if (generation == newest && one->rank == identity->rank &&
            one->role == WIRE_ROLE_TRAINER && !one->alive)
            ended = true;
    }
    if (ended && identity->role == WIRE_ROLE_TRAINER)
        newest++;
    if (newest == 1)
        (void)snprintf(session, WIRE_TEXT, "%s", identity->session);
    else
        (void)snprintf(session, WIRE_TEXT, "%.52s.%u", identity->session, newest);
}

uint64_t neighbours_job_bytes(const struct neighbours *neighbours, const char *session)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < neighbours->count; i++)
        if (neighbours->list[i].alive &&
            strcmp(neighbours->list[i].session, session) == 0)
            bytes += neighbours->list[i].bytes;
    return bytes;
}

/* Newest first. */
static int by_age(const void *a, const void *b)
{
    const struct neighbour *left = a, *right = b;

    return (left->modified_s < right->modified_s) -
           (left->modified_s > right->modified_s);
}

/* What lies beside <random>.seg, and goes with it. */
static const char *const companions[] = {".ctl", ".stacks", ".done", ".win", NULL};

static void delete_segment(const struct neighbours *neighbours,
                           const struct neighbour *one)
{
    int stem = (int)(strlen(one->file) - 4);
    char name[64];

    (void)unlinkat(neighbours->directory, one->file, 0);
    for (int i = 0; companions[i] != NULL; i++) {
        (void)snprintf(name, sizeof(name), "%.*s%s", stem, one->file, companions[i]);
        (void)unlinkat(neighbours->directory, name, 0);
    }
}

/* A server that had read a segment may have marked it after it went. Asked of the folder,
 * not of our list: others come meanwhile, and each names its segment first. */
static bool is_stray(const struct neighbours *neighbours, const char *name)
{
    char segment[64];

    for (int i = 0; companions[i] != NULL; i++) {
        if (!ends_with(name, companions[i]) || strlen(name) + 5 > sizeof(segment))
            continue;
        (void)snprintf(segment, sizeof(segment), "%.*s.seg",
                       (int)(strlen(name) - strlen(companions[i])), name);
        return faccessat(neighbours->directory, segment, F_OK, AT_SYMLINK_NOFOLLOW) !=
                   0 &&
               errno == ENOENT;
    }
    return false;
}

static bool has_segment(const struct neighbours *neighbours, const char *id)
{
    for (uint32_t i = 0; i < neighbours->count; i++)
        if (neighbours->list[i].bytes > 0 &&
            generation_of(neighbours->list[i].session, id) != 0)
            return true;
    return false;
}

/* How a command ended is told beside its segments. A note without them, of a session
 * that went or of a command that never trained, is of no use to anybody. */
static bool is_idle_note(const struct neighbours *neighbours, const char *name)
{
    char id[WIRE_TEXT];

    if (neighbours->count == NEIGHBOURS_MAX /* not all were seen */ ||
        !ends_with(name, ".end") || strlen(name) - 4 >= sizeof(id))
        return false;
    (void)snprintf(id, sizeof(id), "%.*s", (int)(strlen(name) - 4), name);
    return !has_segment(neighbours, id);
}

static void drop_notes(const struct neighbours *neighbours)
{
    int directory = fcntl(neighbours->directory, F_DUPFD_CLOEXEC, 0);
    DIR *stream = directory < 0 ? NULL : fdopendir(directory);
    struct dirent *entry;

    if (stream == NULL) {
        if (directory >= 0)
            close(directory);
        return;
    }
    rewinddir(stream);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
    while ((entry = readdir(stream)) != NULL) {
        struct stat status;
        int fd = is_idle_note(neighbours, entry->d_name) ||
                         is_stray(neighbours, entry->d_name)
                     ? open_ours(neighbours->directory, entry->d_name, &status)
                     : -1;

        if (fd < 0)
            continue;
        (void)unlinkat(neighbours->directory, entry->d_name, 0);
        close(fd);
    }
    closedir(stream);
}

static bool session_alive(const struct neighbours *neighbours, const char *session)
{
    for (uint32_t i = 0; i < neighbours->count; i++)
        if (neighbours->list[i].alive &&
            strcmp(neighbours->list[i].session, session) == 0)
            return true;
    return false;
}

/* Numbers the sessions by age: those that live first (all 0), then the ended ones from
 * 1, the newest. The list is sorted. */
static void number_sessions(struct neighbours *neighbours)
{
    uint32_t ended = 0;

    for (uint32_t i = 0; i < neighbours->count; i++) {
        struct neighbour *one = &neighbours->list[i];
        uint32_t earlier = 0;

        while (earlier < i &&
               strcmp(neighbours->list[earlier].session, one->session) != 0)
            earlier++;
        if (earlier < i)
            one->age = neighbours->list[earlier].age;
        else
            one->age = session_alive(neighbours, one->session) ? 0 : ++ended;
    }
}

static uint64_t remove_one(const struct neighbours *neighbours, struct neighbour *one)
{
    uint64_t bytes = one->bytes;

    delete_segment(neighbours, one);
    one->bytes = 0;
    one->age = 0;
    return bytes;
}

/* Loaders start workers anew for each epoch. Of those that ended in a session that lives
 * the newest stay. */
static uint64_t drop_workers(struct neighbours *neighbours, int64_t now_s)
{
    uint64_t won = 0;
    uint32_t ended = 0;

    for (uint32_t i = 0; i < neighbours->count; i++) {
        struct neighbour *one = &neighbours->list[i];

        if (!one->ours || one->age != 0 || one->alive || one->role != WIRE_ROLE_WORKER)
            continue;
        if (++ended > KEEP_WORKERS && now_s - one->modified_s > WORKER_SECONDS)
            won += remove_one(neighbours, one);
    }
    return won;
}

uint32_t neighbours_clean(struct neighbours *neighbours, uint64_t bytes_max,
                          uint64_t bytes_needed)
{
    int64_t now_s = (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000000u);
    uint64_t kept = 0, won;
    uint32_t unfolded = 0;

    qsort(neighbours->list, neighbours->count, sizeof(neighbours->list[0]), by_age);
    number_sessions(neighbours);
    won = drop_workers(neighbours, now_s);
    for (uint32_t i = 0; i < neighbours->count; i++) {
        struct neighbour *one = &neighbours->list[i];

        if (!one->ours || one->age == 0)
            continue;
        kept += one->bytes;
        bool old = one->age > KEEP_SESSIONS || kept > bytes_max ||
                   now_s - one->modified_s > KEEP_SECONDS;

        if (one->age > 1 && one->folded && old) {
            kept -= one->bytes;
            won += remove_one(neighbours, one);
        }
    }
    for (uint32_t i = neighbours->count; i-- > 0 && won < bytes_needed;) {
        struct neighbour *one = &neighbours->list[i];

        if (!one->ours || one->age == 0)
            continue;
        unfolded += !one->folded;
        won += remove_one(neighbours, one);
    }
    drop_notes(neighbours);
    return unfolded;
}
