/* Which allocator torch has for CUDA's devices, and whether it reports what it does.
 *
 * c10::cuda::CUDACachingAllocator::allocator (since torch 2.0) points to it, and its class
 * says which it is. Of those that torch 2.2 to 2.15 bring along the native one alone
 * reports; cudaMallocAsync and pluggable ones never do. The name of the class is read where
 * the C++ ABI has it (object, vtable, type_info, name): nothing of torch's is called.
 */
#ifndef PROBE_TORCH_ALLOCATOR_H
#define PROBE_TORCH_ALLOCATOR_H

/* Finds the object, if there is one. At attach; takes the loader's lock. */
void torch_allocator_attach(void);

/* One sentence why nothing is reported of CUDA's devices; NULL: nothing speaks against it.
 * Static. At attach and at step ends, on one thread at a time; a load while the object is
 * the same. */
const char *torch_allocator_silence(void);

#endif
