/* Kernels' launch shapes by name, from the arguments of their events. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

#define TELLS                                                                          \
    (TRACE_HAS_GRID | TRACE_HAS_BLOCK | TRACE_HAS_REGISTERS | TRACE_HAS_OCCUPANCY |    \
     TRACE_HAS_SHARED_MEMORY)

static struct process_kernel *kernel_of(struct file *file, uint32_t name)
{
    if (name >= file->kernel_count) {
        uint32_t count = file->kernel_count == 0 ? 256 : file->kernel_count;

        while (count <= name)
            count *= 2;
        struct process_kernel *kernels =
            realloc(file->kernels, count * sizeof(*kernels));

        if (kernels == NULL)
            return NULL;
        memset(kernels + file->kernel_count, 0,
               (count - file->kernel_count) * sizeof(*kernels));
        file->kernels = kernels;
        file->kernel_count = count;
    }
    return &file->kernels[name];
}

void file_take_kernel(struct file *file, const struct trace_event *event)
{
    struct process_kernel *kernel =
        event->has & TELLS ? kernel_of(file, event->name) : NULL;

    if (kernel == NULL)
        return;
    bool differs = memcmp(kernel->grid, event->grid, sizeof(kernel->grid)) != 0 ||
                   memcmp(kernel->block, event->block, sizeof(kernel->block)) != 0;

    kernel->varies = kernel->varies || (kernel->count > 0 && differs);
    if (kernel->count++ == 0 || event->duration_ns > kernel->longest_ns) {
        kernel->longest_ns = event->duration_ns;
        memcpy(kernel->grid, event->grid, sizeof(kernel->grid));
        memcpy(kernel->block, event->block, sizeof(kernel->block));
    }
    if (event->registers > kernel->registers)
        kernel->registers = event->registers;
    if (event->shared_memory_bytes > kernel->shared_bytes)
        kernel->shared_bytes = event->shared_memory_bytes;
    if (event->has & TRACE_HAS_OCCUPANCY) {
        kernel->occupied_ns = file_sum(kernel->occupied_ns, event->duration_ns);
        kernel->occupancy_sum +=
            (double)event->occupancy_pct * (double)event->duration_ns;
    }
}
