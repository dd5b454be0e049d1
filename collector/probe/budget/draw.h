/* Which steps are recorded: the same answer on every rank, without a word exchanged.
 *
 * Steps are drawn in blocks of successive steps. The hash of a block's number decides,
 * and all rates are ranges of that one hash, so that the sets are nested:
 *
 *     0                1/4             1/2                   1 - c            2^64
 *     ├── rate 1/4 ─────┤               │                      ├── control ─────┤
 *     ├── rate 1/2 ─────────────────────┤                      │ all ranks bare  │
 *     ├── rate 1 ──────────────────────────────────────────────┤
 *
 * A rank at rate 1/4 records a subset of what a rank at 1/2 records, and control blocks
 * run bare on every rank, whatever the rates.
 *
 * Why blocks: the detail of one step may slow the next one (caches, a GPU that runs
 * behind). The first step of a block carries what the block before left behind, so it
 * is recorded but not compared. A block's length has no common divisor with the usual
 * periods of a job (2, 4, 10, 50, 100): else the same phase of the period would always
 * be the one that is not compared.
 *
 * Pure functions of their arguments: any thread, no state.
 */
#ifndef PROBE_DRAW_H
#define PROBE_DRAW_H

#include <stddef.h>
#include <stdint.h>

#define DRAW_BLOCK_STEPS 3u  /* host ops: what is left behind lasts about a step */
#define DRAW_RATE_LAST   10u /* the ladder: 1, 1/2, 1/4, ..., 1/1024 */
#define DRAW_RATE_NONE   11u /* below the ladder: nothing is recorded */

enum draw_arm {
    DRAW_IDLE = 0, /* not recorded, not compared */
    DRAW_RECORDED = 1,
    DRAW_CONTROL = 2,
};

/* Seed from texts that all ranks of a job share (MASTER_ADDR, MASTER_PORT, WORLD_SIZE,
 * restart count). NULL counts as a text of its own, so that {"a", NULL} is not {"a"}.
 */
uint64_t draw_seed(const char *const *texts, size_t count);

/* The arm of a block at rate 1/2^rate; DRAW_RATE_NONE still has its control blocks. */
enum draw_arm draw_arm(uint64_t seed, uint64_t block, unsigned rate);

/* Share of control blocks around `block`, 0 to 1: none in the first DRAW_FIRST_BLOCKS,
 * then one third (one half would narrow the interval by an eighth more, and leave half of
 * the steps without phases), then falling as 1/block from DRAW_EARLY_BLOCKS on, until it
 * stays at 1 in 50. */
double draw_control_share(uint64_t block);
#define DRAW_FIRST_BLOCKS 4u /* warm-up: compilation, first allocations */
#define DRAW_EARLY_BLOCKS 200u

/* Share of blocks that are recorded at 1/2^rate around `block`, 0 to 1. */
double draw_recorded_share(uint64_t block, unsigned rate);

#endif
