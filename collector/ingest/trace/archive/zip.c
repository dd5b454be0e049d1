/* zip: a list at the end of the file says where each member lies, also in those of 4 GB and
 * more (zip64). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/trace/archive/parts.h"

#define END_BYTES     22u
#define COMMENT_BYTES 65535u
#define LOCATOR_BYTES 20u
#define END64_BYTES   56u
#define ENTRY_BYTES   46u
#define LOCAL_BYTES   30u
#define IS_ENCRYPTED  1u
#define EXTRA_ZIP64   1u

static uint64_t number_at(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;

    while (size-- > 0)
        number = number << 8 | bytes[size];
    return number;
}

static int read_at(const struct archive *archive, uint64_t at, void *to, size_t size)
{
    struct stream stream;

    if (at > archive->file_bytes || size > archive->file_bytes - at)
        return -EBADMSG;
    int error = stream_open(&stream, archive->descriptor, at, size, STREAM_PLAIN);

    if (error == 0)
        error = stream_read_all(&stream, to, size);
    stream_close(&stream);
    return error;
}

struct directory {
    uint64_t at, size, count;
};

/* Where a zip64 says it: a record that a locator before the end points at. */
static int find_directory64(const struct archive *archive, uint64_t end_at,
                            struct directory *directory)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    int error = end_at < LOCATOR_BYTES
                    ? -EBADMSG
                    : read_at(archive, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES);

    if (error != 0 || memcmp(locator, "PK\6\7", 4) != 0)
        return -EBADMSG;
    error = read_at(archive, number_at(locator + 8, 8), end, END64_BYTES);
    if (error != 0 || memcmp(end, "PK\6\6", 4) != 0)
        return -EBADMSG;
    *directory = (struct directory){.at = number_at(end + 48, 8),
                                    .size = number_at(end + 40, 8),
                                    .count = number_at(end + 32, 8)};
    return 0;
}

static int find_directory(const struct archive *archive, struct directory *directory)
{
    size_t size = archive->file_bytes < END_BYTES + COMMENT_BYTES
                      ? (size_t)archive->file_bytes
                      : END_BYTES + COMMENT_BYTES;
    uint64_t from = archive->file_bytes - size;
    unsigned char *tail = malloc(size);
    int error = tail == NULL ? -ENOMEM : read_at(archive, from, tail, size);
    size_t at = size < END_BYTES ? 0 : size - END_BYTES + 1;

    while (error == 0 && at > 0 && memcmp(tail + at - 1, "PK\5\6", 4) != 0)
        at--;
    if (error == 0 && at == 0)
        error = -EBADMSG;
    if (error == 0) {
        const unsigned char *end = tail + at - 1;

        *directory = (struct directory){.at = number_at(end + 16, 4),
                                        .size = number_at(end + 12, 4),
                                        .count = number_at(end + 10, 2)};
        if (directory->at == UINT32_MAX || directory->count == UINT16_MAX)
            error = find_directory64(archive, from + at - 1, directory);
    }
    free(tail);
    return error;
}

/* Sizes that do not fit stand in an extra field, in this order. */
static void read_extra(const unsigned char *extra, size_t size,
                       const unsigned char *entry, struct archive_member *member)
{
    while (size >= 4) {
        size_t length = number_at(extra + 2, 2), at = 0;

        if (length > size - 4)
            return;
        if (number_at(extra, 2) == EXTRA_ZIP64) {
            const unsigned char *field = extra + 4;

            at += number_at(entry + 24, 4) == UINT32_MAX ? 8 : 0;
            if (member->size == UINT32_MAX && length >= at + 8) {
                member->size = number_at(field + at, 8);
                at += 8;
            }
            if (member->at == UINT32_MAX && length >= at + 8)
                member->at = number_at(field + at, 8);
            return;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
}

/* One entry of the list, and how long it is; 0 when it is damaged. */
static size_t list_one(struct archive *archive, const unsigned char *entry, size_t size,
                       int *error)
{
    char name[ARCHIVE_NAME_BYTES];

    if (size < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4) != 0)
        return 0;
    size_t name_size = number_at(entry + 28, 2), extra = number_at(entry + 30, 2);
    size_t whole = ENTRY_BYTES + name_size + extra + number_at(entry + 32, 2);
    struct archive_member member = {.at = number_at(entry + 42, 4),
                                    .size = number_at(entry + 20, 4),
                                    .method = (uint16_t)number_at(entry + 10, 2)};

    if (whole > size)
        return 0;
    if (number_at(entry + 8, 2) & IS_ENCRYPTED)
        member.method = ARCHIVE_ENCRYPTED;
    read_extra(entry + ENTRY_BYTES + name_size, extra, entry, &member);
    (void)snprintf(name, sizeof(name), "%.*s", (int)name_size, entry + ENTRY_BYTES);
    if (name_size > 0 && entry[ENTRY_BYTES + name_size - 1] != '/')
        *error = archive_add(archive, name, &member);
    return whole;
}

static int by_place(const void *left, const void *right)
{
    const struct archive_member *a = left, *b = right;

    return a->at < b->at ? -1 : a->at > b->at;
}

/* Many members of the same bytes would be more than the file is large. */
static void refuse_overlaps(struct archive *archive)
{
    uint64_t end = 0;

    if (archive->count > 0)
        qsort(archive->members, archive->count, sizeof(*archive->members), by_place);
    for (uint32_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        if (member->at < end)
            member->method = ARCHIVE_OVERLAPPING;
        else if (__builtin_add_overflow(member->at, LOCAL_BYTES + member->size, &end))
            end = UINT64_MAX;
    }
}

#define DIRECTORY_BYTES_MAX ((uint64_t)64 << 20)

int zip_list(struct archive *archive)
{
    struct directory directory;
    int error = find_directory(archive, &directory);
    unsigned char *list = NULL;

    if (error == 0 && directory.size > DIRECTORY_BYTES_MAX)
        error = -EBADMSG;
    if (error == 0)
        list = malloc((size_t)directory.size + 1);
    if (error == 0)
        error = list == NULL
                    ? -ENOMEM
                    : read_at(archive, directory.at, list, (size_t)directory.size);
    for (size_t at = 0; error == 0 && at < directory.size;) {
        size_t whole =
            list_one(archive, list + at, (size_t)directory.size - at, &error);

        if (whole == 0 && archive->note[0] == '\0')
            (void)snprintf(archive->note, sizeof(archive->note),
                           "the archive's list of members is damaged");
        at = whole == 0 ? (size_t)directory.size : at + whole;
    }
    free(list);
    refuse_overlaps(archive);
    return error;
}

int zip_enter(struct archive *archive, const struct archive_member *member)
{
    unsigned char local[LOCAL_BYTES];

    stream_close(&archive->zip);
    if (member->method == ARCHIVE_OVERLAPPING)
        return -EBADMSG;
    if (member->method != 0 && member->method != 8)
        return -ENOTSUP;
    int error = read_at(archive, member->at, local, sizeof(local));

    if (error != 0 || memcmp(local, "PK\3\4", 4) != 0)
        return -EBADMSG;
    uint64_t at =
        member->at + LOCAL_BYTES + number_at(local + 26, 2) + number_at(local + 28, 2);

    if (at > archive->file_bytes || member->size > archive->file_bytes - at)
        return -EBADMSG;
    error = stream_open(&archive->zip, archive->descriptor, at, member->size,
                        member->method == 8 ? STREAM_DEFLATE : STREAM_PLAIN);
    archive->zip.stop = archive->stop;
    return error;
}
