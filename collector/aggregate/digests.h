/* The op digests of one process: newest steps each for itself, older neighbours merged
 * into coarser ones so that the whole run stays within a fixed number of bytes.
 *
 *     level 2  [ 64 steps ][ 64 ]   level 1  [ 8 ][ 8 ][ 8 ]   level 0  [1][1][1] ...
 *     oldest ------------------------------------------------------------- newest
 *
 * Steps of different classes are kept apart: what was drawn at random can be scaled,
 * what was recorded on demand cannot, and what lies outside of training steps is no
 * part of a step's time.
 */
#ifndef AGGREGATE_DIGESTS_H
#define AGGREGATE_DIGESTS_H

#include "aggregate/tally.h"

#define DIGESTS_BYTES_DEFAULT ((size_t)6 * 1024 * 1024)
#define DIGESTS_LEVELS        24u

enum digest_class {
    DIGEST_DRAWN,      /* training steps whose recording was drawn or fixed */
    DIGEST_TAGGED,     /* training steps recorded on demand or after a slow one */
    DIGEST_BARE,       /* training steps without detail: user ranges alone */
    DIGEST_VALIDATION, /* validation batches */
    DIGEST_APART,      /* what lies outside of steps, and deep windows */
    DIGEST_CLASSES,
};

struct digest_level {
    struct digest **items; /* oldest first */
    uint32_t count, capacity;
    size_t bytes;
};

struct digests {
    struct digest_level levels[DIGEST_CLASSES][DIGESTS_LEVELS];
    size_t bytes, bytes_max;
    struct tally merging; /* empty between calls */
    uint64_t merges;
    uint64_t refused; /* digests that memory was too short for */
};

void digests_init(struct digests *digests, size_t bytes_max);
void digests_free(struct digests *digests);

/* Takes the digest over. Merges older ones where the limit is passed. */
void digests_push(struct digests *digests, enum digest_class class,
                  struct digest *digest);

/* Calls `visit` for each digest of the class that touches [from_ns, to_ns), oldest
 * first. */
typedef void digests_visitor(void *user, const struct digest *digest);
void digests_visit(const struct digests *digests, enum digest_class class,
                   const int64_t range_ns[2], digests_visitor *visit, void *user);

#endif
