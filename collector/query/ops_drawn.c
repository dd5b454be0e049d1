/* Steps whose recording was drawn stand for those around them: the rate of the draw changes
 * (all of the first, slow steps; one in four later), so neighbours are weighed together.
 *
 *     | o o o o o o o o o | . . . o . . o . . . . o o ... | o . . .    o recorded, . not
 *       recorded throughout   16 recorded steps             the rest joins the block before
 *
 * A block of n recorded out of N steps counts N / n times: stratified sampling, with the
 * variance sum of N^2 (1 - n / N) s^2 / n, s^2 of the steps in the block (Cochran, Sampling
 * Techniques, theorem 5.3). Fewer than two blocks are one: simple random sampling.
 */
#include <math.h>
#include <stdlib.h>

#include "query/ops_inside.h"

#define BLOCK_STEPS 16.0 /* recorded: a weight is then good to a quarter */
#define RUN_STEPS   8.0  /* in a row: no accident, nor a block of the draw, but its rate */
#define LEAST_STEPS 4.0  /* of the last block */

struct block {
    uint32_t first_use, end_use; /* in asking->uses */
    double recorded;             /* n, at least 1 but where nothing was recorded */
    double steps;                /* N */
};

static uint64_t recorded_in(const struct ops_asking *asking,
                            const struct digest *digest)
{
    return asking->request->device == OPS_ACCELERATOR ? digest->span.kernel_steps
                                                      : digest->span.ops_steps;
}

static int by_class_then_step(const void *left, const void *right)
{
    const struct ops_use *a = left, *b = right;
    int64_t i = a->digest->span.first_step, j = b->digest->span.first_step;

    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Steps recorded on demand before step `to`, which stand for themselves; `*use` walks on
 * over their uses, which stand behind the drawn ones. */
static double tagged_until(const struct ops_asking *asking, uint32_t *use, int64_t to)
{
    double tagged = 0;

    for (; *use < asking->use_count; (*use)++) {
        const struct ops_use *one = &asking->uses[*use];

        if (one->class > DIGEST_TAGGED || one->digest->span.first_step >= to)
            break;
        tagged += (double)one->digest->span.steps;
    }
    return tagged;
}

static bool is_run(const struct block *block, int64_t first_step, int64_t last_step)
{
    return block->recorded >= RUN_STEPS &&
           block->recorded >= (double)last_step - (double)first_step + 1;
}

/* The drawn uses stand first; returns the number of blocks. */
static uint32_t find_blocks(const struct ops_asking *asking, struct block *blocks)
{
    const struct digest_span *first = NULL, *before = NULL;
    struct block *block = blocks; /* before the first, one that is full */

    block->recorded = BLOCK_STEPS;
    for (uint32_t u = 0;
         u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN; u++) {
        const struct digest_span *span = &asking->uses[u].digest->span;
        bool full = block->recorded >= BLOCK_STEPS;

        if (full || (is_run(block, first->first_step, before->last_step) &&
                     span->first_step > before->last_step + 1)) {
            block += first == NULL ? 0 : 1;
            *block = (struct block){.first_use = u};
            first = span;
        }
        block->recorded += (double)recorded_in(asking, asking->uses[u].digest);
        block->end_use = u + 1;
        before = span;
    }
    if (first == NULL)
        return 0;
    if (block > blocks && block->recorded < LEAST_STEPS) {
        block[-1].end_use = block->end_use;
        block[-1].recorded += block->recorded;
        block--;
    }
    return (uint32_t)(block - blocks) + 1;
}

/* All blocks together stand for `rest` steps: each for those up to the next. */
static void weigh_blocks(const struct ops_asking *asking, struct block *blocks,
                         uint32_t count, double rest)
{
    const struct answer_window *window = &asking->pick->head->window;
    uint32_t tagged = count > 0 ? blocks[count - 1].end_use : 0;
    double all = 0;

    for (uint32_t b = 0; b < count; b++) {
        int64_t from = asking->uses[blocks[b].first_use].digest->span.first_step;
        int64_t to = window->last_step + 1;

        if (b == 0 && window->first_step < from)
            from = window->first_step;
        if (b + 1 < count)
            to = asking->uses[blocks[b + 1].first_use].digest->span.first_step;
        double steps = (double)to - (double)from - tagged_until(asking, &tagged, to);

        blocks[b].steps = fmax(steps, blocks[b].recorded);
        all += blocks[b].steps;
    }
    for (uint32_t b = 0; b < count && all > 0; b++)
        blocks[b].steps *= rest / all;
}

static void add_row(struct ops_row_sum *row, const struct block *block)
{
    const struct ops_class_sum *part = &row->block;
    struct ops_drawn_sum *drawn = &row->drawn;
    double n = block->recorded, weight = n > 0 ? block->steps / n : 0;

    drawn->count += weight * (double)part->count;
    drawn->total_ns += weight * part->total_ns;
    drawn->self_ns += weight * part->self_ns;
    if (n > 1) {
        double mean = part->self_ns / n;
        double spread = fmax((part->squares - n * mean * mean) / (n - 1), 0);
        double variance = block->steps * block->steps * spread / n;

        drawn->process_variance += variance;
        if (block->steps > n)
            drawn->variance += (1 - n / block->steps) * variance;
    } else if (block->steps > n) {
        drawn->variance = drawn->process_variance = (double)NAN;
    }
    row->block = (struct ops_class_sum){.count = 0};
}

static void add_block(struct ops_asking *asking, const struct block *block,
                      uint32_t *touched)
{
    uint32_t count = 0;

    for (uint32_t u = block->first_use; u < block->end_use; u++) {
        const struct digest *digest = asking->uses[u].digest;

        for (uint32_t i = 0; i < digest->row_count; i++) {
            struct ops_row_sum *row = &asking->rows[digest->rows[i].row];

            if (digest->rows[i].count > 0 && row->block.count == 0)
                touched[count++] = digest->rows[i].row;
            ops_class_add(&row->block, &digest->rows[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        add_row(&asking->rows[touched[i]], block);
}

int ops_add_drawn(struct ops_asking *asking)
{
    double all = (double)asking->steps,
           tagged = (double)asking->recorded[DIGEST_TAGGED];
    struct block *blocks = calloc(asking->use_count + 1, sizeof(*blocks));
    uint32_t *touched = calloc(asking->ops->row_count + 1, sizeof(*touched));
    bool failed = blocks == NULL || touched == NULL;

    if (!failed) {
        qsort(asking->uses, asking->use_count, sizeof(*asking->uses),
              by_class_then_step);
        uint32_t count = find_blocks(asking, blocks);

        weigh_blocks(asking, blocks, count, all > tagged ? all - tagged : 0);
        for (uint32_t b = 0; b < count; b++)
            add_block(asking, &blocks[b], touched);
    }
    free(blocks);
    free(touched);
    return failed ? -1 : 0;
}
