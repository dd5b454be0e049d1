/* What the event of a copy may leave to its call, as ROCm's do: how many bytes; and streams
 * that are named by a pointer. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "ingest/trace/args.h"

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
    struct file_link *added =
        file_list_add(file, &file->sizes, sizeof(*added), FILE_REMARK_MARKS);

    if (added != NULL)
        *added = (struct file_link){(uint64_t)call->correlation, bytes};
}

static int by_correlation(const void *left, const void *right)
{
    const struct file_link *a = left, *b = right;

    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

void file_sort_sizes(struct file *file)
{
    if (file->sizes.count > 0)
        qsort(file->sizes.items, file->sizes.count, sizeof(struct file_link),
              by_correlation);
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
