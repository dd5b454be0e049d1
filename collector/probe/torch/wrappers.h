/* How many of Python's wrappers around torch's functions ran so far. */
#ifndef PROBE_TORCH_WRAPPERS_H
#define PROBE_TORCH_WRAPPERS_H

#include <stdint.h>

/* Under the GIL. */
void torch_wrapper_ran(void);

/* Any thread. */
uint64_t torch_wrapper_calls(void);

#endif
