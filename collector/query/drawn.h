/* Steps whose recording was drawn stand for those around them: the rate of the draw changes
 * (all of the first, slow steps; one in four later), so neighbours are weighed together.
 *
 *     o o o o o o o o o o . . . o . . o . . . . o o ... o . . o . . .    o recorded, . not
 *     | a run: itself   | 16 recorded and the others     | the rest, and the others   |
 *
 * A block of n recorded out of N steps counts N / n times: stratified sampling (Cochran,
 * Sampling Techniques, chapter 5). Steps recorded on demand stand for themselves and lie in
 * no block.
 */
#ifndef QUERY_DRAWN_H
#define QUERY_DRAWN_H

#include "query/pick.h"

/* A step that was drawn. */
struct drawn {
    int64_t start_ns;
    double gap;    /* steps before it that were not recorded */
    double weight; /* steps it stands for, itself among them */
    double before; /* weights of all before it */
    uint32_t block;
};

struct drawing {
    struct drawn
        *steps; /* of the window, as far as they are remembered, and one more */
    uint32_t count, blocks;
    int64_t remembered_ns; /* what began before is not remembered */
    double trailing;       /* steps behind the last one */
};

/* Was all of it recorded that is asked about? Steps come in their order. */
typedef bool drawn_is_recorded(void *whose, const struct step *step);

/* Lists the training steps of the window and weighs them. drawing_free() is owed, whatever
 * it returns; false: no memory. */
MUST_CHECK bool drawing_weigh(struct drawing *drawing, const struct pick *pick,
                              drawn_is_recorded *is_recorded, void *whose);
void drawing_free(struct drawing *drawing);

/* The first of them that began at `time_ns` or later; drawing->count: none. */
uint32_t drawing_from(const struct drawing *drawing, int64_t time_ns);

#endif
