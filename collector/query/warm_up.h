/* The slow first steps of a run: libraries are loaded, algorithms chosen, code compiled. */
#ifndef QUERY_WARM_UP_H
#define QUERY_WARM_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "query/pick.h"

#define WARM_UP_MOST 100u
#define WARM_UP_CALM 5u /* so many usual steps end it, and it begins with one of them */
#define WARM_UP_SLOW 1.5

/* All zero at the run's first step; `end` is how many steps it has. */
struct warm_up {
    uint32_t seen, end, calm;
};

/* The next step, beside the median; false: it was over before. */
bool warm_up_goes_on(struct warm_up *warm_up, double ns, double median_ns);

/* After pick_window(). Of the remembered steps in it, how many from the first on are the
 * run's slow ones, and those between them; at most a quarter. */
uint32_t warm_up_steps(const struct pick *pick);

#endif
