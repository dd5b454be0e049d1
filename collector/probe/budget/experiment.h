/* What watching costs, measured in the user's own job: recorded steps, or ordinary ones,
 * against bare control steps.
 *
 * The datum is a pair, a recorded block and the control block nearest to it in time:
 *
 *     d = (mean step of the recorded block) - (mean step of the control block)
 *
 * Which block is which was drawn at random, so without a cost d and -d are equally
 * likely, however skewed, periodic, drifting or autocorrelated the steps are; a cost
 * moves the centre of that symmetric distribution and nothing else. The centre is
 * found without bias, and without minding stalls or pairs of unlike steps (a logging
 * step against an ordinary one), by Huber's M-estimator ("Robust Estimation of a
 * Location Parameter", 1964; interval from its sandwich variance, Huber and Ronchetti,
 * "Robust Statistics", 6.4, with Student's t): a difference counts up to 1.5 standard
 * deviations of the densest third, and no more. Pairs in which the recorded block came
 * first and pairs in which the control block did take turns, so that a drift cancels.
 *
 * What it measures is the cost of ordinary steps; one that only rare and slow steps
 * have is not in it.
 *
 * Memory is fixed: a batch of EXPERIMENT_BATCH pairs is folded into sums weighted by
 * its precision. Old batches fade, so that a job that changes is followed.
 *
 * Steps needed. With s the standard deviation of ordinary steps, L the steps in a block
 * (the first is not compared) and n pairs, the interval is the effect +/- h,
 *
 *     h = 2.0 s sqrt(2 / ((L - 1) n)),     n = 8.2 (s / h)^2 / (L - 1)
 *
 * For a job that starts at rate 1 with L = 3 (a pair in 13 steps as long as a
 * third of the blocks is bare, later in 150), h = 1 % of a step takes
 *     s, % of a step     1      3      5      10      20
 *     pairs              12     37     102    410     1,640
 *     steps              160    460    1,550  37,000  230,000
 * At rate 1/2^k the cost counts 1/2^k, so an h that is 2^k times wider does, and the
 * pairs are divided by 4^k, never below EXPERIMENT_PAIRS_MIN.
 *
 * One owner, the thread that ends steps. No clock, no memory beside the struct, no
 * system call, no libm.
 */
#ifndef PROBE_EXPERIMENT_H
#define PROBE_EXPERIMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/budget/draw.h"

#define EXPERIMENT_PAIRS_MIN 6u   /* below, no interval covers 95 % */
#define EXPERIMENT_BATCH     256u /* 2 KiB; Student's t is within 1 % of normal */

/* The mean step of one block, as far as it is compared. Only blocks that could have
 * been of either arm (draw_control_share > 0) belong in the experiment. */
struct experiment_unit {
    enum draw_arm arm;   /* DRAW_IDLE is ignored */
    double step_ns;      /* mean duration of its compared steps */
    double predicted_ns; /* recorded: mean calibrated cost of a step */
};

struct experiment {
    struct experiment_unit pending; /* newest unit without a partner; DRAW_IDLE: none */
    bool pending_waits; /* it was not its turn: takes the next unit of the other arm */
    int order_balance;  /* pairs recorded first less pairs control first: -1, 0, 1 */
    unsigned count;     /* pairs in `sorted` */
    double sorted[EXPERIMENT_BATCH]; /* differences, ns, ascending */
    double predicted_sum_ns;         /* over the same pairs */
    /* Folded batches; a weight is one over the squared standard error. */
    double weight, weight_squares;
    double weighted_effect, weighted_predicted, weighted_pairs;
    uint64_t units[3]; /* by arm, since the start */
    uint64_t pairs;    /* since the start */
};

struct experiment_result {
    bool known;       /* false: too few pairs, everything else is 0 */
    double effect_ns; /* per recorded step; an estimate, it may be below 0 */
    double low_ns;    /* 95 % interval */
    double high_ns;
    double error_ns;     /* standard error */
    double predicted_ns; /* mean calibrated cost of the recorded steps */
    double pairs;        /* behind the estimate, faded ones in part */
};

/* Empties it; also to be called when what a recorded step carries has changed. */
void experiment_init(struct experiment *experiment);

/* Adds a unit, in the order of time. Constant time but for a memmove of 2 KiB, and
 * once in EXPERIMENT_BATCH pairs the time of experiment_result(). */
void experiment_add(struct experiment *experiment, const struct experiment_unit *unit);

/* A few passes over at most EXPERIMENT_BATCH differences, about a microsecond: call it
 * when there is a new pair, not at every step. */
void experiment_result(const struct experiment *experiment,
                       struct experiment_result *result);

/* Pairs after which the interval is +/- half_width_ns, judged from the error so far; 0
 * while nothing is known. */
double experiment_pairs_needed(const struct experiment_result *result,
                               double half_width_ns);

#endif
