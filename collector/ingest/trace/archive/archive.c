#include "ingest/trace/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/trace/archive/parts.h"
#include "ingest/trace/feed/magic.h"
#include "ingest/trace/grow.h"
#include "wire/text.h"

bool archive_is_trace(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash == NULL ? name : slash + 1;

    return *base != '.' && (text_ends(base, ".json") || text_ends(base, ".json.gz"));
}

/* Archives inside of archives are not opened. */
static void note_inner(struct archive *archive, const char *name)
{
    static const char *const ends[] = {".zip", ".tar", ".tar.gz", ".tgz"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (archive->note[0] == '\0' && text_ends(name, ends[i]))
            (void)snprintf(archive->note, sizeof(archive->note),
                           "holds an archive, %.80s: what is in it is left out", name);
}

int archive_add(struct archive *archive, const char *name,
                const struct archive_member *member)
{
    if (!archive_is_trace(name)) {
        if (archive->others++ == 0)
            (void)snprintf(archive->other, sizeof(archive->other), "%s", name);
        note_inner(archive, name);
        return 0;
    }
    if (archive->count == ARCHIVE_MEMBERS_MAX) {
        (void)snprintf(archive->note, sizeof(archive->note),
                       "holds more than %u traces: the rest is left out",
                       ARCHIVE_MEMBERS_MAX);
        return 0;
    }
    if (!grow_array(&archive->members, archive->count, &archive->capacity, 16,
                    sizeof(*archive->members)))
        return -ENOMEM;
    struct archive_member *added = &archive->members[archive->count];

    *added = *member;
    added->name = strdup(name);
    archive->count += added->name != NULL;
    return added->name != NULL ? 0 : -ENOMEM;
}

static int by_name(const void *left, const void *right)
{
    const struct archive_member *a = left, *b = right;

    return strverscmp(a->name, b->name);
}

/* The first block of the file, inflated where it is gzip; false where it has none. */
static bool is_tar(struct archive *archive, enum stream_packing packing, int *error)
{
    unsigned char block[TAR_BLOCK];

    stream_close(&archive->tar);
    *error = stream_open(&archive->tar, archive->descriptor, 0, archive->file_bytes,
                         packing);
    archive->tar.stop = archive->stop;
    int failed =
        *error == 0 ? stream_read_all(&archive->tar, block, sizeof(block)) : *error;

    *error = failed == -ECANCELED ? failed : *error;
    return failed == 0 && tar_is_header(block);
}

/* 1 when the list could be made, 0 when it is no archive, or a negative errno. */
static int list(struct archive *archive)
{
    unsigned char first[4] = {0};
    int error = 0;

    if (pread(archive->descriptor, first, sizeof(first), 0) != sizeof(first))
        return 0;
    archive->is_zip =
        memcmp(first, "PK\3\4", 4) == 0 || memcmp(first, "PK\5\6", 4) == 0;
    if (archive->is_zip) {
        error = zip_list(archive);
    } else {
        bool gzip = first[0] == 0x1f && first[1] == 0x8b;

        if (!is_tar(archive, gzip ? STREAM_GZIP : STREAM_PLAIN, &error))
            return error;
        error = stream_go_to(&archive->tar, 0);
        if (error == 0)
            error = tar_list(archive);
    }
    return error == 0 ? 1 : error;
}

static void say_failed(const struct archive *archive, int result, char *error)
{
    const char *kind = archive->is_zip ? "zip" : "tar";

    if (result == 1 && archive->note[0] != '\0')
        (void)snprintf(error, ARCHIVE_ERROR_BYTES,
                       "is a %s archive without a trace: %.200s", kind, archive->note);
    else if (result == 1 && archive->others > 0)
        (void)snprintf(
            error, ARCHIVE_ERROR_BYTES,
            "is a %s archive without a trace (.json, .json.gz): it holds %llu "
            "other files, such as %.80s",
            kind, (unsigned long long)archive->others, archive->other);
    else if (result == 1)
        (void)snprintf(error, ARCHIVE_ERROR_BYTES, "is an empty %s archive", kind);
    else
        (void)snprintf(
            error, ARCHIVE_ERROR_BYTES, "is a %s archive that cannot be read: %s", kind,
            result == -EBADMSG || result == -ENODATA ? "it is damaged, or cut"
            : result == -EFBIG ? "it inflates to more than 300 times its size"
                               : strerror(-result));
}

int archive_open(struct archive **opened, const char *path,
                 const struct stream_stop *stop, char error[ARCHIVE_ERROR_BYTES])
{
    struct archive *archive = calloc(1, sizeof(*archive));
    struct stat status;
    int result = 0;

    *opened = NULL;
    if (archive == NULL)
        return -ENOMEM;
    archive->stop = *stop;
    archive->tar.descriptor = archive->zip.descriptor = archive->descriptor = -1;
    /* Who writes to a pipe must not see a reader come and go. */
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
        archive->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (archive->descriptor >= 0 && fstat(archive->descriptor, &status) == 0 &&
        S_ISREG(status.st_mode) && status.st_size > 0) {
        archive->file_bytes = (uint64_t)status.st_size;
        result = list(archive);
    }
    if (result == 1 && archive->count > 0) {
        qsort(archive->members, archive->count, sizeof(*archive->members), by_name);
        *opened = archive;
        return 0;
    }
    if (result != 0)
        say_failed(archive, result, error);
    archive_close(archive);
    return result == 1 ? -ENODATA : result;
}

void archive_close(struct archive *archive)
{
    if (archive == NULL)
        return;
    for (uint32_t i = 0; i < archive->count; i++)
        free(archive->members[i].name);
    free(archive->members);
    stream_close(&archive->tar);
    stream_close(&archive->zip);
    if (archive->descriptor >= 0)
        close(archive->descriptor);
    free(archive);
}

uint32_t archive_count(const struct archive *archive)
{
    return archive->count;
}

const char *archive_name(const struct archive *archive, uint32_t member)
{
    return archive->members[member].name;
}

struct placed {
    uint64_t at;
    uint32_t member;
};

static int by_place(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;

    return a->at < b->at ? -1 : a->at > b->at;
}

void archive_order(const struct archive *archive, uint32_t *members)
{
    bool packed = !archive->is_zip && archive->tar.packing != STREAM_PLAIN;
    struct placed *placed = packed ? calloc(archive->count, sizeof(*placed)) : NULL;

    for (uint32_t i = 0; i < archive->count; i++)
        members[i] = i;
    if (placed == NULL)
        return;
    for (uint32_t i = 0; i < archive->count; i++)
        placed[i] = (struct placed){archive->members[i].at, i};
    qsort(placed, archive->count, sizeof(*placed), by_place);
    for (uint32_t i = 0; i < archive->count; i++)
        members[i] = placed[i].member;
    free(placed);
}

uint64_t archive_file_bytes(const struct archive *archive)
{
    return archive->file_bytes;
}

const char *archive_note(const struct archive *archive)
{
    return archive->note;
}

int archive_enter(struct archive *archive, uint32_t member)
{
    const struct archive_member *entered = &archive->members[member];

    if (archive->is_zip)
        return zip_enter(archive, entered);
    archive->left = entered->size;
    int error = stream_go_to(&archive->tar, entered->at);

    return error == -ENODATA ? -EBADMSG : error;
}

ssize_t archive_read(struct archive *archive, void *to, size_t size,
                     uint64_t *packed_bytes)
{
    struct stream *stream = archive->is_zip ? &archive->zip : &archive->tar;
    uint64_t before = stream->in_at - stream->in_left;

    if (!archive->is_zip && size > archive->left)
        size = (size_t)archive->left;
    ssize_t got = stream_read(stream, to, size);

    *packed_bytes += stream->in_at - stream->in_left - before;
    if (!archive->is_zip && got > 0)
        archive->left -= (uint64_t)got;
    return got == 0 && size > 0 && !archive->is_zip ? -EBADMSG : got;
}
