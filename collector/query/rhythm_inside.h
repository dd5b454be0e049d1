/* Rhythm's own: the steps that it looks at, and the sums of one cause. Each finder takes
 * from the steps what it explains, in the order of parts_rhythm(). */
#ifndef QUERY_RHYTHM_INSIDE_H
#define QUERY_RHYTHM_INSIDE_H

#include "query/parts.h"

#define RHYTHM_PARTS (EVENT_PHASES + 1u) /* the phases, then other */

struct rhythm_item {
    const struct step *step;
    double left;   /* of its duration, not explained yet */
    uint32_t at;   /* its place among all steps: some of them are not looked at */
    bool periodic; /* it is slow as all at a period are: what is usual leaves it out */
};

struct rhythm_work {
    struct rhythm_item *items;
    double *numbers; /* scratch, one for each item */
    uint32_t count;
    double median, medians[RHYTHM_PARTS];
    double rare_from; /* what is longer is rare */
};

/* A part of a step: enum event_phase, EVENT_PHASES other; NaN unknown. */
static inline double rhythm_part_ns(const struct step *step, uint32_t part)
{
    return part < EVENT_PHASES ? step_phase_ns(step, part) : step_other_ns(step);
}

/* Over the median; what is below is nothing to win. */
static inline double rhythm_over(const struct rhythm_work *work, uint32_t i)
{
    double over = work->items[i].left - work->median;

    return over > 0 ? over : 0;
}

/* Places from the first step that is looked at to the last. */
static inline uint32_t rhythm_places(const struct rhythm_work *work)
{
    return work->items[work->count - 1].at + 1;
}

/* Sums for one cause. */
struct rhythm_sums {
    double ns, squares, grown[RHYTHM_PARTS];
    struct rhythm_extra extra;
};

/* `ns` of a step that need not be among the items. */
void rhythm_add(const struct rhythm_work *work, struct rhythm_sums *sums,
                const struct step *step, double ns);

/* `ns` of item `i`: explained. */
void rhythm_take(const struct rhythm_work *work, struct rhythm_sums *sums, uint32_t i,
                 double ns);

/* The sums of one cause, over the window. */
struct rhythm_extra rhythm_finish(const struct rhythm_work *work,
                                  struct rhythm_sums *sums);

/* The sums of what comes again and again. */
struct rhythm_extra rhythm_finish_cycles(struct rhythm_sums *sums,
                                         const struct cycles_price *price);

/* Marks the steps that are slow at a period, beside a median of all that half of them may
 * exceed: before anything is called usual, or a slow first step a warm-up. */
void rhythm_mark_period(struct rhythm_work *work);

/* What comes at every n-th step; else, in a period longer than the window shows, of all
 * pauses that are remembered. */
void rhythm_find_period(struct rhythm_work *work, struct rhythm *rhythm);
void rhythm_find_pauses(const struct pick *pick, struct rhythm_work *work,
                        struct rhythm *rhythm);

void rhythm_find_drift(struct rhythm_work *work, struct rhythm *rhythm);

/* What is longer or shorter for the size of its batch. */
void rhythm_take_sizes(struct rhythm_work *work, struct rhythm *rhythm);

#endif
