/* The slow first steps of a run: libraries are loaded, algorithms chosen, code compiled. */
#ifndef QUERY_WARM_UP_H
#define QUERY_WARM_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/steps.h"

#define WARM_UP_CALM 5u /* so many usual steps end it; no run warms up later */

/* While training steps are looked at from the run's first on; all zero before. */
struct warm_up {
    uint32_t seen, end; /* steps so far, and up to the last slow one */
    uint32_t calm;      /* usual ones since that */
};

/* Takes the next step beside the median; false: it was over before. */
bool warm_up_goes_on(struct warm_up *warm_up, double ns, double median_ns);

/* Of `count` remembered steps, `first` and later ones: how many from there on lie in the run's
 * warm-up and before all GPU work that is recorded. No mean of that work knows them. At most a
 * quarter of those that train; validation and deep windows between them count. */
uint32_t warm_up_unknown(const struct steps *steps, uint32_t first, uint32_t count);

#endif
