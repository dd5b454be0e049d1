#include "aggregate/gpu_queue.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_host.h"

/* Work of a stream begins in the order of its launches, so that the first piece of each
 * stream has waited longest; so many pieces are asked for streams of their own. */
#define AHEAD_MOST 64u

/* A device that has idled takes longer to begin than one that goes on. */
#define WAKES_NS (2 * GPU_LATENCY_NS)

static int by_start(const void *left, const void *right)
{
    const struct gpu_span *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

bool gpu_queue_lose(struct gpu *gpu, const struct gpu_span *calls, uint32_t count)
{
    gpu->lost = count == 0 ? NULL : malloc(count * sizeof(*calls));
    if (gpu->lost == NULL)
        return count == 0;
    memcpy(gpu->lost, calls, count * sizeof(*calls));
    qsort(gpu->lost, count, sizeof(*calls), by_start);
    gpu->lost_count = count;
    return true;
}

/* Of the launches that lost their work, the first after `since_ns`; NULL none. */
static const struct gpu_span *lost_after(const struct gpu *gpu, int64_t since_ns)
{
    uint32_t low = 0, high = gpu->lost_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (gpu->lost[middle].start_ns > since_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low < gpu->lost_count ? &gpu->lost[low] : NULL;
}

/* When the call that launched it had returned; INT64_MAX: that is not known. */
static int64_t returned_ns(const struct gpu *gpu, const struct gpu_item *item)
{
    const struct gpu_launch *launch = gpu_launch_find(gpu, item->correlation);

    return launch != NULL ? launch->end_ns : INT64_MAX;
}

/* The next one, where it was queued before the gap; else the one that was launched first, of
 * the next of each stream. */
static const struct gpu_item *queued_first(const struct gpu *gpu,
                                           const struct gpu_span *gap,
                                           const struct gpu_ahead *ahead, int64_t *ns)
{
    const struct gpu_item *first = &ahead->items[0];
    uint64_t streams = 0;

    *ns = returned_ns(gpu, first);
    if (*ns <= gap->start_ns || gap->end_ns - gap->start_ns <= GPU_LATENCY_NS)
        return first;
    for (uint32_t i = 0; i < ahead->count && i < AHEAD_MOST; i++) {
        const struct gpu_item *item = &ahead->items[i];
        uint64_t stream = UINT64_C(1) << item->stream % 64;

        if ((streams & stream) != 0 || item->begun)
            continue;
        streams |= stream;
        int64_t returned = i == 0 ? *ns : returned_ns(gpu, item);

        if (returned < *ns) {
            *ns = returned;
            first = item;
        }
    }
    return first;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A launch without its work that came behind what ran before the gap, and before what ends
 * it: some of the gap is that work's. */
static void pass_over_lost(const struct gpu *gpu, const struct gpu_table *table,
                           const struct gpu_span *gap, const struct gpu_ahead *ahead,
                           struct gpu_queued *found)
{
    const struct gpu_span *lost = lost_after(gpu, table->launched_ns);
    int64_t launched = ahead->count == 0
                           ? INT64_MAX
                           : gpu_launched_ns(gpu, ahead->items[0].correlation);

    if (launched == INT64_MIN)
        launched = ahead->items[0].start_ns;
    if (lost == NULL || lost->start_ns >= launched || lost->end_ns >= found->from_ns)
        return;
    *found = (struct gpu_queued){later(lost->end_ns, gap->start_ns), GPU_IDLE_UNKNOWN,
                                 false};
}

struct gpu_queued gpu_queue_find(const struct gpu *gpu, const struct gpu_table *table,
                                 const struct gpu_span *gap,
                                 const struct gpu_ahead *ahead)
{
    struct gpu_queued found = {gap->end_ns, GPU_IDLE_UNKNOWN, false};
    const struct gpu_item *item;
    int64_t returned = INT64_MAX;

    if (ahead->count > 0) {
        if (gpu->launches != NULL && returned_ns(gpu, &ahead->items[0]) == INT64_MAX)
            return (struct gpu_queued){gap->start_ns, GPU_IDLE_UNKNOWN, false};
        item = queued_first(gpu, gap, ahead, &returned);
        if (returned < gap->end_ns && item->use == GPU_COMMUNICATION)
            found.idle = GPU_IDLE_COLLECTIVE;
    }
    if (returned <= gap->start_ns) {
        found.from_ns = gap->start_ns;
        found.queued = gap->end_ns - gap->start_ns <= GPU_LATENCY_NS;
        found.idle = found.queued ? GPU_IDLE_LAUNCH : found.idle;
    } else if (returned < gap->end_ns && gap->end_ns - returned > WAKES_NS) {
        found.from_ns = returned;
    }
    if (gpu->lost_count > 0 && !found.queued)
        pass_over_lost(gpu, table, gap, ahead, &found);
    return found;
}
