/* Ids of kernels' names, from their addresses. Our CUPTI thread alone.
 *
 * A kernel's name is only an address, and its module may have been unloaded meanwhile:
 * each address is read once in a buffer, through the kernel, which answers instead of
 * faulting, and is interned by its content: demangled, where it is a name of C++ and the
 * process has the C++ library. That is done here and not by who reads the segment: what a
 * name of few bytes stands for may be of any length, and here it is the job's own name.
 * Kernels get at most half of the name table; the rest of them is "(other kernels)".
 */
#ifndef PROBE_CUPTI_KERNEL_NAMES_H
#define PROBE_CUPTI_KERNEL_NAMES_H

#include <stdint.h>

/* A new buffer begins: addresses may mean something else than before. */
void kernel_names_buffer_begins(void);

/* 0 where nothing can be read. */
uint32_t kernel_names_id(uint64_t address);

#endif
