/* Allocations to samples of memory: the allocator's totals where the file has them, else
 * the sum of what it took and gave since the file began. At most SAMPLES_MAX of each
 * device, each with the peak of its time and the op that ran at it. */
#include <errno.h>
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

struct samplings {
    struct sampling list[MEMORY_DEVICES];
    uint32_t count;
    bool totals; /* the allocator's own */
    int64_t width_ns;
};

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

static void add(struct sampling *sampling, const struct track_record *allocation,
                bool totals, uint32_t op)
{
    int64_t time_ns = (int64_t)allocation->event.time;
    int64_t bytes = track_unsigned(allocation->more[FILE_ALLOCATION_BYTES]);

    sampling->open = true;
    sampling->newest_ns = time_ns;
    sampling->allocated = totals ? track_unsigned(allocation->more[FILE_ALLOCATED])
                                 : file_sum(sampling->allocated, bytes);
    sampling->reserved = track_unsigned(allocation->more[FILE_RESERVED]);
    sampling->allocations += bytes > 0;
    sampling->frees += bytes < 0;
    sampling->bytes += bytes > 0 ? (uint64_t)bytes : 0;
    if (sampling->allocated <= sampling->peak)
        return;
    sampling->peak = sampling->allocated;
    sampling->peak_ns = time_ns;
    sampling->op = op;
}

/* Into the sample of its device, which ends when its time is over. */
static void sample(struct samplings *samplings, const struct track_record *of,
                   struct file_texts *texts)
{
    int64_t time_ns = (int64_t)of->event.time;
    bool has_total = EVENT_FLAGS(of->event.meta) & FILE_HAS_TOTAL;
    struct sampling *sampling =
        find(samplings->list, &samplings->count, EVENT_AUX16(of->event.meta));

    if (sampling == NULL || (samplings->totals && !has_total))
        return;
    if (sampling->open && time_ns >= sampling->until_ns)
        give(sampling, texts->process);
    if (!sampling->open)
        sampling->until_ns = time_ns + samplings->width_ns;
    add(sampling, of, samplings->totals, file_text(texts, EVENT_NAME(of->event.meta)));
}

/* Those of a trace that we wrote, as they were. */
static void fold_own(struct file *file, struct file_texts *texts)
{
    struct file_sample *samples = file->samples.items;

    file_list_sort(&file->samples, sizeof(*samples), file_by_start);
    for (uint32_t i = 0; i < file->samples.count; i++) {
        struct event *events = samples[i].events;
        uint32_t op = file_text(texts, EVENT_NAME(events[0].meta));

        events[0].time -= (uint64_t)file->zero_ns;
        events[1].time -= (uint64_t)file->zero_ns;
        events[0].meta = (events[0].meta & ~(uint64_t)UINT32_MAX) | op;
        memory_fold(&texts->process->memory, events, samples[i].more);
    }
    file->result->memory = FILE_MEMORY_TOTALS;
}

int file_fold_memory(struct file *file, struct file_texts *texts)
{
    struct samplings samplings = {.totals = file->has_totals,
                                  .width_ns =
                                      (file->to_ns - file->from_ns) / SAMPLES_MAX + 1};
    const struct track_record *of;
    struct track_reader reader;
    int error = track_drain(&reader, &file->allocations);

    if (file->allocations.count > 0)
        file->result->memory =
            samplings.totals ? FILE_MEMORY_TOTALS : FILE_MEMORY_DELTAS;
    if (file->samples.count > 0)
        fold_own(file, texts);
    for (; error == 0 && (of = track_peek(&reader)) != NULL; track_next(&reader))
        if (file->samples.count == 0) /* else they would be told twice */
            sample(&samplings, of, texts);
    for (uint32_t i = 0; i < samplings.count; i++)
        give(&samplings.list[i], texts->process);
    track_end(&reader);
    return error != 0 || reader.failed ? -ENOMEM : 0;
}
