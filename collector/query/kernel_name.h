/* What the name of a kernel says: what people call it, and what kind of work it does. */
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

enum kernel_family {
    KERNEL_OTHER,   /* also what is no kernel */
    KERNEL_FLOAT32, /* matrix products and convolutions, on no tensor cores of NVIDIA's */
    KERNEL_ELEMENTWISE, /* one op of torch on each element */
    KERNEL_LAYOUT,      /* NCHW to NHWC and back */
    /* Products on tensor cores that read one or two numbers at once, or of 16-bit numbers
     * that run beside them. */
    KERNEL_UNALIGNED,
    KERNEL_FLOAT64, /* on numbers of eight bytes */
    KERNEL_TF32, /* products of float32 on tensor cores, which round what they read */
    KERNEL_SOFTMAX,    /* and no logarithm of it, as losses take: most is attention's */
    KERNEL_COLLECTIVE, /* what ranks do together */
    KERNEL_GRAPH,      /* a CUDA graph as a whole: whatever kernels it has */
    KERNEL_FAMILIES,
};

/* Two dozen searches of the name: ask once where a row is made, and keep the answer. */
enum kernel_family kernel_family(const char *name);

/* A convolution, forward or backward, of any family. */
bool kernel_is_convolution(const char *name);

/* What NVIDIA's libraries call kernels that run on tensor cores. */
bool kernel_uses_tensor_cores(const char *name);

#endif
