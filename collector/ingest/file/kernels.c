/* Kernels' launch shapes by name, from the arguments of their events. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

#define TELLS                                                                          \
    (TRACE_HAS_GRID | TRACE_HAS_BLOCK | TRACE_HAS_REGISTERS | TRACE_HAS_OCCUPANCY |    \
     TRACE_HAS_SHARED_MEMORY)

/* So many threads are a hundredth of what 200 multiprocessors hold. */
#define THREADS_SEEN 4096u

/* Kineto writes 0 where it could not reckon it, as of kernels with more shared memory than
 * it knows of; of so few blocks that it rounds to 0 that is the truth. */
static bool tells_occupancy(const struct trace_event *event)
{
    uint64_t threads = 1;

    if (!(event->has & TRACE_HAS_OCCUPANCY))
        return false;
    if (event->occupancy_pct > 0 || !(event->has & TRACE_HAS_GRID) ||
        !(event->has & TRACE_HAS_BLOCK))
        return true;
    for (int i = 0; i < 3 && threads < THREADS_SEEN; i++)
        threads *= (uint64_t)event->grid[i] * event->block[i];
    return threads < THREADS_SEEN;
}

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
    if (tells_occupancy(event)) {
        kernel->occupied_ns = file_sum(kernel->occupied_ns, event->duration_ns);
        kernel->occupancy_sum +=
            (double)event->occupancy_pct * (double)event->duration_ns;
    }
}
