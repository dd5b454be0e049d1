/* Attaching to PyTorch: its operators, its named ranges and its allocators. */
#ifndef PROBE_TORCH_ATTACH_H
#define PROBE_TORCH_ATTACH_H

#include <stdint.h>

#include "wire/attributes.h"

/* In two halves, with the self-test of observer.h between them. Once per process,
 * after probe_start(), when torch is imported. What cannot be seen is said in the
 * capabilities, with the reason; 0 when operators can. 1 from the first half: the
 * observer is there already, no self-test is wanted. `calls` counts the wrappers of Python's
 * that ran so far; any thread asks it. */
int torch_attach_begin(uint32_t scopes, uint64_t (*calls)(void));
int torch_attach_end(void);

#endif
