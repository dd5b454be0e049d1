#include "aggregate/gpu_buckets.h"

#include <string.h>

#include "aggregate/sum.h"

void gpu_cell_add(struct gpu_cell *to, const struct gpu_cell *from)
{
    for (uint32_t i = 0; i < GPU_USES; i++)
        to->use_ns[i] = sum_ns(to->use_ns[i], from->use_ns[i]);
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        to->idle_ns[i] = sum_ns(to->idle_ns[i], from->idle_ns[i]);
    to->overlap_ns = sum_ns(to->overlap_ns, from->overlap_ns);
    to->queued_ns = sum_ns(to->queued_ns, from->queued_ns);
}

void gpu_cell_add_ns(struct gpu_cell *cell, size_t place, int64_t ns)
{
    int64_t *sum = (int64_t *)(void *)((char *)cell + place);

    *sum = sum_ns(*sum, ns);
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Two buckets become one, on all devices. */
static void widen(struct gpu *gpu)
{
    for (uint32_t t = 0; t < gpu->table_count; t++) {
        struct gpu_cell *buckets = gpu->tables[t]->buckets;

        for (uint32_t i = 0; i < GPU_BUCKETS / 2; i++) {
            struct gpu_cell sum = buckets[2 * i];

            gpu_cell_add(&sum, &buckets[2 * i + 1]);
            buckets[i] = sum;
        }
        memset(buckets + GPU_BUCKETS / 2, 0, GPU_BUCKETS / 2 * sizeof(*buckets));
    }
    gpu->bucket_ns *= 2;
}

/* The newest buckets end behind `i`: those that begin with it are empty. */
static void make_recent(struct gpu_table *table, int64_t i)
{
    if (i - table->recent_end >= (int64_t)GPU_RECENT)
        table->recent_end = i - (int64_t)GPU_RECENT + 1;
    for (; table->recent_end <= i; table->recent_end++)
        table->recent[table->recent_end % (int64_t)GPU_RECENT] = (struct gpu_cell){0};
}

/* Adds `rest`, on the axis from the span's start, piece by piece. */
static void add_pieces(struct gpu_cell *cells, int64_t count, int64_t width_ns,
                       size_t place, struct gpu_span rest)
{
    while (rest.start_ns < rest.end_ns) {
        int64_t i = rest.start_ns / width_ns;
        int64_t end = shorter(rest.end_ns, (i + 1) * width_ns);

        gpu_cell_add_ns(&cells[i % count], place, end - rest.start_ns);
        rest.start_ns = end;
    }
}

void gpu_buckets_add(struct gpu *gpu, struct gpu_table *table, size_t place,
                     const struct gpu_span *span)
{
    struct gpu_span rest = {span->start_ns - gpu->from_ns, span->end_ns - gpu->from_ns};

    if (rest.start_ns >= rest.end_ns)
        return;
    while ((rest.end_ns - 1) / gpu->bucket_ns >= GPU_BUCKETS)
        widen(gpu);
    add_pieces(table->buckets, GPU_BUCKETS, gpu->bucket_ns, place, rest);
    make_recent(table, (rest.end_ns - 1) / GPU_RECENT_NS);

    int64_t oldest = (table->recent_end - (int64_t)GPU_RECENT) * GPU_RECENT_NS;

    if (rest.start_ns < oldest)
        rest.start_ns = oldest;
    add_pieces(table->recent, GPU_RECENT, GPU_RECENT_NS, place, rest);
}

struct gpu_buckets gpu_buckets_since(const struct gpu *gpu,
                                     const struct gpu_table *table, int64_t since_ns)
{
    int64_t first = table->recent_end - (int64_t)GPU_RECENT;

    first = first < 0 ? 0 : first;
    if (gpu->bucket_ns > GPU_RECENT_NS &&
        (first == 0 || since_ns >= gpu->from_ns + first * GPU_RECENT_NS))
        return (struct gpu_buckets){GPU_RECENT_NS, first, table->recent_end,
                                    table->recent, GPU_RECENT};
    return (struct gpu_buckets){gpu->bucket_ns, 0, GPU_BUCKETS, table->buckets,
                                GPU_BUCKETS};
}

const struct gpu_cell *gpu_bucket(const struct gpu_buckets *buckets, int64_t i)
{
    return &buckets->cells[i % buckets->count];
}

int64_t gpu_newest_bucket_ns(const struct gpu *gpu)
{
    return shorter(gpu->bucket_ns, GPU_RECENT_NS);
}

void gpu_sum_time(const struct gpu *gpu, const struct gpu_table *table,
                  const int64_t range[2], struct gpu_cell *sum)
{
    struct gpu_buckets buckets = gpu_buckets_since(gpu, table, range[0]);

    *sum = (struct gpu_cell){0};
    for (int64_t i = buckets.first; i < buckets.end; i++) {
        int64_t middle = gpu->from_ns + i * buckets.width_ns + buckets.width_ns / 2;

        if (middle >= range[0] && middle < range[1])
            gpu_cell_add(sum, gpu_bucket(&buckets, i));
    }
}
