/* The traces in a tar, a tar.gz or a zip, one after the other, read where they lie: nothing of
 * an archive is ever written to a disk, and a member's name is only shown.
 *
 * Members are those that a folder would give: names that end in .json or .json.gz and do not
 * begin with a dot. One thread.
 */
#ifndef INGEST_TRACE_ARCHIVE_ARCHIVE_H
#define INGEST_TRACE_ARCHIVE_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/attributes.h"

#define ARCHIVE_MEMBERS_MAX 4096u
#define ARCHIVE_NAME_BYTES  1024u /* a longer name is cut there */
#define ARCHIVE_ERROR_BYTES 256u

struct archive;
struct stream_stop;

/* 0; *archive is NULL where the file is none, or no plain file. Else a negative errno with
 * its sentence in `error`: it is one, and nothing can be read of it; -ECANCELED by `stop`,
 * which also ends what is read of the archive later. */
MUST_CHECK int archive_open(struct archive **archive, const char *path,
                            const struct stream_stop *stop,
                            char error[ARCHIVE_ERROR_BYTES]);
void archive_close(struct archive *archive); /* NULL is nothing */

uint32_t archive_count(const struct archive *archive); /* 1 or more */
const char *archive_name(const struct archive *archive, uint32_t member);
/* The order in which members are read fastest, [archive_count()]: by name, which is how they
 * are numbered, but in a packed tar as they lie, where each step back inflates all again. */
void archive_order(const struct archive *archive, uint32_t *members);
uint64_t archive_file_bytes(const struct archive *archive);
/* Why not all of it is listed: one sentence; "" when all is well. */
const char *archive_note(const struct archive *archive);

/* Begins to read a member; what was being read of another one is left. -ENOTSUP: packed or
 * encrypted in a way that is not known; -EBADMSG: damaged. */
MUST_CHECK int archive_enter(struct archive *archive, uint32_t member);
/* Bytes of the member as it was put in, 0 at its end, or a negative errno: -EBADMSG damaged,
 * -EFBIG inflated to more than any trace is. Adds to *packed_bytes how much of the file was read for it. */
MUST_CHECK ssize_t archive_read(struct archive *archive, void *to, size_t size,
                                uint64_t *packed_bytes);

#endif
