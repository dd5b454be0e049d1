/* Attaching to PyTorch: its operators, its named ranges and its allocators. */
#ifndef PROBE_TORCH_ATTACH_H
#define PROBE_TORCH_ATTACH_H

#include <stdint.h>

#include "wire/attributes.h"

/* In two halves, with the self-test of observer.h between them. Once per process,
 * after probe_start(), when torch is imported. What cannot be seen is said in the
 * capabilities, with the reason; 0 when operators can. 1 from the first half: the
 * observer is there already, no self-test is wanted. */
int torch_attach_begin(uint32_t scopes);
int torch_attach_end(void);

#endif
