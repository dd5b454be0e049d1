/* What a person calls a kernel: long names of C++ say it somewhere in their middle. */
#ifndef QUERY_KERNEL_NAME_H
#define QUERY_KERNEL_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Room for one; what people call a kernel is shorter. */
#define KERNEL_SHORT_BYTES 256u

/* Into `text` of `size` bytes, with a NUL, cut where it does not fit:
 *
 *     void at::native::elementwise_kernel<128, 4, ...MulFunctor<float> > >(...)
 *         MulFunctor (elementwise)
 *     void (anonymous namespace)::CatArrayBatchedCopy<unsigned int, 4>(...)
 *         CatArrayBatchedCopy
 *     _ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelI...
 *         FmhaFwdKernel
 *
 * Letters, digits, _ and those brackets alone. False, and nothing is written, for names
 * that stay as they are: those of cuBLAS, of Triton, of copies. Several kernels may be
 * called the same. */
bool kernel_short_name(const char *name, char *text, size_t size);

#endif
