/* tar: headers of 512 bytes, each followed by its file; with GNU's and POSIX's long names. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/trace/archive/parts.h"
#include "ingest/trace/feed/magic.h"

#define LONG_MAX_BYTES 65536u

struct listing {
    char long_name[ARCHIVE_NAME_BYTES]; /* of the next file; "" none */
    uint64_t long_size;                 /* likewise; UINT64_MAX none */
};

/* Records of a pax header: "LENGTH KEY=VALUE\n". */
static void read_pax(struct listing *listing, char *text, size_t size)
{
    char *at = text, *end = text + size;

    while (at < end) {
        char *key;
        size_t length = strtoul(at, &key, 10);

        if (length < 5 || length > (size_t)(end - at) || *key != ' ' ||
            key - at >= (ptrdiff_t)length)
            return;
        char *next = at + length;

        next[-1] = '\0';
        key++;
        if (strncmp(key, "path=", 5) == 0)
            (void)snprintf(listing->long_name, sizeof(listing->long_name), "%s",
                           key + 5);
        else if (strncmp(key, "size=", 5) == 0)
            listing->long_size = strtoull(key + 5, NULL, 10);
        at = next;
    }
}

/* A name or records that belong to the file behind them. */
static int read_long(struct stream *stream, struct listing *listing, char type,
                     uint64_t size)
{
    char text[LONG_MAX_BYTES + 1];
    size_t length = size < LONG_MAX_BYTES ? (size_t)size : LONG_MAX_BYTES;
    int error = stream_read_all(stream, text, length);

    text[length] = '\0';
    if (error == 0 && type == 'x')
        read_pax(listing, text, length);
    else if (error == 0)
        (void)snprintf(listing->long_name, sizeof(listing->long_name), "%.1023s", text);
    return error;
}

static void name_of(const unsigned char *block, char name[ARCHIVE_NAME_BYTES + 2])
{
    const char *own = (const char *)block, *prefix = own + 345;
    int prefix_bytes = memcmp(block + 257, "ustar\0", 6) == 0 ? 155 : 0;

    (void)snprintf(name, ARCHIVE_NAME_BYTES + 2, "%.*s%s%.100s", prefix_bytes, prefix,
                   prefix_bytes > 0 && *prefix != '\0' ? "/" : "", own);
}

/* GNU's sparse files: headers of more pieces may follow the first. */
static int pass_sparse_headers(struct stream *stream, const unsigned char *header)
{
    unsigned char more[TAR_BLOCK];
    bool extended = header[482] != 0;
    int error = 0;

    while (error == 0 && extended) {
        error = stream_read_all(stream, more, sizeof(more));
        extended = more[504] != 0;
    }
    return error;
}

/* One header with what it is of: 1; 0 at the end, or a negative errno. */
static int list_one(struct archive *archive, struct listing *listing)
{
    struct stream *stream = &archive->tar;
    unsigned char block[TAR_BLOCK];
    char name[ARCHIVE_NAME_BYTES + 2];
    int error = stream_read_all(stream, block, sizeof(block));

    if (error == -ENODATA || (error == 0 && !tar_is_header(block)))
        return block[0] == 0 && error == 0 ? 0 : -EBADMSG;
    if (error != 0)
        return error;
    uint64_t size = tar_number(block + 124, 12);
    char type = (char)block[156];

    if (type == 'S')
        error = pass_sparse_headers(stream, block);
    uint64_t at = stream->at;

    if (error != 0)
        return error == -ENODATA ? -EBADMSG : error;
    if (type == 'x' || type == 'L') {
        error = read_long(stream, listing, type, size);
    } else {
        if (listing->long_size != UINT64_MAX)
            size = listing->long_size;
        name_of(block, name);
        const char *own = *listing->long_name != '\0' ? listing->long_name : name;

        if (type == '0' || type == '\0' || type == '7')
            error = archive_add(archive, own,
                                &(struct archive_member){.at = at, .size = size});
        else
            archive->sparse += type == 'S' && archive_is_trace(own);
        *listing = (struct listing){.long_size = UINT64_MAX};
    }
    if (error != 0 || size > UINT64_MAX / 2)
        return error != 0 ? error : -EBADMSG;
    error = stream_go_to(stream, at + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
    return error == 0 ? 1 : error == -ENODATA ? -EBADMSG : error;
}

int tar_list(struct archive *archive)
{
    struct listing listing = {.long_size = UINT64_MAX};
    int result;

    while ((result = list_one(archive, &listing)) > 0)
        ;
    if (archive->sparse > 0 && archive->note[0] == '\0')
        (void)snprintf(archive->note, sizeof(archive->note),
                       "%llu sparse files of the archive are left out: pack them "
                       "without --sparse",
                       (unsigned long long)archive->sparse);
    if (result == 0 || result == -ENOMEM || result == -ECANCELED || archive->count == 0)
        return result;
    (void)snprintf(archive->note, sizeof(archive->note),
                   "the archive is damaged or ends early, at byte %llu of its text",
                   (unsigned long long)archive->tar.at);
    return 0;
}
