/* A fake libcudart.so.13, for tests alone: memory of devices, FAKE_CUDA_BYTES each, which
 * takes FAKE_CUDA_CALL_US to get and to give back. Nobody may read or write it: the
 * addresses are none. */
#include <stdlib.h>
#include <unistd.h>

#include "fake_torch.h"

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation */
#define BLOCKS        256u

static struct block {
    uintptr_t address;
    size_t bytes;
    int device;
} blocks[BLOCKS];
static size_t used[FAKE_TORCH_DEVICES];
static int current;

static size_t device_bytes(void)
{
    const char *text = getenv("FAKE_CUDA_BYTES");

    return text != NULL ? strtoull(text, NULL, 10) : (size_t)1 << 30;
}

static void take_long(void)
{
    const char *text = getenv("FAKE_CUDA_CALL_US");

    if (text != NULL)
        usleep((useconds_t)strtoul(text, NULL, 10));
}

int cudaSetDevice(int device)
{
    current = device;
    return 0;
}

int cudaGetDevice(int *device)
{
    *device = current;
    return 0;
}

int cudaMalloc(void **block, size_t bytes)
{
    static uintptr_t next = (uintptr_t)1 << 44;

    take_long();
    if (bytes > device_bytes() - used[current])
        return OUT_OF_MEMORY;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].bytes == 0) {
            blocks[i] = (struct block){next, bytes, current};
            next += bytes;
            used[current] += bytes;
            *block = (void *)blocks[i].address;
            return 0;
        }
    return OUT_OF_MEMORY;
}

int cudaFree(void *address)
{
    take_long();
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].bytes > 0 && blocks[i].address == (uintptr_t)address) {
            used[blocks[i].device] -= blocks[i].bytes;
            blocks[i].bytes = 0;
            return 0;
        }
    return 1;
}
