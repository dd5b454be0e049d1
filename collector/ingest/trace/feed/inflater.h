/* Inflates gzip, or bare deflate, as a stream: with ISA-L where the build found it, else with zlib. */
#ifndef INGEST_TRACE_FEED_INFLATERR_H
#define INGEST_TRACE_FEED_INFLATERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

struct inflater;

/* What is left of the input and of the room for output; both move. */
struct inflater_io {
    const uint8_t *in;
    size_t in_left;
    uint8_t *out;
    size_t out_left;
};

enum inflater_result {
    INFLATER_MORE, /* input used up or output full */
    INFLATER_END,  /* of a member, its checksum right; the input behind it is left */
    INFLATER_BAD,  /* what was written before is good */
};

/* NULL when out of memory. Not `gzip`: of bare deflate, as members of a zip are, without
 * gzip's head and checksum. */
struct inflater *inflater_new(bool gzip);
void inflater_free(struct inflater *inflater);
enum inflater_result inflater_run(struct inflater *inflater, struct inflater_io *io);
void inflater_again(struct inflater *inflater); /* another member begins */
const char *inflater_library(void);             /* "ISA-L" or "zlib" */

/* Beyond this a packed text is no trace: real ones shrink to a tenth or a thirtieth. */
#define INFLATER_RATIO_MAX 300u
/* And beyond this of it nothing is read. */
#define INFLATER_BOMB_BYTES ((uint64_t)1 << 30)

/* Text that no trace would be so small for, and much of it. */
ALWAYS_INLINE bool inflater_is_bomb(uint64_t text_bytes, uint64_t packed_bytes)
{
    return text_bytes > INFLATER_BOMB_BYTES &&
           text_bytes / INFLATER_RATIO_MAX > packed_bytes;
}

#endif
