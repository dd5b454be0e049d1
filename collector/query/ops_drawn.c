/* Steps whose recording was drawn stand for those around them: the rate of the draw changes
 * (all of the first, slow steps; one in four later), so neighbours are weighed together.
 *
 *     o o o o o o o o o o . . . o . . o . . . . o o ... o . . o . . .    o recorded, . not
 *     | a run: itself   | 16 recorded and the others     | the rest, and the others   |
 *
 * A block of n recorded out of N steps counts N / n times: stratified sampling, with the
 * variance sum of N^2 (1 - n / N) s^2 / n, s^2 of the steps in the block (Cochran, Sampling
 * Techniques, theorem 5.3). Steps recorded on demand stand for themselves and lie in no
 * block. A digest counts for those of its steps that are in the window. Of steps that are
 * no more remembered one by one all weigh the same, and a digest that was merged of a run
 * and what came after it has one mean: of a long run's beginning the weights are coarse.
 */
#include <math.h>
#include <stdlib.h>

#include "query/ops_inside.h"

#define BLOCK_STEPS 16u /* recorded: a weight is then good to a quarter */
#define RUN_STEPS   8u  /* in a row: no accident, nor a block of the draw, but its rate */
#define LEAST_STEPS 4u  /* of the last block of a stretch, where there is one before it */

/* A step that was drawn. */
struct drawn {
    int64_t start_ns;
    double gap;    /* steps before it that were not recorded */
    double weight; /* steps it stands for, itself among them */
    double before; /* weights of all before it */
    uint32_t block;
};

struct drawing {
    struct drawn *steps; /* of the window, as far as they are remembered, and one more */
    uint32_t count, blocks;
    int64_t remembered_ns; /* what began before is not remembered */
    double trailing;  /* steps behind the last one */
    double forgotten; /* weight of a recorded step that is not remembered */
    double scale;     /* of all weights */
};

/* Of digests in one block; before the others, of those not remembered. */
struct block {
    double recorded, steps; /* n, N */
    bool partly;            /* some of its digests' steps lie outside of the window */
};

static bool is_recorded(const struct ops_asking *asking, const struct step *step)
{
    uint8_t detail = asking->request->device == OPS_ACCELERATOR ? EVENT_STEP_KERNELS
                                                                : EVENT_STEP_OPS;

    return (step->flags & detail) != 0 && step->whole;
}

static uint64_t recorded_in(const struct ops_asking *asking,
                            const struct digest *digest)
{
    return asking->request->device == OPS_ACCELERATOR ? digest->span.kernel_steps
                                                      : digest->span.ops_steps;
}

/* ---- the steps ------------------------------------------------------------------------
 */

static bool list_steps(const struct ops_asking *asking, struct drawing *drawing)
{
    const struct steps *steps = &asking->pick->process->steps;
    uint32_t count, first = pick_steps(asking->pick, &count);
    double others = 0;

    drawing->steps = calloc(count + 1u, sizeof(*drawing->steps));
    drawing->remembered_ns = count > 0 ? steps_at(steps, first)->start_ns : INT64_MAX;
    for (uint32_t i = first; drawing->steps != NULL && i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & (EVENT_STEP_VALIDATION | EVENT_STEP_WINDOW))
            continue;
        if (!is_recorded(asking, step)) {
            others++;
        } else if (!(step->flags & EVENT_STEP_TAGGED)) {
            drawing->steps[drawing->count++] =
                (struct drawn){.start_ns = step->start_ns, .gap = others};
            others = 0;
        }
    }
    drawing->trailing = others;
    return drawing->steps != NULL;
}

/* Steps first..end-1 are a block, which stands for `more` steps besides. */
static void weigh_block(struct drawing *drawing, uint32_t first, uint32_t end,
                        double more)
{
    double steps = more + (end - first);

    for (uint32_t i = first; i < end; i++)
        steps += i > first ? drawing->steps[i].gap : 0;
    for (uint32_t i = first; i < end; i++) {
        drawing->steps[i].weight = steps / (end - first);
        drawing->steps[i].block = drawing->blocks;
    }
    drawing->blocks++;
}

/* Where the steps end that follow `first` without a gap. */
static uint32_t end_of_row(const struct drawing *drawing, uint32_t first)
{
    uint32_t end = first + 1;

    while (end < drawing->count && drawing->steps[end].gap <= 0)
        end++;
    return end;
}

/* Where the next run begins, at `at` or later; its end in *end. */
static uint32_t next_run(const struct drawing *drawing, uint32_t at, uint32_t *end)
{
    for (; at < drawing->count; at = *end) {
        *end = end_of_row(drawing, at);
        if (*end - at >= RUN_STEPS)
            return at;
    }
    return *end = drawing->count;
}

/* A stretch without runs; `more`: steps behind it that are nobody else's. */
static void weigh_stretch(struct drawing *drawing, uint32_t first, uint32_t end,
                          double more)
{
    while (first < end) {
        uint32_t left = end - first;
        uint32_t size = left >= BLOCK_STEPS + LEAST_STEPS ? BLOCK_STEPS : left;

        weigh_block(drawing, first, first + size,
                    drawing->steps[first].gap + (size == left ? more : 0));
        first += size;
    }
}

/* Steps between two runs are of the stretch between them; without one, of the later. */
static void weigh_steps(struct drawing *drawing)
{
    double sum = 0;

    for (uint32_t at = 0, end; at < drawing->count; at = end) {
        uint32_t run = next_run(drawing, at, &end);
        bool last = end == drawing->count;
        double behind = run < end ? drawing->steps[run].gap : drawing->trailing;

        weigh_stretch(drawing, at, run, behind);
        if (run < end)
            weigh_block(drawing, run, end,
                        (run > at ? 0 : behind) + (last ? drawing->trailing : 0));
    }
    for (uint32_t i = 0; i <= drawing->count; i++) {
        drawing->steps[i].before = sum;
        sum += i < drawing->count ? drawing->steps[i].weight : 0;
    }
}

/* The first of them that began at `time_ns` or later. */
static uint32_t first_from(const struct drawing *drawing, int64_t time_ns)
{
    uint32_t low = 0, high = drawing->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (drawing->steps[middle].start_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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
    range[0] = first_from(drawing, digest->span.from_ns);
    range[1] = first_from(drawing, digest->span.to_ns);
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
static void weigh_digests(const struct ops_asking *asking, struct drawing *drawing)
{
    double all = (double)asking->steps - (double)asking->recorded[DIGEST_TAGGED];
    double left = all - drawing->steps[drawing->count].before;
    double recorded = 0, sum = 0;

    for (uint32_t u = 0;
         u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN; u++) {
        recorded += forgotten_in(asking, drawing, asking->uses[u].digest);
        sum += weight_of(drawing, asking->uses[u].digest);
    }
    if (left > 0 && recorded > 0) {
        drawing->forgotten = left / recorded;
        sum += left;
    }
    drawing->scale = sum > 0 && all > 0 ? all / sum : 0;
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
        spread = block->steps > 1 ? (double)NAN : 0;
    double variance = n > 0 ? block->steps * block->steps * spread / n : 0;

    drawn->process_variance += variance;
    if (block->partly)
        drawn->variance += variance;
    else if (block->steps > n)
        drawn->variance += (1 - n / block->steps) * variance;
    row->block = (struct ops_class_sum){.count = 0};
}

/* Adds the digests from `first` on that lie in one block; returns where they end. */
static uint32_t add_block(struct ops_asking *asking, const struct drawing *drawing,
                          uint32_t first, uint32_t *touched)
{
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
        block.steps += drawing->scale * (weight_of(drawing, digest) +
                                         forgotten * drawing->forgotten);
        block.partly |= drawing->forgotten <= 0 && n > range[1] - range[0];
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
    struct drawing drawing = {0};

    if (asking->use_count == 0)
        return 0;
    uint32_t *touched = calloc(asking->ops->row_count + 1, sizeof(*touched));
    bool listed = touched != NULL && list_steps(asking, &drawing);

    if (listed) {
        weigh_steps(&drawing);
        qsort(asking->uses, asking->use_count, sizeof(*asking->uses),
              by_class_then_time);
        weigh_digests(asking, &drawing);
        for (uint32_t u = 0;
             u < asking->use_count && asking->uses[u].class == DIGEST_DRAWN;)
            u = add_block(asking, &drawing, u, touched);
    }
    free(touched);
    free(drawing.steps);
    return listed ? 0 : -1;
}
