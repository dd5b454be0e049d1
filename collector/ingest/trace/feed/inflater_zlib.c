#include <stdlib.h>
#include <zlib.h>

#include "ingest/trace/feed/inflater.h"

#define GZIP_ONLY 16

struct inflater {
    z_stream stream;
};

struct inflater *inflater_new(bool gzip)
{
    struct inflater *inflater = calloc(1, sizeof(*inflater));
    int window_bits = gzip ? MAX_WBITS + GZIP_ONLY : -MAX_WBITS;

    if (inflater != NULL && inflateInit2(&inflater->stream, window_bits) != Z_OK) {
        free(inflater);
        return NULL;
    }
    return inflater;
}

void inflater_free(struct inflater *inflater)
{
    if (inflater == NULL)
        return;
    (void)inflateEnd(&inflater->stream);
    free(inflater);
}

void inflater_again(struct inflater *inflater)
{
    (void)inflateReset(&inflater->stream);
}

enum inflater_result inflater_run(struct inflater *inflater, struct inflater_io *io)
{
    z_stream *stream = &inflater->stream;

    /* zlib only reads what next_in points at. */
    stream->next_in = (z_const Bytef *)(uintptr_t)io->in;
    stream->avail_in = (uInt)io->in_left;
    stream->next_out = io->out;
    stream->avail_out = (uInt)io->out_left;
    int result = inflate(stream, Z_NO_FLUSH);

    io->in += io->in_left - stream->avail_in;
    io->in_left = stream->avail_in;
    io->out += io->out_left - stream->avail_out;
    io->out_left = stream->avail_out;
    if (result == Z_STREAM_END)
        return INFLATER_END;
    return result == Z_OK || result == Z_BUF_ERROR ? INFLATER_MORE : INFLATER_BAD;
}

const char *inflater_library(void)
{
    return "zlib";
}
