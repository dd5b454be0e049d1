#include "aggregate/tally.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_FIRST 1024u
/* A tally holds one step, or while merging a few digests: 4 M cells are 64 MiB, which
 * only a hostile job reaches. */
#define CELLS_MAX (1u << 22)

static uint32_t home(const struct tally *tally, uint32_t key)
{
    return (key * 2654435761u) >> 7 & tally->cell_mask;
}

static bool cells_grow(struct tally *tally)
{
    uint32_t capacity = tally->cells == NULL ? CELLS_FIRST : 2 * (tally->cell_mask + 1);
    struct tally_cell *cells =
        capacity > CELLS_MAX ? NULL : calloc(capacity, sizeof(*cells));
    uint32_t *slots =
        cells == NULL ? NULL : realloc(tally->slots, capacity / 2 * sizeof(*slots));

    if (slots == NULL) {
        free(cells);
        return false;
    }
    struct tally_cell *old = tally->cells;

    tally->slots = slots;
    tally->cells = cells;
    tally->cell_mask = capacity - 1;
    for (uint32_t i = 0; i < tally->cell_count; i++) {
        uint32_t slot = home(tally, old[slots[i]].key);

        while (cells[slot].key != 0)
            slot = (slot + 1) & tally->cell_mask;
        cells[slot] = old[slots[i]];
        slots[i] = slot;
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
    free(tally->slots);
    *tally = (struct tally){0};
}

void tally_clear(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->cell_count; i++)
        tally->cells[tally->slots[i]] = (struct tally_cell){0};
    for (uint32_t i = 0; i < tally->touched_count; i++)
        tally->rows[tally->touched[i]] = (struct tally_row){0};
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
    if (tally->cell_count == (tally->cell_mask + 1) / 2 && !cells_grow(tally)) {
        tally->refused++;
        return NULL;
    }
    uint32_t slot = home(tally, key);

    while (tally->cells[slot].key != 0)
        slot = (slot + 1) & tally->cell_mask;
    tally->cells[slot].key = key;
    tally->slots[tally->cell_count++] = slot;
    tally->rows[row].cell_count++;
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

            if (cell == NULL)
                continue;
            uint64_t sum = cell->count + DIGEST_COUNT(cells[c]);

            cell->count = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        }
        cells += from->cell_count;
    }
}

static uint32_t pack(const struct tally_cell *cell)
{
    uint32_t at = (cell->key - 1) % 4096u, count = cell->count;

    if (count < 1u << 19)
        return at | count << 13;
    /* Rounded down at the very top, to fit. */
    uint64_t units = ((uint64_t)count + 4096) >> 13;

    return at | 4096u | (uint32_t)(units < 1u << 19 ? units : (1u << 19) - 1) << 13;
}

/* Self time below which rows lose their cells, so that at most cells_max remain. */
static int64_t cell_floor(const struct tally *tally, uint32_t cells_max)
{
    int64_t floor = INT64_MIN;

    for (uint32_t kept = tally->cell_count;
         kept > cells_max && floor < INT64_MAX / 4;) {
        floor = floor == INT64_MIN ? 1000 : floor * 4;
        kept = 0;
        for (uint32_t i = 0; i < tally->touched_count; i++) {
            const struct tally_row *row = &tally->rows[tally->touched[i]];

            kept += row->self_ns >= floor ? row->cell_count : 0;
        }
    }
    return floor;
}

/* Fills the rows and says where the cells of each go; how many there are. */
static uint32_t seal_rows(struct tally *tally, struct digest_row *rows, int64_t floor,
                          bool squares)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < tally->touched_count; i++) {
        struct tally_row *row = &tally->rows[tally->touched[i]];
        bool keeps = row->self_ns >= floor;
        double self = (double)row->self_ns;

        rows[i] = (struct digest_row){.count = row->count,
                                      .total_ns = row->total_ns,
                                      .self_ns = row->self_ns,
                                      .min_ns = row->min_ns,
                                      .max_ns = row->max_ns,
                                      .self_squares =
                                          squares ? self * self : row->self_squares,
                                      .row = tally->touched[i],
                                      .cell_count = keeps ? row->cell_count : 0};
        row->place = keeps ? next : UINT32_MAX;
        next += rows[i].cell_count;
    }
    return next;
}

struct digest *tally_seal(struct tally *tally, const struct digest_span *span,
                          bool squares, uint32_t cells_max)
{
    int64_t floor = cell_floor(tally, cells_max);
    size_t bytes = sizeof(struct digest) +
                   tally->touched_count * sizeof(struct digest_row) +
                   tally->cell_count * sizeof(uint32_t);
    struct digest *digest = malloc(bytes);

    if (digest == NULL)
        return NULL;
    *digest = (struct digest){
        .span = *span, .row_count = tally->touched_count, .bytes = bytes};
    digest->cells = (uint32_t *)(void *)&digest->rows[digest->row_count];
    digest->cell_count = seal_rows(tally, digest->rows, floor, squares);
    for (uint32_t i = 0; i < tally->cell_count; i++) {
        const struct tally_cell *cell = &tally->cells[tally->slots[i]];
        uint32_t *place = &tally->rows[(cell->key - 1) / 4096u].place;

        if (*place != UINT32_MAX)
            digest->cells[(*place)++] = pack(cell);
    }
    if (digest->cell_count == tally->cell_count)
        return digest;
    digest->bytes -= (tally->cell_count - digest->cell_count) * sizeof(uint32_t);
    struct digest *smaller = realloc(digest, digest->bytes);

    if (smaller == NULL)
        return digest;
    smaller->cells = (uint32_t *)(void *)&smaller->rows[smaller->row_count];
    return smaller;
}
