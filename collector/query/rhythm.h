/* What the steps of a window have in common beyond their mean: extra time of some steps,
 * each instant of it under one cause.
 *
 * Steps that are slow at a fixed period are sought first: they are not the usual ones, and
 * no warm-up, which ends. Causes are asked in this order, and what one takes the later ones
 * do not see: garbage collections; the first steps of the run; those of each epoch; a fixed
 * period, also one of which the window shows few or none (query/pauses.h); a trend; the size of
 * the batch, that forward and backward grow with alike. What is left is unsteadiness
 * without a name.
 *
 * What comes again and again is priced by its cycles, a mean extra time over a mean
 * distance, and is as sure as both are: a window's first and last cycle are not whole.
 */
#ifndef QUERY_RHYTHM_H
#define QUERY_RHYTHM_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/event.h"

/* Of longer windows the newest steps alone are looked at. */
#define RHYTHM_STEPS 2048u

/* All zero: there is none. */
struct rhythm_extra {
    double ns_per_step; /* of the window */
    double error_ns;    /* half of its 95 % interval; NaN unknown */
    double data_ns;     /* of ns_per_step, in data loading */
    double longer_ns;   /* likewise, that they are over the median (of `gc`); NaN where
                         * that is one of them */
    uint32_t steps;     /* that have it */
    uint32_t of;        /* so many; 0: of all that were looked at */
    uint32_t part;      /* enum event_phase that grew most; EVENT_PHASES: other */
    int64_t worst_step; /* meaningful where there are steps */
    double worst_ns;    /* how much longer it was */
};

struct rhythm {
    uint32_t steps;                    /* that were looked at; 0: nothing is known */
    double median_ns, median_other_ns; /* NaN unknown */
    double median_before_forward_ns, median_before_update_ns; /* parts of other */
    /* Mean of what steps take in no phase beside what comes at a period, with collections or
     * with first batches, and half of its 95 % interval; NaN unknown. */
    double other_left_ns, other_left_error_ns;
    struct rhythm_extra gc, warm_up, epoch, period, drift, rest;
    /* Of `rest`: the few steps that are still far longer than all others
     * (numbers_rare_from). Its error is theirs, as if they came at random. */
    struct rhythm_extra rare;
    /* Batches of different size; the shorter steps count against the longer. */
    struct rhythm_extra sizes;
    double steps_per_epoch; /* NaN without two starts in the window */
    double late_share; /* of the window: since when epochs begin late; 0: they do not */
    uint32_t period_steps; /* 0: none */
    bool period_is_rough;  /* it is one of time, and so many steps in the mean */
    double first_ns,
        last_ns; /* level at both ends of the drift's steps, the newest; NaN */
};

#endif
