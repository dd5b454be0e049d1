/* What kind of work a kernel does, by its name: libraries and torch name them so. */
#ifndef QUERY_KERNEL_FAMILY_H
#define QUERY_KERNEL_FAMILY_H

enum kernel_family {
    KERNEL_FLOAT32,     /* matrix products and convolutions without tensor cores */
    KERNEL_ELEMENTWISE, /* one op of torch on each element */
    KERNEL_LAYOUT,      /* NCHW to NHWC and back */
    KERNEL_OTHER,
    KERNEL_FAMILIES,
};

enum kernel_family kernel_family(const char *name);

#endif
