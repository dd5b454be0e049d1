/* Digests of ops, weighed by their steps (drawn.h): stratified sampling, with the variance
 * sum of N^2 (1 - n / N) s^2 / n, s^2 of the steps in the block (Cochran, Sampling
 * Techniques, theorem 5.3). A digest counts for those of its steps that are in the window.
 * Of steps that are no more remembered one by one all weigh the same, and a digest that was
 * merged of a run and what came after it has one mean: of a long run's beginning the
 * weights are coarse.
 */
#include <stdlib.h>

#include "query/drawn.h"
#include "query/ops_inside.h"

struct weighing {
    struct drawing drawn;
    double forgotten; /* weight of a recorded step that is not remembered */
    double scale;     /* of all weights */
};

/* Of digests in one block; before the others, of those not remembered. */
struct block {
    double recorded, steps; /* n, N */
    bool partly;            /* some of its digests' steps lie outside of the window */
};

static bool is_recorded(void *whose, const struct step *step)
{
    const struct ops_asking *asking = whose;
    uint8_t detail = asking->by_kernels ? EVENT_STEP_KERNELS : EVENT_STEP_OPS;

    detail |= asking->by_both ? EVENT_STEP_OPS : 0;
    return (step->flags & detail) == detail && step->whole;
}

static uint64_t recorded_in(const struct ops_asking *asking,
                            const struct digest *digest)
{
    return asking->by_kernels ? digest->span.kernel_steps : digest->span.ops_steps;
}

/* ---- the digests ----------------------------------------------------------------------
 */

static int by_class_then_time(const void *left, const void *right)
{
    const struct ops_use *a = left, *b = right;
    int64_t i = a->digest->span.from_ns, j = b->digest->span.from_ns;

    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* The steps of a digest that are remembered and in the window. */
static void find_steps(const struct drawing *drawing, const struct digest *digest,
                       uint32_t range[2])
{
    range[0] = drawing_from(drawing, digest->span.from_ns);
    range[1] = drawing_from(drawing, digest->span.to_ns);
}

/* Recorded steps of the digest that are not remembered. */
static double forgotten_in(const struct ops_asking *asking,
                           const struct drawing *drawing, const struct digest *digest)
{
    uint32_t range[2];

    find_steps(drawing, digest, range);
    double more = (double)recorded_in(asking, digest) - (range[1] - range[0]);

    return digest->span.from_ns < drawing->remembered_ns && more > 0 ? more : 0;
}

/* Steps that the remembered ones of a digest stand for. */
static double weight_of(const struct drawing *drawing, const struct digest *digest)
{
    uint32_t range[2];

    find_steps(drawing, digest, range);
    return drawing->steps[range[1]].before - drawing->steps[range[0]].before;
}

/* All digests together stand for all steps: those not remembered for what is left, and
 * where some are still to come (kernels are late) the others for these too. */
static void weigh_digests(const struct ops_asking *asking, struct weighing *weighing)
{
    const struct drawing *drawing = &weighing->drawn;
    double all = (double)asking->steps - (double)asking->recorded[DIGEST_TAGGED];
    double left = all - drawing->steps[drawing->count].before;
    double recorded = 0, sum = 0;

    for (uint32_t u = 0; u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN;
         u++) {
        recorded += forgotten_in(asking, drawing, asking->uses[u].digest);
        sum += weight_of(drawing, asking->uses[u].digest);
    }
    if (left > 0 && recorded > 0) {
        weighing->forgotten = left / recorded;
        sum += left;
    }
    weighing->scale = sum > 0 && all > 0 ? all / sum : 0;
}

static void add_row(const struct ops_asking *asking, struct ops_row_sum *row,
                    const struct block *block)
{
    const struct ops_class_sum *part = &row->block;
    struct ops_drawn_sum *drawn = &row->drawn;
    double n = block->recorded, weight = n > 0 ? block->steps / n : 0;
    double mean = n > 0 ? part->self_ns / n : 0, spread = mean * mean; /* of one step */

    drawn->count += weight * (double)part->count;
    drawn->total_ns += weight * part->total_ns;
    drawn->self_ns += weight * part->self_ns;
    if (n > 1)
        spread = fmax((part->squares - n * mean * mean) / (n - 1), 0);
    else if (asking->recorded[DIGEST_DRAWN] == 1)
        spread = block->steps > 1 ? UNKNOWN : 0;
    double variance = n > 0 ? block->steps * block->steps * spread / n : 0;

    drawn->process_variance += variance;
    if (block->partly)
        drawn->variance += variance;
    else if (block->steps > n)
        drawn->variance += (1 - n / block->steps) * variance;
    row->block = (struct ops_class_sum){.count = 0};
}

/* Adds the digests from `first` on that lie in one block; returns where they end. */
static uint32_t add_block(struct ops_asking *asking, const struct weighing *weighing,
                          uint32_t first, uint32_t *touched)
{
    const struct drawing *drawing = &weighing->drawn;
    uint32_t count = 0, u = first, own = UINT32_MAX;
    struct block block = {0};

    for (; u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN; u++) {
        const struct digest *digest = asking->uses[u].digest;
        double n = (double)recorded_in(asking, digest);
        double forgotten = forgotten_in(asking, drawing, digest);
        uint32_t range[2];

        find_steps(drawing, digest, range);
        uint32_t in = range[0] < range[1] ? drawing->steps[range[0]].block + 1 : 0;

        if (u > first && in != own)
            break;
        own = in;
        block.recorded += n;
        block.steps += weighing->scale *
                       (weight_of(drawing, digest) + forgotten * weighing->forgotten);
        block.partly |= weighing->forgotten <= 0 && n > range[1] - range[0];
        for (uint32_t i = 0; i < digest->row_count; i++) {
            struct ops_row_sum *row = &asking->rows[digest->rows[i].row];

            if (digest->rows[i].count > 0 && row->block.count == 0)
                touched[count++] = digest->rows[i].row;
            ops_class_add(&row->block, &digest->rows[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        add_row(asking, &asking->rows[touched[i]], &block);
    return u;
}

int ops_add_drawn(struct ops_asking *asking)
{
    struct weighing weighing = {.scale = 0};

    if (asking->use_count == 0)
        return 0;
    uint32_t *touched = calloc(asking->ops->row_count + 1, sizeof(*touched));
    bool listed = touched != NULL &&
                  drawing_weigh(&weighing.drawn, asking->pick, is_recorded, asking);

    if (listed) {
        qsort(asking->uses, asking->use_count, sizeof(*asking->uses),
              by_class_then_time);
        weigh_digests(asking, &weighing);
        for (uint32_t u = 0;
             u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN;)
            u = add_block(asking, &weighing, u, touched);
    }
    free(touched);
    drawing_free(&weighing.drawn);
    return listed ? 0 : -1;
}
