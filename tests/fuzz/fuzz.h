/* What the fuzz targets share. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void demand(bool condition)
{
    if (!condition)
        abort();
}

/* A file of these bytes, and how it is named; its descriptor, or -1. */
static inline int fuzz_file(const void *data, size_t size, char path[40])
{
    int file = memfd_create("input", MFD_CLOEXEC);

    if (file >= 0 && write(file, data, size) != (ssize_t)size) {
        close(file);
        return -1;
    }
    snprintf(path, 40, "/proc/self/fd/%d", file);
    return file;
}

#endif
