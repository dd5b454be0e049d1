/* Kernels by which devices exchange what they have; the only list of them. */
#ifndef AGGREGATE_COLLECTIVES_H
#define AGGREGATE_COLLECTIVES_H

#include <stdbool.h>

/* By its name; a dozen searches of it: ask once. */
bool collectives_has_kernel(const char *name);

#endif
