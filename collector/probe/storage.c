#include "probe/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "wire/segment.h"

/* A page is 4 KiB or 64 KiB on the machines we know: sizes fit both. */
#define SIZE_UNIT (UINT64_C(64) * 1024)

static int refuse(const char *sentence, const char **reason)
{
    int error = errno != 0 ? errno : EINVAL;

    *reason = sentence;
    return -error;
}

enum storage_share storage_share_parse(const char *text)
{
    if (text != NULL && strcmp(text, "group") == 0)
        return STORAGE_GROUP;
    if (text != NULL && strcmp(text, "all") == 0)
        return STORAGE_ALL;
    return STORAGE_OWNER;
}

static mode_t file_mode(enum storage_share share)
{
    return share == STORAGE_ALL ? 0644 : share == STORAGE_GROUP ? 0640 : 0600;
}

static mode_t directory_mode(enum storage_share share)
{
    return share == STORAGE_ALL ? 0755 : share == STORAGE_GROUP ? 0750 : 0700;
}

/* A directory of ours is one that we own, is no link, and that only we may write. */
static int check_directory(const char *path, enum storage_share share,
                           const char **reason)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return refuse("the directory for shared memory cannot be opened, or is a link",
                      reason);
    int got = fstat(fd, &status);

    if (got == 0 && status.st_uid == geteuid() &&
        (status.st_mode & 0777) != directory_mode(share) && share != STORAGE_OWNER)
        (void)fchmod(fd, directory_mode(share)); /* shown as it is when it fails */
    close(fd);
    if (got != 0)
        return refuse("the directory for shared memory cannot be examined", reason);
    errno = EPERM;
    if (status.st_uid != geteuid())
        return refuse("the directory for shared memory belongs to another user",
                      reason);
    if ((status.st_mode & 0022) != 0)
        return refuse("the directory for shared memory can be written by others",
                      reason);
    return 0;
}

int storage_open_directory(struct storage *storage, enum storage_share share,
                           const char **reason)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    const char *asked = getenv("TRAINGLASS_DIR");
    int length =
        asked != NULL && asked[0] != '\0'
            ? snprintf(storage->directory, sizeof(storage->directory), "%s", asked)
            : snprintf(storage->directory, sizeof(storage->directory),
                       "/dev/shm/trainglass-%u", (unsigned)geteuid());

    *reason = "";
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length >= sizeof(storage->directory))
        return refuse("TRAINGLASS_DIR is too long", reason);
    storage->lock_fd = -1;
    if (mkdir(storage->directory, directory_mode(share)) != 0 && errno != EEXIST)
        return refuse("the directory for shared memory cannot be made", reason);
    return check_directory(storage->directory, share, reason);
}

uint64_t storage_room(const struct storage *storage, uint64_t wanted,
                      uint64_t job_bytes, int32_t ranks)
{
    struct statvfs system;

    if (statvfs(storage->directory, &system) != 0)
        return 0;
    uint64_t unit = system.f_frsize, quarter = (uint64_t)system.f_blocks * unit / 4;
    uint64_t eighth = (uint64_t)system.f_bavail * unit / 8;
    uint64_t left = quarter > job_bytes ? quarter - job_bytes : 0;
    uint64_t room = wanted < eighth ? wanted : eighth;
    uint64_t parts = ranks > 1 ? (uint64_t)ranks + 1 : 1; /* one for launcher and workers */

    if (room > quarter / parts)
        room = quarter / parts;
    /* A tmpfs without a limit says that it has no blocks at all. */
    if (system.f_blocks == 0)
        room = wanted;
    else if (room > left)
        room = left;
    room = room / SIZE_UNIT * SIZE_UNIT;
    return room < WIRE_BYTES_MIN ? 0 : room;
}

uint64_t storage_limited(uint64_t room)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= room)
        return room;
    room = limit.rlim_cur / SIZE_UNIT * SIZE_UNIT;
    return room < WIRE_BYTES_MIN ? 0 : room;
}

uint64_t storage_capacity(const struct storage *storage)
{
    struct statvfs system;

    return statvfs(storage->directory, &system) == 0
               ? (uint64_t)system.f_blocks * system.f_frsize
               : 0;
}

static uint64_t random_word(void)
{
    uint64_t word = 0;

    if (getrandom(&word, sizeof(word), GRND_NONBLOCK) == (ssize_t)sizeof(word))
        return word;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^
           (uint64_t)getpid() << 20;
}

/* Is `fd` open on the segment's file? The job may have closed ours, and have got its
 * number for a file of its own. */
static bool is_ours(const struct storage *storage, int fd)
{
    struct stat status;

    return fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == storage->lock_inode &&
           status.st_dev == storage->lock_device;
}

/* The lock's descriptor is a second one, so that no mapping ever holds it. */
static int take_lock(const struct storage *storage, const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (!is_ours(storage, fd) || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void storage_hold(struct storage *storage)
{
    if (!is_ours(storage, storage->lock_fd))
        storage->lock_fd = take_lock(storage, storage->path);
}

bool storage_allocate(const struct storage *storage, uint64_t offset, uint64_t bytes)
{
    uint64_t before = offset % 4096;
    unsigned char *begin = storage->base + offset - before;

#ifdef MADV_POPULATE_WRITE
    /* Allocates and maps in one go, and says where a write would raise SIGBUS. */
    if (madvise(begin, bytes + before, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL) /* the kernel knows it (5.14), but there is no room */
        return false;
#else
    (void)begin;
#endif
    int fd = open(storage->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return false;
    int error = posix_fallocate(fd, (off_t)(offset - before), (off_t)(bytes + before));

    close(fd);
    return error == 0;
}

int storage_create(struct storage *storage, uint64_t bytes, uint64_t allocated,
                   enum storage_share share, const char **reason)
{
    uint64_t name = random_word();
    void *base = MAP_FAILED;
    struct stat status;

    storage->lock_fd = -1;
    storage->bytes = bytes;
    (void)snprintf(storage->path, sizeof(storage->path), "%s/%016llx.seg",
                   storage->directory, (unsigned long long)name);
    (void)snprintf(storage->temporary, sizeof(storage->temporary), "%s/%016llx.tmp",
                   storage->directory, (unsigned long long)name);
    int fd = open(storage->temporary,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return refuse("no file can be made in the directory for shared memory", reason);
    (void)fchmod(fd, file_mode(share)); /* whatever the umask says */
    *reason = "the file system does not lock files";
    if (fstat(fd, &status) != 0)
        goto fail;
    storage->lock_device = status.st_dev;
    storage->lock_inode = status.st_ino;
    storage->lock_fd = take_lock(storage, storage->temporary);
    if (storage->lock_fd < 0)
        goto fail;
    *reason = "shared memory is full";
    if (ftruncate(fd, (off_t)bytes) != 0)
        goto fail;
    errno = posix_fallocate(fd, 0, (off_t)allocated);
    if (errno != 0)
        goto fail;
    *reason = "the segment cannot be mapped";
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        goto fail;
    *reason = "the segment cannot be kept out of forked children";
    if (madvise(base, bytes, MADV_DONTFORK) != 0)
        goto fail;
    close(fd);
    storage->base = base;
    *reason = "";
    return 0;
fail:;
    int error = errno != 0 ? errno : EIO;

    if (base != MAP_FAILED)
        munmap(base, bytes);
    close(fd);
    storage_discard(storage);
    return -error;
}

int storage_publish(struct storage *storage, const char **reason)
{
    if (rename(storage->temporary, storage->path) != 0)
        return refuse("the segment cannot be named", reason);
    storage->temporary[0] = '\0';
    return 0;
}

void storage_discard(struct storage *storage)
{
    if (storage->temporary[0] != '\0')
        (void)unlink(storage->temporary);
    storage->temporary[0] = '\0';
    if (storage->base != NULL)
        munmap(storage->base, storage->bytes);
    storage->base = NULL;
    if (storage->lock_fd >= 0)
        close(storage->lock_fd);
    storage->lock_fd = -1;
}

void storage_forget(struct storage *storage)
{
    if (is_ours(storage, storage->lock_fd))
        close(storage->lock_fd);
    storage->lock_fd = -1;
    storage->base = NULL; /* not mapped here: MADV_DONTFORK */
    storage->temporary[0] = '\0';
}
