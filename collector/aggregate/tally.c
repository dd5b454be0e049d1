#include "aggregate/tally.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"

#define BLOCKS_FIRST 64u
/* 33 MiB, which only a hostile job reaches: 16,384 rows of 8 octaves each. */
#define BLOCKS_MAX (1u << 17)
/* More than this, 1 MiB, is not kept for the next step. */
#define BLOCKS_KEPT (1u << 12)

static bool blocks_grow(struct tally *tally)
{
    uint32_t old = tally->block_capacity, capacity = old == 0 ? BLOCKS_FIRST : 2 * old;
    size_t block = HISTOGRAM_OCTAVE_CELLS * sizeof(uint32_t);
    uint64_t *used = capacity > BLOCKS_MAX
                         ? NULL
                         : realloc(tally->used, capacity * sizeof(uint64_t));

    if (used == NULL)
        return false;
    tally->used = used;
    uint32_t *counts = realloc(tally->counts, capacity * block);

    if (counts == NULL)
        return false;
    tally->counts = counts;
    memset(used + old, 0, (capacity - old) * sizeof(uint64_t));
    memset(counts + (size_t)old * HISTOGRAM_OCTAVE_CELLS, 0, (capacity - old) * block);
    tally->block_capacity = capacity;
    return true;
}

static uint32_t block_add(struct tally *tally, uint32_t row, uint32_t octave)
{
    uint32_t block = tally->block_count > 0 ? tally->block_count : 1;

    if (block >= tally->block_capacity && !blocks_grow(tally)) {
        tally->refused++;
        return 0;
    }
    tally->block_of[row * HISTOGRAM_OCTAVES + octave] = block;
    tally->rows[row].octaves |= (uint64_t)1 << octave;
    tally->block_count = block + 1;
    return block;
}

/* The count of a cell of `row`, which is about to grow; NULL when memory is short. */
ALWAYS_INLINE uint32_t *cell_at(struct tally *tally, uint32_t row, uint32_t cell)
{
    uint32_t octave = cell / HISTOGRAM_OCTAVE_CELLS, at = cell % HISTOGRAM_OCTAVE_CELLS;
    uint32_t block = tally->block_of[row * HISTOGRAM_OCTAVES + octave];

    if (UNLIKELY(block == 0)) {
        block = block_add(tally, row, octave);
        if (block == 0)
            return NULL;
    }
    tally->used[block] |= (uint64_t)1 << at;
    return &tally->counts[block * HISTOGRAM_OCTAVE_CELLS + at];
}

/* From the limit of sums, 2^60, so many journals and one that is begun lead to less than
 * 2^63, at 2^50 ns an event. */
#define JOURNALS_UNCHECKED 4u

static void limit_sums(const struct tally *tally)
{
    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];

        row->total_ns = sum_ns(row->total_ns, 0);
        row->self_ns = sum_ns(row->self_ns, 0);
    }
}

void tally_count(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->journal_count; i++) {
        uint32_t entry = tally->journal[i];
        uint32_t *count = cell_at(tally, entry >> 12, entry & 4095u);

        if (LIKELY(count != NULL))
            *count += *count != UINT32_MAX;
    }
    tally->journal_count = 0;
    tally->counted = true;
    if (++tally->journals % JOURNALS_UNCHECKED == 0)
        limit_sums(tally);
}

static void blocks_forget(struct tally *tally)
{
    free(tally->used);
    free(tally->counts);
    tally->used = NULL;
    tally->counts = NULL;
    tally->block_count = tally->block_capacity = 0;
    for (uint32_t row = 0; row < tally->row_capacity; row++)
        tally->rows[row].octaves = 0;
    memset(tally->block_of, 0,
           (size_t)tally->row_capacity * HISTOGRAM_OCTAVES * sizeof(uint32_t));
}

bool tally_reserve(struct tally *tally, uint32_t rows)
{
    if (rows <= tally->row_capacity)
        return true;
    if (rows > TALLY_ROWS_MAX)
        return false;
    uint32_t capacity = tally->row_capacity == 0 ? 64 : tally->row_capacity;

    while (capacity < rows)
        capacity *= 2;
    struct tally_row *grown = realloc(tally->rows, capacity * sizeof(*grown));

    if (grown == NULL)
        return false;
    memset(grown + tally->row_capacity, 0,
           (capacity - tally->row_capacity) * sizeof(*grown));
    tally->rows = grown;
    uint32_t *touched = realloc(tally->touched, capacity * sizeof(*touched));

    if (touched == NULL)
        return false;
    tally->touched = touched;
    size_t unit = HISTOGRAM_OCTAVES * sizeof(uint32_t);
    uint32_t *block_of = realloc(tally->block_of, capacity * unit);

    if (block_of == NULL)
        return false;
    memset(block_of + (size_t)tally->row_capacity * HISTOGRAM_OCTAVES, 0,
           (capacity - tally->row_capacity) * unit);
    tally->block_of = block_of;
    tally->row_capacity = capacity;
    return true;
}

void tally_free(struct tally *tally)
{
    free(tally->rows);
    free(tally->touched);
    free(tally->block_of);
    free(tally->used);
    free(tally->counts);
    *tally = (struct tally){0};
}

void tally_touch(struct tally *tally, uint32_t row)
{
    tally->rows[row].min_ns = INT64_MAX;
    tally->rows[row].max_ns = INT64_MIN;
    tally->touched[tally->touched_count++] = row;
}

void tally_add_digest(struct tally *tally, const struct digest *digest)
{
    const uint32_t *cells = digest->cells;

    tally->counted |= digest->cell_count > 0;
    for (uint32_t i = 0; i < digest->row_count; i++) {
        const struct digest_row *from = &digest->rows[i];
        struct tally_row *to = &tally->rows[from->row];

        if (to->count == 0)
            tally_touch(tally, from->row);
        to->count += from->count;
        to->total_ns = sum_ns(to->total_ns, from->total_ns);
        to->self_ns = sum_ns(to->self_ns, from->self_ns);
        to->self_squares += from->self_squares;
        to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
        to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
        for (uint32_t c = 0; c < from->cell_count; c++) {
            uint32_t *count = cell_at(tally, from->row, DIGEST_CELL(cells[c]));

            if (count == NULL)
                continue;
            uint64_t sum = *count + DIGEST_COUNT(cells[c]);

            *count = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        }
        cells += from->cell_count;
    }
}

static uint32_t pack(uint32_t at, uint32_t count)
{
    if (count < 1u << 19)
        return at | count << 13;
    /* Rounded down at the very top, to fit. */
    uint64_t units = ((uint64_t)count + 4096) >> 13;

    return at | 4096u | (uint32_t)(units < 1u << 19 ? units : (1u << 19) - 1) << 13;
}

/* The lowest bit of what is not 0, taken out of it. */
static uint32_t bit_take(uint64_t *bits)
{
    uint32_t bit = (uint32_t)__builtin_ctzll(*bits);

    *bits &= *bits - 1;
    return bit;
}

/* Says how many cells each row has; how many there are in all. */
static uint32_t count_cells(struct tally *tally)
{
    uint32_t sum = tally->journal_count;

    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];
        const uint32_t *blocks =
            &tally->block_of[tally->touched[i] * HISTOGRAM_OCTAVES];
        uint64_t octaves = row->octaves;

        row->cell_count = tally->counted ? 0 : (uint32_t)row->count;
        while (octaves != 0)
            row->cell_count +=
                (uint32_t)__builtin_popcountll(tally->used[blocks[bit_take(&octaves)]]);
        sum += tally->counted ? row->cell_count : 0;
    }
    return sum;
}

/* Self time below which rows lose their cells, so that at most cells_max of `cells`
 * remain; how many do. */
static int64_t cell_floor(const struct tally *tally, uint32_t cells_max,
                          uint32_t *cells)
{
    int64_t floor = INT64_MIN;

    while (*cells > cells_max && floor < INT64_MAX / 4) {
        floor = floor == INT64_MIN ? 1000 : floor * 4;
        *cells = 0;
        for (uint32_t i = 0; i < tally->touched_count; i++) {
            const struct tally_row *row = &tally->rows[tally->touched[i]];

            *cells += row->self_ns >= floor ? row->cell_count : 0;
        }
    }
    return floor;
}

/* Moves the counts of a row to `cells`, or nowhere (NULL). */
static void take_counts(struct tally *tally, uint32_t row, uint32_t *cells)
{
    const uint32_t *blocks = &tally->block_of[row * HISTOGRAM_OCTAVES];
    uint64_t octaves = tally->rows[row].octaves;

    while (octaves != 0) {
        uint32_t octave = bit_take(&octaves), block = blocks[octave];
        uint32_t *counts = &tally->counts[block * HISTOGRAM_OCTAVE_CELLS];
        uint64_t used = tally->used[block];

        tally->used[block] = 0;
        while (used != 0) {
            uint32_t at = bit_take(&used);

            if (cells != NULL)
                *cells++ = pack(octave * HISTOGRAM_OCTAVE_CELLS + at, counts[at]);
            counts[at] = 0;
        }
    }
}

/* The journal, ordered by rows, whose places are known. */
static void take_journal(struct tally *tally, uint32_t *cells)
{
    for (uint32_t i = 0; i < tally->journal_count; i++) {
        uint32_t entry = tally->journal[i];
        uint32_t *place = &tally->rows[entry >> 12].place;

        if (LIKELY(*place != UINT32_MAX))
            cells[(*place)++] = pack(entry & 4095u, 1);
    }
}

static void fill_row(struct digest_row *to, const struct tally_row *row, bool squares)
{
    double self = (double)row->self_ns;

    *to =
        (struct digest_row){.count = row->count,
                            .total_ns = sum_ns(row->total_ns, 0),
                            .self_ns = sum_ns(row->self_ns, 0),
                            .min_ns = row->min_ns,
                            .max_ns = row->max_ns,
                            .self_squares = squares ? self * self : row->self_squares};
}

/* Rows and their cells to the digest; without one (NULL) everything is forgotten. */
static void take_rows(struct tally *tally, struct digest *digest, int64_t floor,
                      bool squares)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];
        bool keeps = digest != NULL && row->self_ns >= floor;

        if (tally->counted)
            take_counts(tally, tally->touched[i], keeps ? digest->cells + next : NULL);
        row->place = keeps ? next : UINT32_MAX;
        if (digest == NULL)
            continue;
        fill_row(&digest->rows[i], row, squares);
        digest->rows[i].row = tally->touched[i];
        digest->rows[i].cell_count = keeps ? row->cell_count : 0;
        next += digest->rows[i].cell_count;
    }
    if (digest != NULL)
        take_journal(tally, digest->cells);
}

static void clear(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];

        *row = (struct tally_row){.octaves = row->octaves};
    }
    tally->touched_count = 0;
    tally->journal_count = 0;
    tally->counted = false;
    if (tally->block_count > BLOCKS_KEPT)
        blocks_forget(tally);
}

struct digest *tally_seal(struct tally *tally, const struct digest_span *span,
                          bool squares, uint32_t cells_max)
{
    if (tally->counted)
        tally_count(tally);
    uint32_t cells = count_cells(tally);
    int64_t floor = cell_floor(tally, cells_max, &cells);
    size_t bytes = sizeof(struct digest) +
                   tally->touched_count * sizeof(struct digest_row) +
                   cells * sizeof(uint32_t);
    struct digest *digest = malloc(bytes);

    if (digest != NULL) {
        *digest = (struct digest){.span = *span,
                                  .row_count = tally->touched_count,
                                  .cell_count = cells,
                                  .bytes = bytes};
        digest->cells = (uint32_t *)(void *)&digest->rows[digest->row_count];
    }
    take_rows(tally, digest, floor, squares);
    clear(tally);
    return digest;
}
