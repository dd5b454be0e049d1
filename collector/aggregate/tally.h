/* Counts per row while they are being made: a row for each op, a cell for each
 * duration that occurred.
 *
 *     tally_add() ... tally_add() -> tally_seal() -> struct digest
 *
 * A digest is the same, packed: what a step, or several neighbouring ones, contained.
 * Digests are merged by adding them to an empty tally. Collector's thread only.
 */
#ifndef AGGREGATE_TALLY_H
#define AGGREGATE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/histogram.h"
#include "wire/attributes.h"

/* As many rows as a segment has names; later ones are row 0, "other". */
#define TALLY_ROWS_MAX 16384u

/* A cell that occurs twice in a step stands there twice, 4 bytes each; from here on they
 * are counted. */
#define TALLY_JOURNAL 1024u

struct tally_row {
    uint64_t count;
    int64_t total_ns, self_ns, min_ns, max_ns;
    double self_squares; /* sum over steps of (self time in the step)^2 */
    uint64_t octaves;    /* bit per octave that has a block; kept */
    uint32_t cell_count; /* while sealing: its cells */
    uint32_t place;      /* while sealing: where the next of them goes */
};

/* Cells that were counted lie in blocks of an octave each, given to a row when it first
 * needs one and kept for the next step: durations cannot be predicted, and this way
 * counting one neither hashes nor branches. */
struct tally {
    struct tally_row *rows; /* by row id; only touched ones hold more than octaves */
    uint32_t row_capacity;
    uint32_t *touched;
    uint32_t touched_count;
    uint32_t *block_of; /* [row_capacity][HISTOGRAM_OCTAVES]; 0 = none yet */
    uint64_t *used;   /* [blocks], bit per cell that is not 0; the first is nobody's */
    uint32_t *counts; /* [blocks][64]; each stays at its maximum, 4 G */
    uint32_t block_count, block_capacity;
    /* Cells in the order they came, row << 12 | cell: a short step is sealed from here
     * and needs no blocks. */
    uint32_t journal[TALLY_JOURNAL];
    uint32_t journal_count;
    uint32_t journals; /* counted so far */
    bool counted;      /* blocks count something */
    uint64_t refused;  /* events that memory was too short for */
};

/* What a digest stands for. */
struct digest_span {
    int64_t from_ns, to_ns;
    int64_t first_step, last_step;    /* INT64_MIN without number */
    uint64_t steps;                   /* training steps */
    uint64_t ops_steps, kernel_steps; /* of those, with all CPU ops, GPU work */
    int64_t step_ns;                  /* summed duration of its steps */
};

struct digest_row {
    uint64_t count;
    int64_t total_ns, self_ns, min_ns, max_ns;
    double self_squares;
    uint32_t row;
    uint32_t cell_count; /* its cells follow those of the row before */
};

/* One allocation; cells: DIGEST_CELL(), DIGEST_COUNT(). */
struct digest {
    struct digest_span span;
    uint32_t row_count, cell_count;
    size_t bytes;
    uint32_t *cells; /* those of a row together; the same cell may come twice */
    struct digest_row rows[];
};

/* A packed cell: 12 bits of cell, 1 bit scale, 19 bits of count. From 2^19 on a count is
 * in units of 8,192: at most 0.8 % off. */
#define DIGEST_CELL(packed)  ((packed)&4095u)
#define DIGEST_COUNT(packed) ((uint64_t)((packed) >> 13) << ((packed)&4096u ? 13 : 0))

/* Makes room for rows below `rows`; false when out of memory. */
bool tally_reserve(struct tally *tally, uint32_t rows);
void tally_free(struct tally *tally);

/* Out of line parts of tally_add(). */
void tally_touch(struct tally *tally, uint32_t row);
void tally_count(struct tally *tally);

/* Adds a digest; `scratch` rows must have been reserved. */
void tally_add_digest(struct tally *tally, const struct digest *digest);

/* A new digest of what was counted; NULL when out of memory. The tally is empty then.
 * With `squares` each row's self time counts as that of one step. `cells_max` bounds the
 * size: rows with the least self time go without cells. */
struct digest *tally_seal(struct tally *tally, const struct digest_span *span,
                          bool squares, uint32_t cells_max);

/* `row` below what was reserved; lengths below 2^50 ns, which is what readers hand on:
 * tally_count() sees to it that no sum of them overflows. */
ALWAYS_INLINE void tally_add(struct tally *tally, uint32_t row, int64_t duration_ns,
                             int64_t self_ns)
{
    struct tally_row *at = &tally->rows[row];

    if (UNLIKELY(at->count == 0))
        tally_touch(tally, row);
    at->count++;
    at->total_ns += duration_ns;
    at->self_ns += self_ns;
    at->min_ns = duration_ns < at->min_ns ? duration_ns : at->min_ns;
    at->max_ns = duration_ns > at->max_ns ? duration_ns : at->max_ns;
    tally->journal[tally->journal_count++] = row << 12 | histogram_cell(duration_ns);
    if (UNLIKELY(tally->journal_count == TALLY_JOURNAL))
        tally_count(tally);
}

#endif
