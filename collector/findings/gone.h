/* Is the cause of a finding gone, or only hidden?
 *
 * A rule that finds nothing any more says little: noise hides a rhythm, a price lies a
 * hair below its threshold. The steps themselves must say it. With F the mean of what the
 * finding claimed while it stood (its part of the step, or the whole step; of code between
 * steps also what is left there beside collections, first batches and what comes at a
 * period: each will do), N the mean of the same over a full window after the change, f and
 * n half of their 95 % intervals, P the price and p half of its interval, what is gone is
 *
 *     F - N  +-  sqrt(max(0, f^2 - p^2) + n^2)
 *
 * The two means are of different steps, so that their errors add in quadrature (Welch
 * 1947; JCGM 100:2008, 5.1.2); p is taken from f because the spread that the cause itself
 * brings is in both. The lower end must be half of P: then the interval of what is left
 * excludes the former price. Of an estimated price it must be a quarter, which is half of
 * the least that it may have been (findings.h).
 *
 * A finding without claims has a price that is no part of the steps (validation, a
 * warm-up that is over): of it nobody can say that it was fixed. A risk without a price
 * is gone when a full window does not show it.
 */
#ifndef FINDINGS_GONE_H
#define FINDINGS_GONE_H

#include "findings/findings.h"

/* The steps of one window. */
struct gone_level {
    int64_t first_step;
    bool full; /* as long as it was asked for */
    double ns[CLAIM_PARTS + 1], error_ns[CLAIM_PARTS + 1]; /* last: of the whole step */
    /* Of PART_OTHER what is left beside other causes (query/bottlenecks_query.h); NaN unknown. */
    double left_ns, left_error_ns;
};

/* What a finding cost while it stood. */
struct gone_former {
    uint32_t part;                   /* enum claim_part; CLAIM_PARTS: several */
    bool risk, claims, estimated;    /* claims: its price is a part of the steps */
    double price_ns, price_error_ns; /* 0 of a risk; as one look had it */
    double part_ns, part_error_ns;   /* F, f */
    double step_ns, step_error_ns;   /* the same of the whole step */
    double left_ns, left_error_ns; /* of what is left of PART_OTHER; NaN: not its own */
};

/* `least_ns`: from its first step to the end of its last, a full window has so much. */
struct gone_level gone_level_of(const struct bottlenecks_answer *summary,
                                double least_ns);

/* Takes what one more window says that holds all of the cause; `first`: forget the rest. */
void gone_follow(struct gone_former *former, const struct finding *finding,
                 const struct gone_level *level, bool first);

/* The price, else the one that it had before it became a risk. */
double gone_price(const struct gone_former *former, double price_ns);

/* Whether anybody may say that it was fixed, whatever the steps do. */
bool gone_is_tellable(const struct gone_former *former);

/* `after`: a window of steps that all came after the change. False where it is not full. */
bool gone_is_sure(const struct gone_former *former, double price_ns,
                  const struct gone_level *after);

#endif
