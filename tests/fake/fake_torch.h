/* What a job on the fakes of torch's libraries calls: fake_c10.c, fake_c10_cuda.c and
 * fake_torch_cpu.c. One thread. */
#ifndef TESTS_FAKE_TORCH_H
#define TESTS_FAKE_TORCH_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_TORCH_DEVICES 2

/* c10::Device */
struct fake_device {
    int8_t type, index;
};

/* What torch.cuda.memory_stats() says of a device. */
struct fake_stats {
    size_t allocated, reserved;
    unsigned segments, retries, ooms;
};

/* Of the current allocator; NULL: out of memory. */
void *fake_torch_allocate(int device, size_t bytes);
void fake_torch_free(int device, void *address);
void fake_torch_empty_cache(void);
struct fake_stats fake_torch_stats(int device);

/* torch.cuda.memory.change_current_allocator(): what comes now is another's. */
void fake_torch_change_allocator(void);

/* The same library tells torch's profiler of a block of the host's. */
void fake_torch_report_host(void *block, size_t bytes);

/* Reports that were made by that library; and those that reached torch's profiler. */
uint64_t fake_torch_reports(void);
uint64_t fake_c10_reports(void);

/* The host's, as an operator of libtorch_cpu.so and as libc10.so itself allocate. */
void *fake_torch_host_allocate(size_t bytes);
void fake_torch_host_free(void *block);
void *fake_c10_allocate(size_t bytes);
void fake_c10_free(void *block);

/* ---- between the fakes ------------------------------------------------------------- */

void *fake_alloc_cpu(size_t bytes) __asm__("_ZN3c109alloc_cpuEm");
void fake_free_cpu(void *block) __asm__("_ZN3c108free_cpuEPv");
void fake_report_usage(
    void *block, int64_t bytes, size_t allocated, size_t reserved,
    struct fake_device
        device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void fake_report_out_of_memory(
    int64_t bytes, size_t allocated, size_t reserved,
    struct fake_device
        device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");

int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaMalloc(void **block, size_t bytes);
int cudaFree(void *address);

#endif
