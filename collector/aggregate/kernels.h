/* How kernels are launched, by name: what live events tell, in the table that trace files
 * fill too; and how much of a multiprocessor that occupies. */
#ifndef AGGREGATE_KERNELS_H
#define AGGREGATE_KERNELS_H

#include <stdint.h>

struct event;
struct process;
struct process_kernel;

/* One multiprocessor of the device, and how many there are; 0 not known. */
struct kernels_device {
    uint32_t count, threads, registers, shared_bytes, blocks, reserved_bytes;
};

/* Events as process_fold() gets them: kernels with the record behind them. */
void kernels_fold(struct process *process, const struct event *events, uint32_t count);

/* The six numbers of CUDA's device in the fact "device.multiprocessor"; all 0 when it does
 * not tell them. */
struct kernels_device kernels_device_parse(const char *text, uint32_t index);

/* How many the devices have by that fact: 0 unknown, NaN where they differ. */
double kernels_multiprocessors(const char *text);

/* Share of a multiprocessor's threads that the kernel's longest launch can keep busy on its
 * device, as torch.profiler estimates it: the blocks that fit, at most those that there are
 * for each multiprocessor. NaN where not known. */
double kernels_occupancy(const struct process_kernel *kernel,
                         const struct kernels_device *device);

#endif
