#include "aggregate/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/process.h"

#define WARP           32u
#define REGISTER_UNITS 256u /* a warp gets its registers in these, since 2014 */
#define SCHEDULERS     4u   /* and a multiprocessor's file is parted among these */

static struct process_kernel *kernel_of(struct process *process, uint32_t text)
{
    if (text >= process->kernel_count) {
        uint32_t count = process->kernel_count == 0 ? 256 : process->kernel_count;

        while (count <= text)
            count *= 2;
        struct process_kernel *kernels =
            realloc(process->kernels, count * sizeof(*kernels));

        if (kernels == NULL)
            return NULL;
        memset(kernels + process->kernel_count, 0,
               (count - process->kernel_count) * sizeof(*kernels));
        process->kernels = kernels;
        process->kernel_count = count;
    }
    return &process->kernels[text];
}

static void add(struct process_kernel *kernel, const struct event *event,
                const struct event *more)
{
    int64_t duration_ns = (int64_t)event->value;
    const uint32_t grid[3] = {EVENT_GRID_X(more->value), EVENT_GRID_Y(more->value),
                              EVENT_GRID_Z(more->value)};
    const uint32_t block[3] = {EVENT_BLOCK_X(more->aux), EVENT_BLOCK_Y(more->aux),
                               EVENT_BLOCK_Z(more->aux)};
    uint32_t registers = EVENT_BLOCK_REGISTERS(more->aux);
    uint32_t shared = EVENT_SHARED_BYTES(more->aux);
    bool differs = memcmp(kernel->grid, grid, sizeof(grid)) != 0 ||
                   memcmp(kernel->block, block, sizeof(block)) != 0;

    kernel->varies = kernel->varies || (kernel->count > 0 && differs);
    if (kernel->count++ == 0 || duration_ns > kernel->longest_ns) {
        kernel->longest_ns = duration_ns;
        kernel->device = EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta));
        memcpy(kernel->grid, grid, sizeof(grid));
        memcpy(kernel->block, block, sizeof(block));
    }
    if (registers > kernel->registers)
        kernel->registers = registers;
    if (shared > kernel->shared_bytes)
        kernel->shared_bytes = shared;
}

void kernels_fold(struct process *process, const struct event *events, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        const struct event *more = &events[i + 1];

        if (EVENT_KIND(events[i].meta) != EVENT_KERNEL ||
            EVENT_KIND(more->meta) != EVENT_MORE || EVENT_AUX16(more->meta) != 1 ||
            EVENT_BLOCK_X(more->aux) == 0) /* a graph as a whole has none */
            continue;
        struct process_kernel *kernel = kernel_of(process, EVENT_NAME(events[i].meta));

        if (kernel != NULL)
            add(kernel, &events[i], more);
    }
}

struct kernels_device kernels_device_parse(const char *text, uint32_t index)
{
    struct kernels_device device;
    bool alike = strchr(text, ',') == NULL;

    for (; !alike && index > 0 && text[0] != '\0'; index--) {
        text += strcspn(text, ",");
        text += text[0] == ',';
    }
    if (sscanf(text, "%8u %8u %8u %8u %8u %8u", &device.count, &device.threads,
               &device.registers, &device.shared_bytes, &device.blocks,
               &device.reserved_bytes) != 6 ||
        device.count == 0 || device.threads == 0 || device.blocks == 0)
        return (struct kernels_device){0};
    return device;
}

double kernels_multiprocessors(const char *text)
{
    unsigned long count = strtoul(text, NULL, 10);

    for (const char *at = strchr(text, ','); at != NULL; at = strchr(at + 1, ','))
        if (strtoul(at + 1, NULL, 10) != count)
            return (double)NAN;
    return (double)count;
}

static uint32_t fewer(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t blocks_that_fit(const struct process_kernel *kernel,
                                const struct kernels_device *device, uint32_t warps)
{
    uint32_t blocks = fewer(device->blocks, device->threads / (warps * WARP));
    uint32_t shared = kernel->shared_bytes + device->reserved_bytes;
    uint32_t of_a_warp = (kernel->registers * WARP + REGISTER_UNITS - 1) /
                         REGISTER_UNITS * REGISTER_UNITS;

    if (of_a_warp > 0)
        blocks = fewer(blocks,
                       device->registers / SCHEDULERS / of_a_warp * SCHEDULERS / warps);
    return shared > 0 ? fewer(blocks, device->shared_bytes / shared) : blocks;
}

double kernels_occupancy(const struct process_kernel *kernel,
                         const struct kernels_device *device)
{
    uint32_t threads = kernel->block[0] * kernel->block[1] * kernel->block[2];
    double all = (double)kernel->grid[0] * kernel->grid[1] * kernel->grid[2];

    if (device->count == 0 || threads == 0 || kernel->count == 0)
        return (double)NAN;
    double fit = blocks_that_fit(kernel, device, (threads + WARP - 1) / WARP);
    double blocks = all / device->count;

    blocks = blocks < fit ? blocks : fit;
    double share = blocks * threads / device->threads;

    return share < 1 ? share : 1;
}
