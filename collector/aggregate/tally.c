#include "aggregate/tally.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_FIRST 1024u
/* A tally holds one step, or while merging a few digests: 4 M cells are 64 MiB, which
 * only a hostile job reaches. */
#define CELLS_MAX (1u << 22)

static bool cells_grow(struct tally *tally)
{
    uint32_t capacity = tally->cells == NULL ? CELLS_FIRST : 2 * (tally->cell_mask + 1);

    if (capacity > CELLS_MAX)
        return false;
    struct tally_cell *old = tally->cells;
    uint32_t old_capacity = old == NULL ? 0 : tally->cell_mask + 1;
    struct tally_cell *cells = calloc(capacity, sizeof(*cells));

    if (cells == NULL)
        return false;
    tally->cells = cells;
    tally->cell_mask = capacity - 1;
    tally->cell_count = 0;
    for (uint32_t i = 0; i < tally->touched_count; i++)
        tally->rows[tally->touched[i]].first_cell = 0;
    for (uint32_t i = 1; i < old_capacity; i++) {
        if (old[i].key == 0)
            continue;
        uint32_t key = old[i].key - 1;

        tally_cell_find(tally, key / 4096u, key % 4096u)->count = old[i].count;
    }
    free(old);
    return true;
}

bool tally_reserve(struct tally *tally, uint32_t rows)
{
    if (tally->cells == NULL && !cells_grow(tally))
        return false;
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
    tally->row_capacity = capacity;
    return true;
}

void tally_free(struct tally *tally)
{
    free(tally->rows);
    free(tally->touched);
    free(tally->cells);
    *tally = (struct tally){0};
}

void tally_clear(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];

        for (uint32_t slot = row->first_cell; slot != 0;) {
            uint32_t next = tally->cells[slot].next;

            tally->cells[slot] = (struct tally_cell){0};
            slot = next;
        }
        *row = (struct tally_row){0};
    }
    tally->touched_count = 0;
    tally->cell_count = 0;
}

void tally_touch(struct tally *tally, uint32_t row)
{
    tally->rows[row].min_ns = INT64_MAX;
    tally->rows[row].max_ns = INT64_MIN;
    tally->touched[tally->touched_count++] = row;
}

struct tally_cell *tally_cell_add(struct tally *tally, uint32_t row, uint32_t key)
{
    if (tally->cell_count >= tally->cell_mask / 2 && !cells_grow(tally) &&
        tally->cell_count >= tally->cell_mask - tally->cell_mask / 8) {
        tally->refused++;
        return NULL;
    }
    uint32_t slot = (key * 2654435761u) >> 7 & tally->cell_mask;

    while (slot == 0 || tally->cells[slot].key != 0)
        slot = (slot + 1) & tally->cell_mask;
    tally->cells[slot] =
        (struct tally_cell){.key = key, .next = tally->rows[row].first_cell};
    tally->rows[row].first_cell = slot;
    tally->cell_count++;
    return &tally->cells[slot];
}

void tally_add_digest(struct tally *tally, const struct digest *digest)
{
    const uint32_t *cells = digest->cells;

    for (uint32_t i = 0; i < digest->row_count; i++) {
        const struct digest_row *from = &digest->rows[i];
        struct tally_row *to = &tally->rows[from->row];

        if (to->count == 0)
            tally_touch(tally, from->row);
        to->count += from->count;
        to->total_ns += from->total_ns;
        to->self_ns += from->self_ns;
        to->self_squares += from->self_squares;
        to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
        to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
        for (uint32_t c = 0; c < from->cell_count; c++) {
            struct tally_cell *cell =
                tally_cell_find(tally, from->row, DIGEST_CELL(cells[c]));

            if (cell != NULL)
                cell->count += DIGEST_COUNT(cells[c]);
        }
        cells += from->cell_count;
    }
}

/* How many packed cells a count takes. */
#define EXACT_MAX  ((1u << 19) - 1)
#define SCALED_MAX ((uint64_t)EXACT_MAX << 10)

static uint32_t pack(uint32_t cell, uint64_t count, uint32_t *out)
{
    uint32_t packed = 0;

    for (; count > EXACT_MAX; packed++) {
        uint64_t part = count < SCALED_MAX ? (count + 512) >> 10 : EXACT_MAX;

        part = part > EXACT_MAX ? EXACT_MAX : part;
        if (out != NULL)
            out[packed] = cell | 4096u | (uint32_t)part << 13;
        count = count > part << 10 && count > SCALED_MAX ? count - (part << 10) : 0;
    }
    if (count > 0 || packed == 0) {
        if (out != NULL)
            out[packed] = cell | (uint32_t)count << 13;
        packed++;
    }
    return packed;
}

/* Packs the cells of `row` to `out`, or only counts them when it is NULL. */
static uint32_t pack_row(const struct tally *tally, const struct tally_row *row,
                         uint32_t *out)
{
    uint32_t count = 0;

    for (uint32_t slot = row->first_cell; slot != 0; slot = tally->cells[slot].next) {
        const struct tally_cell *cell = &tally->cells[slot];

        count += pack((cell->key - 1) % 4096u, cell->count,
                      out == NULL ? NULL : out + count);
    }
    return count;
}

/* Self time below which rows lose their cells, so that about cells_max remain. */
static int64_t cell_floor(const struct tally *tally, uint32_t cells_max)
{
    int64_t floor = 0;

    for (uint32_t kept = UINT32_MAX; kept > cells_max && floor < INT64_MAX / 4;) {
        floor = floor == 0 ? 1000 : floor * 4;
        kept = 0;
        for (uint32_t i = 0; i < tally->touched_count; i++) {
            const struct tally_row *row = &tally->rows[tally->touched[i]];

            if (row->self_ns >= floor)
                kept += pack_row(tally, row, NULL);
        }
    }
    return floor;
}

struct digest *tally_seal(const struct tally *tally, const struct digest_span *span,
                          bool squares, uint32_t cells_max)
{
    int64_t floor =
        tally->cell_count > cells_max ? cell_floor(tally, cells_max) : INT64_MIN;
    uint32_t cell_count = 0, next = 0;

    for (uint32_t i = 0; i < tally->touched_count; i++) {
        const struct tally_row *row = &tally->rows[tally->touched[i]];

        if (row->self_ns >= floor)
            cell_count += pack_row(tally, row, NULL);
    }
    size_t bytes = sizeof(struct digest) +
                   tally->touched_count * sizeof(struct digest_row) +
                   cell_count * sizeof(uint32_t);
    struct digest *digest = malloc(bytes);

    if (digest == NULL)
        return NULL;
    *digest = (struct digest){.span = *span,
                              .row_count = tally->touched_count,
                              .cell_count = cell_count,
                              .bytes = bytes};
    digest->cells = (uint32_t *)(void *)&digest->rows[digest->row_count];
    for (uint32_t i = 0; i < tally->touched_count; i++) {
        const struct tally_row *row = &tally->rows[tally->touched[i]];
        struct digest_row *to = &digest->rows[i];
        double self = (double)row->self_ns;

        *to = (struct digest_row){.count = row->count,
                                  .total_ns = row->total_ns,
                                  .self_ns = row->self_ns,
                                  .min_ns = row->min_ns,
                                  .max_ns = row->max_ns,
                                  .self_squares =
                                      squares ? self * self : row->self_squares,
                                  .row = tally->touched[i]};
        if (row->self_ns >= floor)
            to->cell_count = pack_row(tally, row, digest->cells + next);
        next += to->cell_count;
    }
    return digest;
}
