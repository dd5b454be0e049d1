#include "query/drawn.h"

#include <stdlib.h>

#include "aggregate/sum.h"
#include "query/numbers.h"

#define BLOCK_STEPS 16u /* recorded: a weight is then good to a quarter */
#define RUN_STEPS   8u /* in a row: no accident, nor a block of the draw, but its rate */
#define LEAST_STEPS                                                                    \
    4u /* of the last block of a stretch, where there is one before it */

static bool list_steps(struct drawing *drawing, const struct pick *pick,
                       drawn_is_recorded *is_recorded, void *whose)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);
    double others = 0;

    drawing->steps = calloc(count + 1u, sizeof(*drawing->steps));
    drawing->remembered_ns = count > 0 ? steps_at(steps, first)->start_ns : INT64_MAX;
    for (uint32_t i = first; drawing->steps != NULL && i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & STEP_APART)
            continue;
        if (!is_recorded(whose, step)) {
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

/* Where the next run of steps without a gap begins, at `at` or later; its end in *end. */
static uint32_t next_run(const struct drawing *drawing, uint32_t at, uint32_t *end)
{
    for (; at < drawing->count; at = *end) {
        *end = at + 1;
        while (*end < drawing->count && drawing->steps[*end].gap <= 0)
            ++*end;
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

bool drawing_weigh(struct drawing *drawing, const struct pick *pick,
                   drawn_is_recorded *is_recorded, void *whose)
{
    *drawing = (struct drawing){0};
    if (!list_steps(drawing, pick, is_recorded, whose))
        return false;
    weigh_steps(drawing);
    return true;
}

void drawing_free(struct drawing *drawing)
{
    free(drawing->steps);
    *drawing = (struct drawing){0};
}

uint32_t drawing_from(const struct drawing *drawing, int64_t time_ns)
{
    return numbers_upto(&drawing->steps[0].start_ns, sizeof(drawing->steps[0]),
                        drawing->count, time_after(time_ns, -1));
}
