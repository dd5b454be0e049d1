/* Blocks to a descriptor, through zlib where the name says so. */
#include "cut/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As for downloads: twice the speed of level 6 for a tenth more bytes. */
#define LEVEL 1

_Static_assert(OUTPUT_PATH_BYTES >= PATH_MAX, "realpath() writes so many");

static int begin_packing(struct output_file *output)
{
    memset(&output->packer, 0, sizeof(output->packer));
    return !output->gzip || deflateInit2(&output->packer, LEVEL, Z_DEFLATED, 15 + 16, 8,
                                         Z_DEFAULT_STRATEGY) == Z_OK
               ? 0
               : -ENOMEM;
}

/* A new file beside `path`, with the rights that any new file gets. */
static int open_temporary(struct output_file *output)
{
    mode_t mask = umask(0);

    umask(mask);
    snprintf(output->temporary, sizeof(output->temporary), "%s.XXXXXX", output->path);
    output->descriptor = mkostemp(output->temporary, O_CLOEXEC);
    if (output->descriptor < 0)
        return -errno;
    output->is_temporary = true;
    return fchmod(output->descriptor, 0666 & ~mask) == 0 ? 0 : -errno;
}

static int open_path(struct output_file *output, const char *path)
{
    struct stat status;
    int exists = stat(path, &status);

    if (strcmp(path, "-") == 0) {
        output->descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        return output->descriptor >= 0 ? 0 : -errno;
    }
    if (exists == 0 && S_ISDIR(status.st_mode))
        return -EISDIR;
    if (exists == 0 && !S_ISREG(status.st_mode)) {
        output->descriptor = open(path, O_WRONLY | O_CLOEXEC);
        return output->descriptor >= 0 ? 0 : -errno;
    }
    /* Behind a symbolic link the file itself is replaced. */
    if (exists == 0 && realpath(path, output->path) == NULL)
        return -errno;
    if (exists != 0 && strlen(path) >= sizeof(output->path))
        return -ENAMETOOLONG;
    if (exists != 0)
        memcpy(output->path, path, strlen(path) + 1);
    return open_temporary(output);
}

int output_file_open_plain(struct output_file *output, const char *path)
{
    memset(output, 0, sizeof(*output));
    output->descriptor = -1;
    output->block = malloc(OUTPUT_FILE_BYTES);
    return output->block == NULL ? -ENOMEM : open_path(output, path);
}

int output_file_open(struct output_file *output, const char *path)
{
    size_t length = strlen(path);
    int error = output_file_open_plain(output, path);

    output->gzip = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    return error != 0 ? error : begin_packing(output);
}

static void write_out(struct output_file *output, const char *data, size_t size)
{
    if (output->error == 0 && output->max_bytes > 0 &&
        size > output->max_bytes - output->bytes)
        output->error = -EFBIG;
    while (size > 0 && output->error == 0) {
        ssize_t written = write(output->descriptor, data, size);

        if (written < 0 && errno != EINTR)
            output->error = -errno;
        if (written < 0)
            continue;
        data += written;
        size -= (size_t)written;
        output->bytes += (uint64_t)written;
    }
}

static void flush(struct output_file *output)
{
    write_out(output, output->block, output->held);
    output->held = 0;
}

static void pack(struct output_file *output, const void *data, size_t size, int mode)
{
    z_stream *packer = &output->packer;
    int result = Z_OK;

    packer->next_in = (Bytef *)(uintptr_t)data;
    packer->avail_in = (uInt)size;
    while (output->error == 0 && result == Z_OK &&
           (packer->avail_in > 0 || mode == Z_FINISH)) {
        packer->next_out = (Bytef *)output->block + output->held;
        packer->avail_out = (uInt)(OUTPUT_FILE_BYTES - output->held);
        result = deflate(packer, mode);
        output->held = OUTPUT_FILE_BYTES - packer->avail_out;
        if (output->max_bytes > 0 && packer->total_out > output->max_bytes)
            output->error = -EFBIG;
        if (output->held == OUTPUT_FILE_BYTES)
            flush(output);
    }
}

void output_file_write(struct output_file *output, const void *data, size_t size)
{
    const char *bytes = data;

    if (output->gzip) {
        pack(output, data, size, Z_NO_FLUSH);
        return;
    }
    if (size > OUTPUT_FILE_BYTES - output->held)
        flush(output);
    if (size > OUTPUT_FILE_BYTES) {
        write_out(output, bytes, size);
        return;
    }
    memcpy(output->block + output->held, bytes, size);
    output->held += size;
}

int output_file_finish(struct output_file *output)
{
    if (output->gzip)
        pack(output, "", 0, Z_FINISH);
    flush(output);
    return output->error;
}

int output_file_restart(struct output_file *output)
{
    if (!output->is_temporary)
        return -ESPIPE;
    if (ftruncate(output->descriptor, 0) != 0 ||
        lseek(output->descriptor, 0, SEEK_SET) != 0)
        return -errno;
    output->held = 0;
    output->bytes = 0;
    output->error = 0;
    if (output->gzip)
        deflateEnd(&output->packer);
    return begin_packing(output);
}

int output_file_keep(struct output_file *output)
{
    int failed = close(output->descriptor) != 0 ? -errno : 0;

    output->descriptor = -1;
    if (failed != 0 || !output->is_temporary)
        return failed;
    if (rename(output->temporary, output->path) != 0)
        return -errno;
    output->is_temporary = false;
    return 0;
}

void output_file_close(struct output_file *output)
{
    if (output->gzip)
        deflateEnd(&output->packer);
    if (output->descriptor >= 0)
        close(output->descriptor);
    if (output->is_temporary)
        unlink(output->temporary);
    free(output->block);
    output->block = NULL;
    output->descriptor = -1;
    output->is_temporary = false;
}
