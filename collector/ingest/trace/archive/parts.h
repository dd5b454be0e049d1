/* What the parts of an archive's reading share. */
#ifndef INGEST_TRACE_ARCHIVE_PARTS_H
#define INGEST_TRACE_ARCHIVE_PARTS_H

#include "ingest/trace/archive/archive.h"
#include "ingest/trace/archive/stream.h"

struct archive_member {
    char *name;      /* owned */
    uint64_t at;     /* in a tar of its bytes, in a zip of its local header */
    uint64_t size;   /* in a tar; as packed in a zip */
    uint16_t method; /* of a zip: 0 stored, 8 deflated, ARCHIVE_* */
};

#define ARCHIVE_ENCRYPTED   UINT16_MAX
#define ARCHIVE_OVERLAPPING (UINT16_MAX - 1) /* with another member */

struct archive {
    int descriptor;
    uint64_t file_bytes;
    bool is_zip;
    struct stream_stop stop;
    struct stream tar; /* all of it, inflated */
    struct stream zip; /* the member that is read */
    struct archive_member *members;
    uint32_t count, capacity;
    uint64_t left;                  /* of the member of a tar that is read */
    uint64_t sparse;                /* traces left out that tar stored with holes */
    uint64_t others;                /* files that are no traces */
    char other[ARCHIVE_NAME_BYTES]; /* the first of them */
    char note[ARCHIVE_ERROR_BYTES];
};

/* By its name. */
bool archive_is_trace(const char *name);
/* Notes a file of the archive, a trace or not; -ENOMEM. */
MUST_CHECK int archive_add(struct archive *archive, const char *name,
                           const struct archive_member *member);

/* Fill the list; 0 or a negative errno, -EBADMSG when it is damaged from its begin. */
MUST_CHECK int tar_list(struct archive *archive);
MUST_CHECK int zip_list(struct archive *archive);
MUST_CHECK int zip_enter(struct archive *archive, const struct archive_member *member);

#endif
