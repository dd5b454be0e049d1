#include <errno.h>
#include <stdlib.h>

#include "cut/cut_plan.h"

/* Shorter stretches are read faster than they are leapt over. */
#define BLOCK_BYTES UINT64_C(65536)

void cut_blocks_close(struct cut_blocks *blocks)
{
    free(blocks->rows);
    *blocks = (struct cut_blocks){0};
}

static void add_row(struct cut_blocks *blocks, uint64_t offset, struct cut_reach reach)
{
    if (blocks->count == blocks->capacity) {
        size_t capacity = blocks->capacity == 0 ? 256 : blocks->capacity * 2;
        struct cut_block *rows = realloc(blocks->rows, capacity * sizeof(*rows));

        if (rows == NULL) {
            blocks->out_of_memory = true;
            return;
        }
        blocks->rows = rows;
        blocks->capacity = capacity;
    }
    blocks->rows[blocks->count++] = (struct cut_block){offset, reach};
}

static void widen(struct cut_reach *reach, struct cut_reach by)
{
    reach->from_ns = by.from_ns < reach->from_ns ? by.from_ns : reach->from_ns;
    reach->to_ns = by.to_ns > reach->to_ns ? by.to_ns : reach->to_ns;
}

void cut_blocks_take(struct cut_blocks *blocks, const struct trace_head *head,
                     uint64_t offset, struct cut_reach reach)
{
    struct cut_block *last =
        blocks->count > 0 ? &blocks->rows[blocks->count - 1] : NULL;
    uint32_t spans = blocks->spans;

    while (spans < head->span_count && head->spans[spans].offset < offset)
        spans++;
    if (last == NULL) {
        add_row(blocks, offset, cut_reach_always); /* with what stands before it */
    } else if (spans != blocks->spans) {
        last->reach = cut_reach_always; /* keys between two lists of events */
        add_row(blocks, offset, reach);
    } else if (offset - last->offset >= BLOCK_BYTES) {
        add_row(blocks, offset, reach);
    } else {
        widen(&last->reach, reach);
    }
    blocks->spans = spans;
}

/* The last one has no end that is known. */
static bool is_left_out(const struct cut_blocks *blocks, size_t i, int64_t from_ns,
                        int64_t to_ns)
{
    const struct cut_reach *reach = &blocks->rows[i].reach;

    return i + 1 < blocks->count && (reach->to_ns < from_ns || reach->from_ns >= to_ns);
}

int cut_blocks_holes(const struct cut_blocks *blocks, int64_t from_ns, int64_t to_ns,
                     struct trace_hole **holes, uint32_t *count)
{
    const struct cut_block *rows = blocks->rows;
    size_t room = blocks->count / 2 + 1;
    uint32_t made = 0;

    *count = 0;
    *holes = room <= UINT32_MAX ? malloc(room * sizeof(**holes)) : NULL;
    if (*holes == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < blocks->count; i++) {
        if (!is_left_out(blocks, i, from_ns, to_ns))
            continue;
        if (made > 0 && (*holes)[made - 1].to == rows[i].offset)
            (*holes)[made - 1].to = rows[i + 1].offset;
        else
            (*holes)[made++] = (struct trace_hole){rows[i].offset, rows[i + 1].offset};
    }
    *count = made;
    return 0;
}
