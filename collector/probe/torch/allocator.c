#include "probe/torch/allocator.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "probe/torch/library.h"

/* As the Itanium C++ ABI lays them out: a vtable's address is that of its first function,
 * with the type in front of it. */
struct type_info {
    const void *vtable;
    const char *name; /* mangled */
};
struct object {
    const struct type_info *const *vtable;
};

/* std::atomic<CUDAAllocator *>; NULL: this torch has none, or no CUDA. Written at attach. */
static _Atomic(const struct object *) *current;

static const char *class_of(const struct object *object)
{
    const struct type_info *type =
        object != NULL && object->vtable != NULL ? object->vtable[-1] : NULL;

    return type != NULL && type->name != NULL ? type->name : "";
}

static const char *silence_of(const char *class)
{
    static const struct {
        const char *class, *reason;
    } rows[] = {
        {"CudaMallocAsyncAllocator",
         "allocations of CUDA devices are not seen: PYTORCH_CUDA_ALLOC_CONF names "
         "cudaMallocAsync, which reports none"},
        {"CUDAPluggableAllocator",
         "allocations of CUDA devices are not seen: a pluggable allocator is in use, "
         "which reports none"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strstr(class, rows[i].class) != NULL)
            return rows[i].reason;
    return NULL;
}

void torch_allocator_attach(void)
{
    void *library = torch_library_find("libc10_cuda.so");

    current =
        library == NULL
            ? NULL
            : torch_symbol(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE");
}

const char *torch_allocator_silence(void)
{
    static const struct object *seen;
    static const char *silence;

    if (current == NULL)
        return NULL;
    /* Acquire: pairs with torch's store of an allocator that it has just made. */
    const struct object *now = atomic_load_explicit(current, memory_order_acquire);

    if (now != seen) {
        seen = now;
        silence = silence_of(class_of(now));
    }
    return silence;
}
