#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ingest/trace/feed/inflater.h"

struct inflater {
    struct inflate_state state;
    uint32_t format; /* ISAL_GZIP or ISAL_DEFLATE */
};

struct inflater *inflater_new(bool gzip)
{
    struct inflater *inflater = calloc(1, sizeof(*inflater));

    if (inflater == NULL)
        return NULL;
    inflater->format = gzip ? ISAL_GZIP : ISAL_DEFLATE;
    inflater_again(inflater);
    return inflater;
}

void inflater_free(struct inflater *inflater)
{
    free(inflater);
}

void inflater_again(struct inflater *inflater)
{
    isal_inflate_init(&inflater->state);
    inflater->state.crc_flag = inflater->format;
}

enum inflater_result inflater_run(struct inflater *inflater, struct inflater_io *io)
{
    struct inflate_state *state = &inflater->state;

    /* The library only reads what next_in points at. */
    state->next_in = (uint8_t *)(uintptr_t)io->in;
    state->avail_in = (uint32_t)io->in_left;
    state->next_out = io->out;
    state->avail_out = (uint32_t)io->out_left;
    int result = isal_inflate(state);
    bool bad = (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) ||
               state->avail_in > io->in_left || state->avail_out > io->out_left;
    size_t written =
        state->avail_out <= io->out_left ? io->out_left - state->avail_out : 0;

    io->out += written;
    io->out_left -= written;
    if (bad) /* the library no longer says right what it read; nobody needs it */
        return INFLATER_BAD;
    io->in += io->in_left - state->avail_in;
    io->in_left = state->avail_in;
    return state->block_state == ISAL_BLOCK_FINISH ? INFLATER_END : INFLATER_MORE;
}

const char *inflater_library(void)
{
    return "ISA-L";
}
