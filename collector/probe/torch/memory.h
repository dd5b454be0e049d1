/* What PyTorch's allocators hold, seen at the slots through which torch calls them.
 *
 *     c10::alloc_cpu, c10::free_cpu      --> totals of the host
 *     c10::reportMemoryUsageToProfiler   --> totals of each accelerator
 *
 * Totals, counts and the peak are kept in steps with RECORDING_MEMORY, in others the slots
 * hold torch's own functions: the detour alone takes 12 ns a call. Single allocations
 * become events in recorded steps alone. The host's totals count from attach: a block from
 * before may be freed after it, so they are what changed since, and can be below zero;
 * once a step was not counted, EVENT_MEMORY_PARTIAL says that they lack it. Accelerators'
 * are the allocator's own, and seen when it reports: until then, and where it never does,
 * the capability says so.
 */
#ifndef PROBE_TORCH_MEMORY_H
#define PROBE_TORCH_MEMORY_H

#include <stdint.h>

#include "wire/attributes.h"

/* Points torch's slots at us, chained to the functions they reached. Once per process,
 * at attach, after probe_start(); takes the loader's lock. Says what it found in the
 * capabilities WIRE_SOURCE_CPU_MEMORY and WIRE_SOURCE_DEVICE_MEMORY. */
void torch_memory_attach(void);

/* Counts (or not) from now on: at a step boundary. A store per slot. */
void torch_memory_record(uint32_t recording);

struct probe_step;
/* Writes the totals of every device that was used so far: at the end of a step. */
void torch_memory_sample(const struct probe_step *step);

#endif
