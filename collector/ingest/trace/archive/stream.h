/* A stretch of a file as a stream of bytes, inflated where it is packed. */
#ifndef INGEST_TRACE_ARCHIVE_STREAM_H
#define INGEST_TRACE_ARCHIVE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ingest/trace/feed/inflater.h"
#include "wire/attributes.h"

enum stream_packing { STREAM_PLAIN, STREAM_GZIP, STREAM_DEFLATE };

/* Does nobody wait for it any more? May be called from the thread that reads. */
struct stream_stop {
    bool (*is_wanted)(void *user); /* NULL: never */
    void *user;
};

struct stream {
    int descriptor;      /* borrowed */
    uint64_t from, size; /* of the stretch */
    enum stream_packing packing;
    uint64_t in_at; /* bytes of the stretch that were read */
    uint64_t at;    /* bytes given out, or passed over */
    uint8_t *in;    /* owned; of what is packed, as the next two */
    size_t in_begin, in_left;
    struct inflater *inflater;
    bool between_members; /* of gzip */
    bool broken;          /* nothing more can be inflated */
    struct stream_stop stop; /* the caller's to set, after opening */
};

/* -ENOMEM; stream_close() is owed in any case. */
MUST_CHECK int stream_open(struct stream *stream, int descriptor, uint64_t from,
                           uint64_t size, enum stream_packing packing);
void stream_close(struct stream *stream);

/* Up to `size` bytes, 0 at the end, or a negative errno: -EBADMSG damaged, -EFBIG inflated
 * to more than any trace is, -ECANCELED. */
MUST_CHECK ssize_t stream_read(struct stream *stream, void *to, size_t size);

/* All of `size` bytes: 0; -ENODATA when the stream ends before. */
MUST_CHECK int stream_read_all(struct stream *stream, void *to, size_t size);

/* To a byte of the text, also back: what is packed is then inflated once more. */
MUST_CHECK int stream_go_to(struct stream *stream, uint64_t at);

#endif
