/* A fake libc10.so, for tests alone: the host's allocator, which takes blocks of malloc, and
 * the way on which all allocators report to torch's profiler. */
#include <stdlib.h>

#include "fake_torch.h"

static uint64_t reports;

__attribute__((noinline)) void *fake_alloc_cpu(size_t bytes)
{
    void *block;

    return posix_memalign(&block, 64, bytes) == 0 ? block : NULL;
}

__attribute__((noinline)) void fake_free_cpu(void *block)
{
    free(block);
}

void *fake_c10_allocate(size_t bytes)
{
    return fake_alloc_cpu(bytes);
}

void fake_c10_free(void *block)
{
    fake_free_cpu(block);
}

void fake_report_usage(void *block, int64_t bytes, size_t allocated, size_t reserved,
                       struct fake_device device)
{
    (void)block, (void)bytes, (void)allocated, (void)reserved, (void)device;
    reports++;
}

void fake_report_out_of_memory(int64_t bytes, size_t allocated, size_t reserved,
                               struct fake_device device)
{
    (void)bytes, (void)allocated, (void)reserved, (void)device;
    reports++;
}

uint64_t fake_c10_reports(void)
{
    return reports;
}
