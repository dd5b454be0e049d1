/* A fake libtorch_cpu.so, for tests alone: operators that allocate on the host. */
#include "fake_torch.h"

void *fake_torch_host_allocate(size_t bytes)
{
    return fake_alloc_cpu(bytes);
}

void fake_torch_host_free(void *block)
{
    fake_free_cpu(block);
}
