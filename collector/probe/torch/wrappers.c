#include "probe/torch/wrappers.h"

#include <stdatomic.h>

/* Relaxed: written under the GIL, read at step ends. */
static _Atomic uint64_t calls;

void torch_wrapper_ran(void)
{
    uint64_t before = atomic_load_explicit(&calls, memory_order_relaxed);

    atomic_store_explicit(&calls, before + 1, memory_order_relaxed);
}

uint64_t torch_wrapper_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}
