#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/trace/feed/feed.h"
#include "ingest/trace/feed/magic.h"

#define IN_BYTES ((size_t)256 * 1024)
/* A pipe of 64 KiB makes both ends wait for each other; beyond the user's limit it stays
 * as it is. */
#define PIPE_BYTES (1024 * 1024)

/* The first thing that went wrong. */
PRINTF(2, 3) static void say(struct fill *fill, const char *format, ...)
{
    va_list arguments;

    if (fill->report.error[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(fill->report.error, sizeof(fill->report.error), format, arguments);
    va_end(arguments);
}

int fill_open(struct fill *fill)
{
    fill->descriptor = -1;
    fill->in = aligned_alloc(4096, IN_BYTES);
    fill->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fill->in == NULL || fill->wake < 0 ? -ENOMEM : 0;
}

void fill_close(struct fill *fill)
{
    if (fill->is_ours)
        close(fill->descriptor);
    if (fill->wake > 0) /* 0: never opened */
        close(fill->wake);
    inflater_free(fill->inflater);
    free(fill->in);
}

int fill_open_descriptor(struct fill *fill, int descriptor)
{
    struct stat status;

    if (fstat(descriptor, &status) != 0) {
        int error = errno;

        say(fill, "%s", strerror(error));
        return -error;
    }
    if (S_ISDIR(status.st_mode)) {
        say(fill, "is a folder");
        return -EISDIR;
    }
    fill->descriptor = descriptor;
    fill->may_wait = !S_ISREG(status.st_mode);
    if (fill->may_wait)
        (void)fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES);
    /* A file that grows while it is read is read as long as it is now; files of /proc
     * say 0. */
    off_t at = S_ISREG(status.st_mode) ? lseek(descriptor, 0, SEEK_CUR) : 0;

    fill->has_size = S_ISREG(status.st_mode) && status.st_size > 0;
    if (fill->has_size && at >= 0 && at <= status.st_size)
        fill->bytes_left = (uint64_t)(status.st_size - at);
    atomic_store_explicit(&fill->file_size, fill->bytes_left, memory_order_relaxed);
    return 0;
}

/* Such as /dev/zero, which never ends. Terminals are read. */
static bool is_device(int descriptor)
{
    struct stat status;

    return fstat(descriptor, &status) == 0 &&
           (S_ISBLK(status.st_mode) ||
            (S_ISCHR(status.st_mode) && !isatty(descriptor)));
}

int fill_open_path(struct fill *fill, const char *path)
{
    if (strcmp(path, "-") == 0)
        return fill_open_descriptor(fill, STDIN_FILENO);
    /* Without waiting for the other end of a FIFO: that can be cancelled. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (descriptor < 0) {
        int error = errno;

        say(fill, "%s", strerror(error));
        return -error;
    }
    int result = -ENOTSUP;

    if (is_device(descriptor))
        say(fill, "is a device, not a file");
    else
        result = fill_open_descriptor(fill, descriptor);
    fill->is_ours = result == 0;
    if (result != 0)
        close(descriptor);
    return result;
}

void fill_open_bytes(struct fill *fill, const void *bytes, size_t size)
{
    fill->bytes = bytes;
    fill->bytes_left = size;
    fill->has_size = true;
    atomic_store_explicit(&fill->file_size, size, memory_order_relaxed);
}

/* Until there is something to read; -ECANCELED when it is no longer wanted. */
static int wait_readable(struct fill *fill)
{
    struct pollfd ready[2] = {{fill->descriptor, POLLIN, 0}, {fill->wake, POLLIN, 0}};

    while (!atomic_load_explicit(&fill->cancelled, memory_order_relaxed)) {
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (ready[0].revents != 0)
            return 0;
    }
    return -ECANCELED;
}

/* Bytes read, 0 at the end, or a negative errno. */
static ssize_t read_some(struct fill *fill, void *to, size_t size)
{
    ssize_t got;

    if (fill->source.read != NULL) {
        uint64_t packed_bytes = 0;

        /* Counted as it lies in the file: bombs are told by it. */
        got = fill->source.read(fill->source.user, to, size, &packed_bytes);
        atomic_fetch_add_explicit(&fill->file_bytes, packed_bytes,
                                  memory_order_relaxed);
        return got;
    }
    if (fill->has_size && size > fill->bytes_left)
        size = (size_t)fill->bytes_left;
    if (fill->descriptor < 0) {
        if (size > 0)
            memcpy(to, fill->bytes, size);
        fill->bytes += size;
        got = (ssize_t)size;
    } else if (size == 0) {
        return 0;
    } else {
        do {
            int waited = fill->may_wait ? wait_readable(fill) : 0;

            if (waited < 0)
                return waited;
            got = read(fill->descriptor, to, size);
        } while (got < 0 && (errno == EINTR || (errno == EAGAIN && fill->may_wait)));
    }
    if (got < 0)
        return -errno;
    if (got == 0 && fill->has_size && fill->bytes_left > 0) {
        fill->report.is_cut = true;
        say(fill, "the file became shorter while it was read");
    }
    if (fill->has_size)
        fill->bytes_left -= (uint64_t)got;
    atomic_fetch_add_explicit(&fill->file_bytes, (uint64_t)got, memory_order_relaxed);
    return got;
}

/* The end, whatever is still to come. */
static void stop_at(struct fill *fill, ssize_t got)
{
    fill->at_end = true;
    if (got >= 0)
        return;
    /* -EBADMSG is of what is no trace: of damage what came before counts. */
    fill->error = got == -EBADMSG ? -EIO : (int)got;
    fill->report.is_cut = true;
    say(fill, "reading failed: %s",
        got == -EBADMSG ? "the archive is damaged here, or cut"
        : got == -EFBIG ? "it inflates to more than 300 times its size"
                        : strerror((int)-got));
}

/* More into `in`, behind what is left there; at least `wanted` bytes unless it ends. */
static void read_in(struct fill *fill, size_t wanted)
{
    memmove(fill->in, fill->in + fill->in_at, fill->in_left);
    fill->in_at = 0;
    while (fill->in_left < wanted && !fill->at_end) {
        ssize_t got =
            read_some(fill, fill->in + fill->in_left, IN_BYTES - fill->in_left);

        if (got <= 0)
            stop_at(fill, got);
        else
            fill->in_left += (size_t)got;
    }
}

static bool is_gzip(const struct fill *fill)
{
    return fill->in_left >= 2 && fill->in[fill->in_at] == 0x1f &&
           fill->in[fill->in_at + 1] == 0x8b;
}

static int look(struct fill *fill)
{
    fill->looked = true;
    read_in(fill, 8);
    if (fill->in_left == 0 || !is_gzip(fill))
        return fill->in_left == 0 ? fill->error : 0;
    fill->report.is_gzip = true;
    fill->inflater = inflater_new(true);
    return fill->inflater != NULL ? 0 : -ENOMEM;
}

/* Behind a member of a gzip file: another one, padding, or something foreign. */
static void next_member(struct fill *fill)
{
    for (;;) {
        if (fill->in_left < 2)
            read_in(fill, 2);
        if (fill->in_left == 0)
            return;
        if (fill->in[fill->in_at] != 0)
            break;
        fill->in_at++;
        fill->in_left--;
    }
    if (is_gzip(fill)) {
        inflater_again(fill->inflater);
        fill->between_members = false;
        return;
    }
    say(fill, "something that is no gzip stands behind the gzip: it was left out");
    fill->in_left = 0;
    fill->at_end = true;
}

static void inflate_failed(struct fill *fill, const char *why)
{
    fill->report.is_cut = true;
    say(fill, "%s, after %llu bytes of the file", why,
        (unsigned long long)(atomic_load_explicit(&fill->file_bytes,
                                                  memory_order_relaxed) -
                             fill->in_left));
    fill->in_left = 0;
    fill->at_end = true;
}

static void inflate_block(struct fill *fill, char *bytes, uint32_t *length)
{
    struct inflater_io io = {.out = (uint8_t *)bytes, .out_left = FEED_BLOCK_BYTES};

    while (io.out_left > 0) {
        if (fill->between_members)
            next_member(fill);
        if (fill->in_left == 0)
            read_in(fill, 1);
        if (fill->in_left == 0) {
            if (!fill->between_members && !fill->report.is_cut)
                inflate_failed(fill, "the gzip ends early");
            break;
        }
        size_t before = fill->in_left + io.out_left;

        io.in = fill->in + fill->in_at;
        io.in_left = fill->in_left;
        enum inflater_result result = inflater_run(fill->inflater, &io);

        fill->in_at += fill->in_left - io.in_left;
        fill->in_left = io.in_left;
        fill->between_members = result == INFLATER_END;
        if (result == INFLATER_BAD ||
            (result == INFLATER_MORE && before == fill->in_left + io.out_left)) {
            inflate_failed(fill, "the gzip is damaged");
            fill->between_members = true; /* nothing of it is expected any more */
        }
    }
    *length = FEED_BLOCK_BYTES - (uint32_t)io.out_left;
}

/* What was read of `in`, at most `size`. */
static size_t take_in(struct fill *fill, void *to, size_t size)
{
    size_t taken = fill->in_left < size ? fill->in_left : size;

    if (to != NULL)
        memcpy(to, fill->in + fill->in_at, taken);
    fill->in_at += taken;
    fill->in_left -= taken;
    return taken;
}

static void leap(struct fill *fill, uint64_t size)
{
    uint64_t left = size - take_in(fill, NULL, size);

    fill->at += size;
    if (left == 0)
        return;
    if (left > fill->bytes_left || lseek(fill->descriptor, (off_t)left, SEEK_CUR) < 0) {
        fill->report.is_cut = true;
        say(fill, "the file became shorter while it was read");
        stop_at(fill, 0);
        return;
    }
    fill->bytes_left -= left;
    atomic_fetch_add_explicit(&fill->file_bytes, left, memory_order_relaxed);
}

/* How much of `size` stands before the next hole, having leapt over one that is here. */
static size_t until_hole(struct fill *fill, size_t size)
{
    /* Only files say their size and can be gone through with a stride. */
    if (fill->hole_count == 0 || fill->descriptor < 0 || !fill->has_size)
        return size;
    while (fill->hole_count > 0 && fill->holes->from <= fill->at) {
        leap(fill, fill->holes->to - fill->at);
        fill->holes++;
        fill->hole_count--;
    }
    if (fill->hole_count > 0 && fill->holes->from - fill->at < size)
        return (size_t)(fill->holes->from - fill->at);
    return size;
}

static void read_block(struct fill *fill, char *bytes, uint32_t *length)
{
    size_t have = 0;

    while (have < FEED_BLOCK_BYTES && (fill->in_left > 0 || !fill->at_end)) {
        size_t wanted = until_hole(fill, FEED_BLOCK_BYTES - have);
        ssize_t got = (ssize_t)take_in(fill, bytes + have, wanted);

        if (got == 0 && !fill->at_end)
            got = read_some(fill, bytes + have, wanted);
        if (got <= 0) {
            stop_at(fill, got);
            continue;
        }
        have += (size_t)got;
        fill->at += (uint64_t)got;
    }
    *length = (uint32_t)have;
}

int fill_block(struct fill *fill, char *bytes, uint32_t *length)
{
    int result = 0;

    *length = 0;
    if (atomic_load_explicit(&fill->cancelled, memory_order_relaxed))
        return -ECANCELED;
    if (!fill->looked)
        result = look(fill);
    if (result != 0)
        return result;
    if (fill->inflater != NULL)
        inflate_block(fill, bytes, length);
    else
        read_block(fill, bytes, length);
    /* What is no trace by its first bytes, also within gzip. */
    const char *refused =
        fill->report.text_bytes == 0 ? magic_sentence(bytes, *length) : NULL;

    if (refused != NULL) {
        say(fill, "%s", refused);
        result = -EBADMSG;
    }
    fill->report.text_bytes += *length;
    if (result != 0 || fill->error == -ECANCELED)
        return result != 0 ? result : -ECANCELED;
    return *length > 0 ? 1 : fill->error;
}

void fill_position(const struct fill *fill, uint64_t *file_bytes, uint64_t *of)
{
    *file_bytes = atomic_load_explicit(&fill->file_bytes, memory_order_relaxed);
    *of = atomic_load_explicit(&fill->file_size, memory_order_relaxed);
}

void fill_cancel(struct fill *fill)
{
    const uint64_t one = 1;

    atomic_store_explicit(&fill->cancelled, true, memory_order_relaxed);
    if (write(fill->wake, &one, sizeof(one)) < 0)
        return; /* full: it was woken already */
}
