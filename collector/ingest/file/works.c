/* What the arguments of calls, copies and kernels tell beside their time: how many bytes a copy
 * has, which its event may leave to its call, as ROCm's do; streams that are named by a
 * pointer; kernels' launch shapes by name. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "ingest/trace/args.h"
#include "ingest/trace/grow.h"

void file_take_size(struct file *file, const struct trace_event *call)
{
    const char *name = trace_names_get(file->names, call->name, NULL);
    int64_t bytes;

    if (call->correlation == 0 ||
        (strstr(name, "Memcpy") == NULL && strstr(name, "Memset") == NULL) ||
        !(trace_args_integer(call, "size", &bytes) ||
          trace_args_integer(call, "sizeBytes", &bytes)) ||
        bytes < 0)
        return;
    (void)FILE_LIST_ADD(file, &file->sizes, FILE_REMARK_MARKS, struct file_link,
                        {(uint64_t)call->correlation, bytes});
}

static int by_correlation(const void *left, const void *right)
{
    const struct file_link *a = left, *b = right;

    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

void file_sort_sizes(struct file *file)
{
    file_list_sort(&file->sizes, sizeof(struct file_link), by_correlation);
}

/* The event's own are kept + 1. */
uint64_t file_work_bytes(const struct file *file, const struct track_record *work)
{
    const struct file_link wanted = {.correlation = work->event.aux};
    const struct file_link *size = NULL;

    if (work->more[FILE_WORK_BYTES] > 0)
        return work->more[FILE_WORK_BYTES] - 1;
    if (wanted.correlation != 0 && file->sizes.count > 0)
        size = bsearch(&wanted, file->sizes.items, file->sizes.count, sizeof(*size),
                       by_correlation);
    return size != NULL ? (uint64_t)size->device_ns : GPU_BYTES_UNKNOWN;
}

uint32_t file_stream(struct file *file, uint64_t address)
{
    uint32_t i = 0;

    while (i < file->stream_count && file->streams[i] != address)
        i++;
    if (i == FILE_STREAMS_MAX) {
        file->result->remarks[FILE_REMARK_STREAMS]++;
        return 0;
    }
    if (i == file->stream_count)
        file->streams[file->stream_count++] = address;
    return GPU_STREAM_LABELS + i;
}

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

void file_take_kernel(struct file *file, const struct trace_event *event)
{
    if (!(event->has & TELLS) ||
        !grow_table(&file->kernels, event->name, &file->kernel_count, 256,
                    sizeof(*file->kernels)))
        return;
    struct process_kernel *kernel = &file->kernels[event->name];
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
