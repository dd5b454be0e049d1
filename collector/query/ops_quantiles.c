/* Percentiles: the cells of a row's durations, of all digests together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/ops_inside.h"

struct cell_count {
    uint32_t cell;
    uint64_t count;
};

static int ascending_cell(const void *left, const void *right)
{
    const struct cell_count *a = left, *b = right;

    return a->cell < b->cell ? -1 : a->cell > b->cell;
}

static double quantile(const struct cell_count *cells, uint32_t count, uint64_t total,
                       double share)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < count; i++) {
        seen += cells[i].count;
        if ((double)seen >= share * (double)total)
            return histogram_value(cells[i].cell);
    }
    return UNKNOWN;
}

#define CELLS (DIGEST_CELL(UINT32_MAX) + 1)

/* Each cell once, ascending; how many there are. Many digests have the same few hundred
 * cells, that are counted sooner than they are sorted. `counts`: room for CELLS, too much
 * for the stack of a connection's thread. */
static uint32_t merge_cells(uint64_t *counts, struct cell_count *cells, uint32_t count)
{
    uint32_t merged = 0;

    memset(counts, 0, CELLS * sizeof(*counts));
    for (uint32_t i = 0; i < count; i++)
        counts[cells[i].cell] += cells[i].count;
    for (uint32_t cell = 0; cell < CELLS; cell++)
        if (counts[cell] > 0)
            cells[merged++] = (struct cell_count){cell, counts[cell]};
    return merged;
}

static void measure(struct op_row *row, uint64_t *counts, struct cell_count *cells,
                    uint32_t count)
{
    uint64_t total = 0;

    if (count >= CELLS / 16)
        count = merge_cells(counts, cells, count);
    else
        qsort(cells, count, sizeof(*cells), ascending_cell);
    for (uint32_t i = 0; i < count; i++)
        total += cells[i].count;
    row->p50_ns = quantile(cells, count, total, 0.50);
    row->p95_ns = quantile(cells, count, total, 0.95);
    row->p99_ns = quantile(cells, count, total, 0.99);
}

/* Walks the cells of wanted rows: `place` says where each row's begin (or how many, when
 * `cells` is NULL). */
static void walk_cells(const struct ops_asking *asking, uint32_t *place,
                       struct cell_count *cells)
{
    for (uint32_t u = 0; u < asking->use_count; u++) {
        const struct digest *digest = asking->uses[u].digest;
        const uint32_t *from = digest->cells;

        for (uint32_t i = 0; i < digest->row_count; i++) {
            const struct digest_row *row = &digest->rows[i];
            uint32_t *at = &place[row->row];
            enum ops_kind kind = asking->ops->rows[row->row].kind;

            if (*at != UINT32_MAX && ops_tells(asking, kind, asking->uses[u].class)) {
                for (uint32_t c = 0; cells != NULL && c < row->cell_count; c++)
                    cells[*at + c] = (struct cell_count){DIGEST_CELL(from[c]),
                                                         DIGEST_COUNT(from[c])};
                *at += row->cell_count;
            }
            from += row->cell_count;
        }
    }
}

int ops_measure(struct ops_asking *asking, uint32_t count)
{
    uint32_t *place = malloc((asking->ops->row_count + 1) * sizeof(*place));
    uint32_t total = 0;
    int error = place == NULL ? -ENOMEM : 0;
    struct cell_count *cells = NULL;
    uint64_t *counts = NULL;

    if (error == 0) {
        memset(place, 0xff, (asking->ops->row_count + 1) * sizeof(*place));
        for (uint32_t i = 0; i < count; i++)
            if (asking->rows[i].row != OPS_NO_ROW)
                place[asking->rows[i].row] = 0;
        walk_cells(asking, place, NULL);
        for (uint32_t i = 0; i < count; i++) {
            if (asking->rows[i].row == OPS_NO_ROW)
                continue;
            uint32_t *at = &place[asking->rows[i].row], length = *at;

            *at = total;
            total += length;
        }
        cells = malloc((total + 1) * sizeof(*cells));
        counts = malloc(CELLS * sizeof(*counts));
        error = cells == NULL || counts == NULL ? -ENOMEM : 0;
    }
    if (error == 0) {
        walk_cells(asking, place, cells);
        /* Each place is now where its row's cells end. */
        for (uint32_t i = 0, from = 0; i < count; i++) {
            if (asking->rows[i].row == OPS_NO_ROW)
                continue;
            uint32_t to = place[asking->rows[i].row];

            measure(&asking->rows[i].answer, counts, cells + from, to - from);
            from = to;
        }
    }
    free(counts);
    free(cells);
    free(place);
    return error;
}
