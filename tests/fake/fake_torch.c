/* A fake libtorch_cpu.so, for tests alone: what torch's Kineto links. */
#include "fake_cupti.h"

int fake_torch_profiles(void);

int fake_torch_profiles(void)
{
    uint32_t version;

    return cuptiGetVersion(&version);
}
