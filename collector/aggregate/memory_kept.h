/* Blocks that a step keeps. Of a recorded step all allocations and frees are known but not
 * which of them belong together; a block is as large when it is given back as when it was
 * taken. So of a size of which a step takes more blocks than it gives back, be they its own
 * or of steps before, some stay: they are of an op that takes blocks of that size.
 */
#ifndef AGGREGATE_MEMORY_KEPT_H
#define AGGREGATE_MEMORY_KEPT_H

#include <stdbool.h>
#include <stdint.h>

/* Pairs of a size and an op in one step: 12 KB; of a step with more nothing is known. */
#define MEMORY_KEPT_SIZES 512u

/* Smaller blocks make no leak that anybody sees, and most ops take some. */
#define MEMORY_KEPT_LEAST 1024

/* With more ops to choose from nobody is the wiser. */
#define MEMORY_KEPT_OPS 3u

/* Of one step: the size of which most bytes stay, among those with few ops. */
struct memory_kept {
    bool known;                    /* the step was recorded, all of it */
    uint32_t op_count;             /* 0: nothing stays, or nobody knows whose */
    uint32_t ops[MEMORY_KEPT_OPS]; /* texts: that take blocks of the size */
    int64_t block, bytes;          /* of one; of all that stay */
};

struct memory_kept_size {
    int64_t bytes;  /* of a block; 0: the place is free */
    uint32_t op;    /* text; 0 none */
    uint32_t taken; /* in the step, by that op */
    uint32_t freed; /* in the step, whoever took them */
};

struct memory_kept_sizes {
    struct memory_kept_size list[MEMORY_KEPT_SIZES]; /* by hash of the size */
    uint32_t count;
    uint32_t events; /* allocations and frees since the step before */
    bool full;
};

/* An allocation of so many bytes, or with a minus a free; `op` 0: in none. */
void memory_kept_add(struct memory_kept_sizes *sizes, uint32_t op, int64_t bytes);

/* The step ended; it had so many allocations and frees. Begins anew. */
struct memory_kept memory_kept_end(struct memory_kept_sizes *sizes, uint64_t events);

#endif
