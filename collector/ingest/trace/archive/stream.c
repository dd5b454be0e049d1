#include "ingest/trace/archive/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define IN_BYTES ((size_t)256 * 1024)

int stream_open(struct stream *stream, int descriptor, uint64_t from, uint64_t size,
                enum stream_packing packing)
{
    *stream = (struct stream){
        .descriptor = descriptor, .from = from, .size = size, .packing = packing};
    if (packing == STREAM_PLAIN)
        return 0;
    stream->in = malloc(IN_BYTES);
    stream->inflater = inflater_new(packing == STREAM_GZIP);
    return stream->in == NULL || stream->inflater == NULL ? -ENOMEM : 0;
}

void stream_close(struct stream *stream)
{
    inflater_free(stream->inflater);
    free(stream->in);
    *stream = (struct stream){.descriptor = -1};
}

/* Bytes of the file itself. */
static ssize_t read_file(struct stream *stream, void *to, size_t size)
{
    uint64_t left = stream->size - stream->in_at;
    ssize_t got;

    size = size > left ? (size_t)left : size;
    do
        got =
            pread(stream->descriptor, to, size, (off_t)(stream->from + stream->in_at));
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    stream->in_at += (uint64_t)got;
    return got;
}

/* Behind a member of gzip only another one counts; padding and the rest end it. */
static bool next_member(struct stream *stream)
{
    if (stream->packing != STREAM_GZIP || stream->in[stream->in_begin] != 0x1f)
        return false;
    inflater_again(stream->inflater);
    stream->between_members = false;
    return true;
}

static ssize_t inflate_some(struct stream *stream, void *to, size_t size)
{
    struct inflater_io io = {.out = to, .out_left = size};

    if (stream->broken)
        return -EBADMSG;
    while (io.out_left == size) {
        ssize_t got = 1;

        if (stream->in_left == 0) {
            got = read_file(stream, stream->in, IN_BYTES);
            stream->in_begin = 0;
            stream->in_left = got > 0 ? (size_t)got : 0;
        }
        if (got < 0)
            return got;
        if (got == 0)
            return stream->between_members ? 0 : -EBADMSG;
        if (stream->between_members && !next_member(stream))
            return 0;
        size_t before = stream->in_left;

        io.in = stream->in + stream->in_begin;
        io.in_left = before;
        enum inflater_result result = inflater_run(stream->inflater, &io);

        stream->in_begin += before - io.in_left;
        stream->in_left = io.in_left;
        stream->between_members = result == INFLATER_END;
        if (result == INFLATER_BAD ||
            (result == INFLATER_MORE && io.out_left == size && before == io.in_left)) {
            stream->broken = true;
            return io.out_left < size ? (ssize_t)(size - io.out_left) : -EBADMSG;
        }
        if (stream->packing == STREAM_DEFLATE && stream->between_members)
            stream->in_left = 0;
    }
    return (ssize_t)(size - io.out_left);
}

ssize_t stream_read(struct stream *stream, void *to, size_t size)
{
    if (size == 0)
        return 0;
    if (stream->stop.is_wanted != NULL && stream->stop.is_wanted(stream->stop.user))
        return -ECANCELED;
    ssize_t got = stream->packing == STREAM_PLAIN ? read_file(stream, to, size)
                                                  : inflate_some(stream, to, size);

    if (got > 0)
        stream->at += (uint64_t)got;
    if (got > 0 && inflater_is_bomb(stream->at, stream->in_at))
        return -EFBIG;
    return got;
}

int stream_read_all(struct stream *stream, void *to, size_t size)
{
    for (size_t have = 0; have < size;) {
        ssize_t got = stream_read(stream, (char *)to + have, size - have);

        if (got <= 0)
            return got < 0 ? (int)got : -ENODATA;
        have += (size_t)got;
    }
    return 0;
}

int stream_go_to(struct stream *stream, uint64_t at)
{
    char passed[16 * 1024];

    if (stream->packing == STREAM_PLAIN) {
        if (at > stream->size)
            return -ENODATA;
        stream->in_at = stream->at = at;
        return 0;
    }
    if (at < stream->at) {
        struct stream before = *stream;

        stream_close(stream);
        int error = stream_open(stream, before.descriptor, before.from, before.size,
                                before.packing);

        stream->stop = before.stop;
        if (error != 0)
            return error;
    }
    while (stream->at < at) {
        uint64_t left = at - stream->at;
        ssize_t got = stream_read(
            stream, passed, left < sizeof(passed) ? (size_t)left : sizeof(passed));

        if (got <= 0)
            return got < 0 ? (int)got : -ENODATA;
    }
    return 0;
}
