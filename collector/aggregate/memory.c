#include "aggregate/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

void memory_free(struct memory *memory)
{
    for (uint32_t i = 0; i < memory->count; i++) {
        free(memory->tables[i].ring);
        free(memory->tables[i].sizes);
        series_free(&memory->tables[i].series);
    }
    *memory = (struct memory){0};
}

static struct memory_table *find(struct memory *memory, uint16_t device)
{
    for (uint32_t i = 0; i < memory->count; i++)
        if (memory->tables[i].device == device)
            return &memory->tables[i];
    return NULL;
}

static struct memory_table *find_or_add(struct memory *memory, uint16_t device)
{
    struct memory_table *table = find(memory, device);

    if (table != NULL)
        return table;
    if (memory->count == MEMORY_DEVICES) {
        memory->refused++;
        return NULL;
    }
    table = &memory->tables[memory->count++];
    *table = (struct memory_table){.device = device,
                                   .total_bytes = -1,
                                   .run_peak = {.peak = -1},
                                   .pending_peak = -1};
    return table;
}

uint32_t memory_remembered(const struct memory_table *table)
{
    return table->count < table->capacity ? (uint32_t)table->count : table->capacity;
}

const struct memory_sample *memory_at(const struct memory_table *table, uint32_t i)
{
    uint64_t oldest = table->count - memory_remembered(table);

    return &table->ring[(oldest + i) % table->capacity];
}

uint32_t memory_after(const struct memory_table *table, int64_t time_ns)
{
    uint32_t low = 0, high = memory_remembered(table);

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (memory_at(table, middle)->time_ns >= time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool make_room(struct memory_table *table)
{
    if (table->count != table->capacity || table->capacity == MEMORY_POINTS)
        return table->capacity > 0;
    uint32_t capacity = table->capacity == 0 ? 128 : table->capacity * 2;
    struct memory_sample *ring = realloc(table->ring, capacity * sizeof(*ring));

    if (ring == NULL)
        return table->capacity > 0;
    table->ring = ring;
    table->capacity = capacity;
    return true;
}

/* An op that gave way had a smaller block than all that stayed, so what it had is no loss
 * when it comes again with a larger one. */
static void keep_largest(struct memory_table *table, uint32_t op, int64_t bytes)
{
    struct memory_op *least = &table->largest[0];

    for (uint32_t i = 0; i < table->largest_count; i++) {
        struct memory_op *one = &table->largest[i];

        if (one->op == op) {
            one->bytes = bytes > one->bytes ? bytes : one->bytes;
            return;
        }
        least = one->bytes < least->bytes ? one : least;
    }
    if (table->largest_count < MEMORY_OPS)
        table->largest[table->largest_count++] = (struct memory_op){op, bytes};
    else if (bytes > least->bytes)
        *least = (struct memory_op){op, bytes};
}

/* Without memory for it nobody knows whose blocks stay. */
static void keep_size(struct memory_table *table, uint32_t op, int64_t bytes)
{
    if (table->sizes == NULL)
        table->sizes = calloc(1, sizeof(*table->sizes));
    if (table->sizes != NULL)
        memory_kept_add(table->sizes, op, bytes);
}

void memory_fold_alloc(struct memory *memory, const struct event *event)
{
    struct memory_table *table = find_or_add(memory, EVENT_AUX16(event->meta));
    int64_t bytes = (int64_t)event->value, allocated = (int64_t)event->aux;

    if (table == NULL)
        return;
    if (bytes > 0 && EVENT_NAME(event->meta) != 0)
        keep_largest(table, EVENT_NAME(event->meta), bytes);
    keep_size(table, EVENT_NAME(event->meta), bytes);
    table->allocations += bytes > 0;
    table->frees += bytes < 0;
    table->bytes += bytes > 0 ? (uint64_t)bytes : 0;
    if (allocated > table->pending_peak) {
        table->pending_peak = allocated;
        table->pending_peak_ns = (int64_t)event->time;
    }
}

/* What the records behind the head say, or single allocations where they say nothing.
 */
static void read_more(struct memory_sample *sample, const struct event *events,
                      uint32_t more)
{
    if (more >= 1) {
        const struct event *peak = &events[1];

        sample->peak_time_ns = (int64_t)peak->time;
        sample->peak = (int64_t)peak->value;
        sample->allocations = (uint32_t)peak->aux;
        sample->frees = (uint32_t)(peak->aux >> 32);
        sample->counted = 1;
    }
    if (more >= 2)
        sample->bytes = events[2].time;
    sample->driver.held = -1;
    if (more < 2)
        return;
    uint32_t flags = EVENT_FLAGS(events[2].meta);

    sample->failed = (flags & EVENT_MEMORY_FAILED) != 0;
    if (flags & EVENT_MEMORY_SEGMENTS)
        sample->driver = (struct memory_driver){
            .known = 1,
            .got = (uint32_t)events[2].value,
            .given_back = (uint32_t)(events[2].value >> 32),
            .retries = (uint32_t)events[2].aux,
            .held =
                more < 3 || events[3].aux > INT32_MAX ? -1 : (int32_t)events[3].aux - 1,
            .calls_ns = more < 3 ? 0 : (int64_t)events[3].value};
    if (flags & (EVENT_MEMORY_SEGMENTS | EVENT_MEMORY_OOMS)) {
        sample->driver.ooms_known = 1;
        sample->driver.ooms = (uint32_t)(events[2].aux >> 32);
    }
}

void memory_fold(struct memory *memory, const struct event *events, uint32_t more)
{
    struct memory_table *table = find_or_add(memory, EVENT_AUX16(events->meta));
    struct memory_sample sample = {.time_ns = (int64_t)events->time,
                                   .allocated = (int64_t)events->value,
                                   .reserved =
                                       events->aux == 0 ? -1 : (int64_t)events->aux,
                                   .peak = (int64_t)events->value,
                                   .peak_time_ns = (int64_t)events->time,
                                   .peak_op = EVENT_NAME(events->meta)};

    if (table == NULL || !make_room(table))
        return;
    /* Threads deliver in turns and a damaged segment says anything; memory_after() needs
     * samples that never run back. */
    if (table->count > 0) {
        const struct memory_sample *newest =
            &table->ring[(table->count - 1) % table->capacity];

        if (sample.time_ns < newest->time_ns)
            sample.time_ns = newest->time_ns;
    }
    read_more(&sample, events, more);
    table->partial |=
        more >= 2 && (EVENT_FLAGS(events[2].meta) & EVENT_MEMORY_PARTIAL) != 0;
    if (table->sizes != NULL && !sample.failed)
        sample.kept =
            memory_kept_end(table->sizes, (uint64_t)sample.allocations + sample.frees);
    if (table->pending_peak > sample.peak) {
        sample.peak = table->pending_peak;
        sample.peak_time_ns = table->pending_peak_ns;
    }
    if (sample.peak < sample.allocated) {
        sample.peak = sample.allocated;
        sample.peak_time_ns = sample.time_ns;
    }
    /* Of a step whose allocation failed the peak is told with its end. */
    table->pending_peak = sample.failed ? sample.peak : -1;
    table->pending_peak_ns = sample.peak_time_ns;
    if (sample.counted) {
        table->allocations += sample.allocations;
        table->frees += sample.frees;
        table->bytes += sample.bytes;
    }
    if (sample.peak > table->run_peak.peak)
        table->run_peak = sample;
    sample.sequence = ++memory->sequence;
    table->ring[table->count++ % table->capacity] = sample;
    double values[SERIES_CHANNELS] = {(double)sample.allocated,
                                      sample.reserved < 0 ? (double)NAN
                                                          : (double)sample.reserved,
                                      (double)sample.peak};

    series_add(&table->series, sample.time_ns, sample.peak_op, values, 3);
}
