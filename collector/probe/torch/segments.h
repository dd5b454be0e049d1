/* What torch's allocator takes of a CUDA device and gives back: its calls of cudaMalloc and
 * cudaFree, seen at the slots of libc10_cuda.so.
 *
 * An allocator that caches makes none in steady state: each takes long, and cudaFree waits
 * for the device. Where the device has no more it is refused, gives back the segments in
 * which nothing lives, and asks again: a retry. What grows by mapping
 * (expandable_segments) makes no such calls, and is not seen here.
 */
#ifndef PROBE_TORCH_SEGMENTS_H
#define PROBE_TORCH_SEGMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of one device. Any thread; relaxed, for each word stands for itself. */
struct torch_segments {
    /* Since the last sample, which takes them. */
    _Alignas(64) _Atomic uint32_t got; /* segments */
    _Atomic uint32_t given, retries;
    _Atomic uint64_t ticks; /* in all these calls */
    /* Of segments that came and went since attach. */
    _Atomic uint64_t held, held_bytes, given_back_bytes;
    _Atomic bool asked; /* this device was asked for one since attach */
};

/* Takes the slots over, chained to the CUDA runtime that the library links. Once per
 * process, at attach; takes the loader's lock. */
void torch_segments_attach(void);

/* Those of cuda:`index`; NULL when they are not watched. */
struct torch_segments *torch_segments_of(uint32_t index);

/* The calling thread's allocation has failed for good: what it asks for next is no retry. */
void torch_segments_give_up(void);

/* Some were asked for since attach. */
bool torch_segments_asked(void);

#endif
