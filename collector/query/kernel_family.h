/* What kind of work a kernel does, by its name: libraries and torch name them so. */
#ifndef QUERY_KERNEL_FAMILY_H
#define QUERY_KERNEL_FAMILY_H

#include <stdbool.h>

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
