/* Allocations to samples of memory: the allocator's totals where the file has them, else
 * the sum of what it took and gave since the file began. At most SAMPLES_MAX of each
 * device, each with the peak of its time and the op that ran at it. */
#include <stdlib.h>

#include "ingest/file/parts.h"

#define SAMPLES_MAX 4096

struct sampling {
    uint16_t device;
    int64_t until_ns; /* where its sample ends */
    int64_t allocated, reserved, peak, peak_ns, newest_ns;
    uint64_t bytes;
    uint32_t op, allocations, frees;
    bool open;
};

static int by_time(const void *left, const void *right)
{
    const struct file_allocation *a = *(const struct file_allocation *const *)left;
    const struct file_allocation *b = *(const struct file_allocation *const *)right;

    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a < b ? -1 : a > b; /* as the file has them */
}

static void give(struct sampling *sampling, struct process *process)
{
    struct event events[3] = {
        {.time = (uint64_t)sampling->newest_ns,
         .value = (uint64_t)sampling->allocated,
         .meta = EVENT_META(sampling->op, EVENT_MEMORY, 0, sampling->device),
         .aux = sampling->reserved > 0 ? (uint64_t)sampling->reserved : 0},
        {.time = (uint64_t)sampling->peak_ns,
         .value = (uint64_t)sampling->peak,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1),
         .aux = sampling->allocations | (uint64_t)sampling->frees << 32},
        {.time = sampling->bytes, .meta = EVENT_META(0, EVENT_MORE, 0, 2)}};

    if (sampling->open)
        memory_fold(&process->memory, events, 2);
    *sampling = (struct sampling){.device = sampling->device,
                                  .allocated = sampling->allocated,
                                  .reserved = -1,
                                  .peak = INT64_MIN};
}

static struct sampling *find(struct sampling *samplings, uint32_t *count,
                             uint16_t device)
{
    for (uint32_t i = 0; i < *count; i++)
        if (samplings[i].device == device)
            return &samplings[i];
    if (*count == MEMORY_DEVICES)
        return NULL;
    samplings[*count] =
        (struct sampling){.device = device, .reserved = -1, .peak = INT64_MIN};
    return &samplings[(*count)++];
}

static void add(struct sampling *sampling, const struct file_allocation *allocation,
                bool totals, uint32_t op)
{
    int64_t bytes = allocation->bytes;

    sampling->open = true;
    sampling->newest_ns = allocation->time_ns;
    sampling->allocated =
        totals ? allocation->allocated : file_sum(sampling->allocated, bytes);
    sampling->reserved = allocation->reserved;
    sampling->allocations += bytes > 0;
    sampling->frees += bytes < 0;
    sampling->bytes += bytes > 0 ? (uint64_t)bytes : 0;
    if (sampling->allocated <= sampling->peak)
        return;
    sampling->peak = sampling->allocated;
    sampling->peak_ns = allocation->time_ns;
    sampling->op = op;
}

void file_fold_memory(struct file *file, struct file_texts *texts)
{
    const struct file_allocation *items = file->allocations.items;
    uint32_t count = file->allocations.count, devices = 0;
    const struct file_allocation **order = malloc((count + 1) * sizeof(*order));
    struct sampling samplings[MEMORY_DEVICES];
    int64_t width = (file->to_ns - file->from_ns) / SAMPLES_MAX + 1;
    bool totals = false;

    if (order == NULL || count == 0) {
        free(order);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i] = &items[i];
        totals |= items[i].has_total;
    }
    qsort(order, count, sizeof(*order), by_time);
    file->result->memory = totals ? FILE_MEMORY_TOTALS : FILE_MEMORY_DELTAS;
    for (uint32_t i = 0; i < count; i++) {
        struct sampling *sampling = find(samplings, &devices, order[i]->device);

        if (sampling == NULL || (totals && !order[i]->has_total))
            continue;
        if (sampling->open && order[i]->time_ns >= sampling->until_ns)
            give(sampling, texts->process);
        if (!sampling->open)
            sampling->until_ns = order[i]->time_ns + width;
        add(sampling, order[i], totals, file_text(texts, order[i]->op));
    }
    for (uint32_t i = 0; i < devices; i++)
        give(&samplings[i], texts->process);
    free(order);
}
