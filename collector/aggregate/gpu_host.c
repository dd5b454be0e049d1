#include "aggregate/gpu_host.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/collectives.h"
#include "aggregate/sum.h"

/* Without a device that settles, the newest are enough: nobody asks for the others. */
#define SPANS_MAX (1u << 20)

#define WAYS 4u

static bool has(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (strcasestr(text, *parts) != NULL)
            return true;
    return false;
}

/* Of CUDA and HIP, of which that is known. A launch of a graph takes long for its nodes, what
 * pins memory for its pages, and cudaMemset may wait. */
static bool may_set_up(const char *text, enum gpu_host host)
{
    static const char *const contexts[] = {"cudaFree", "cudaMalloc", "hipFree",
                                           "hipMalloc"};

    if (host == GPU_HOST_OP)
        return (strncmp(text, "cu", 2) == 0 || strncmp(text, "hip", 3) == 0) &&
               strstr(text, "GraphLaunch") == NULL && strstr(text, "Memset") == NULL;
    for (size_t i = 0;
         host == GPU_HOST_ALLOC && i < sizeof(contexts) / sizeof(*contexts); i++)
        if (strcmp(text, contexts[i]) == 0)
            return true;
    return false;
}

/* Calls of CUDA, HIP and Level Zero; and of Unified Runtime, by which XPUs are driven. */
static bool waits(const char *text)
{
    return (strstr(text, "Synchronize") != NULL && strstr(text, "::") == NULL) ||
           strcmp(text, "urQueueFinish") == 0 || strcmp(text, "urEventWait") == 0;
}

static enum gpu_host host_of_name(const char *text)
{
    static const char *const collectives[] = {
        "nccl:", "gloo:", "c10d::", "record_param_comms", "ccl::", NULL};
    static const char *const allocations[] = {"cudaMalloc",      "cudaFree",
                                              "cudaHost",        "hipMalloc",
                                              "hipFree",         "hipHost",
                                              "cuMemAlloc",      "cuMemFree",
                                              "cuMemHost",       "cuMemCreate",
                                              "cuMemMap",        "cuMemUnmap",
                                              "cuMemSetAccess",  "cuMemRelease",
                                              "cuMemAddress",    "hipMemCreate",
                                              "hipMemMap",       "hipMemUnmap",
                                              "hipMemSetAccess", "hipMemRelease",
                                              "hipMemAddress",   NULL};
    static const char *const copies[] = {"cudaMemcpy", "hipMemcpy", "cuMemcpy", NULL};

    if (strncmp(text, "enumerate(DataLoader)", 21) == 0)
        return GPU_HOST_DATA;
    if (has(text, collectives))
        return GPU_HOST_COLLECTIVE;
    if (waits(text))
        return GPU_HOST_SYNC;
    if (has(text, allocations))
        return GPU_HOST_ALLOC;
    return has(text, copies) ? GPU_HOST_COPY : GPU_HOST_OP;
}

uint8_t gpu_name_classify(const char *text)
{
    enum gpu_host host = host_of_name(text);
    uint32_t use = GPU_NAME_KNOWN | host;

    use |= collectives_has_kernel(text) ? GPU_NAME_COMMUNICATION : 0;
    use |= strstr(text, "StreamBeginCapture") != NULL ? GPU_NAME_CAPTURES
           : strstr(text, "StreamEndCapture") != NULL ? GPU_NAME_CAPTURED
           : strstr(text, "Launch") != NULL           ? GPU_NAME_LAUNCHES
                                                      : 0;
    use |= may_set_up(text, host) ? GPU_NAME_SETS_UP : 0;
    return (uint8_t)use;
}

/* Calls take 2 to 20 us, and as long as the host's thread is put aside in them: some ms
 * where cores are short. In real traces first launches, which load their kernels, take 20 to
 * 4200 ms, and what makes streams or loads modules 6 ms and more. With cudaFree(0) libraries
 * ask for a context, which takes 0.7 s; to give memory back less than a tenth of that. */
#define LOADS_NS   2e7
#define SETUP_NS   5e6
#define CONTEXT_NS 1e8

bool gpu_name_sets_up(uint8_t use, double ns)
{
    double least = GPU_NAME_HOST(use) == GPU_HOST_ALLOC      ? CONTEXT_NS
                   : GPU_NAME_CALL(use) == GPU_NAME_LAUNCHES ? LOADS_NS
                                                             : SETUP_NS;

    return (use & GPU_NAME_SETS_UP) != 0 && ns >= least;
}

uint8_t gpu_name_use(struct gpu *gpu, const struct texts *texts, uint32_t text)
{
    if (text >= gpu->name_count) {
        uint32_t count = gpu->name_count == 0 ? 256 : gpu->name_count;

        while (count <= text)
            count *= 2;
        uint8_t *uses = realloc(gpu->name_uses, count);

        if (uses == NULL)
            return gpu_name_classify(texts_get(texts, text));
        memset(uses + gpu->name_count, 0, count - gpu->name_count);
        gpu->name_uses = uses;
        gpu->name_count = count;
    }
    if (gpu->name_uses[text] == 0)
        gpu->name_uses[text] = gpu_name_classify(texts_get(texts, text));
    return gpu->name_uses[text];
}

void gpu_host_add(struct gpu *gpu, enum gpu_host kind, int64_t start_ns, int64_t end_ns)
{
    struct gpu_host_list *list = &gpu->hosts[kind];

    gpu->any_host = true;
    /* What ends now holds what began inside of it: children came before it. */
    while (list->count > list->settled &&
           list->spans[list->count - 1].start_ns >= start_ns &&
           list->spans[list->count - 1].end_ns <= end_ns)
        list->count--;
    if (list->count > list->settled && list->spans[list->count - 1].end_ns >= end_ns &&
        list->spans[list->count - 1].start_ns <= start_ns)
        return;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 256 : list->capacity * 2;
        struct gpu_span *spans = capacity > SPANS_MAX
                                     ? NULL
                                     : realloc(list->spans, capacity * sizeof(*spans));

        if (spans == NULL) {
            gpu_host_settle(gpu);
            gpu_host_forget(gpu, list->spans == NULL || list->count == 0
                                     ? start_ns
                                     : list->spans[list->count / 2].start_ns);
            if (list->count == list->capacity)
                return;
        } else {
            list->spans = spans;
            list->capacity = capacity;
        }
    }
    list->spans[list->count++] =
        (struct gpu_span){.start_ns = start_ns, .end_ns = end_ns};
}

static int by_start(const void *left, const void *right)
{
    const struct gpu_span *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* All of the list by time, what touches joined. */
static void settle_list(struct gpu_host_list *list)
{
    uint32_t from = list->settled, kept;

    if (list->count == from)
        return;
    qsort(list->spans + from, list->count - from, sizeof(*list->spans), by_start);
    /* What reaches back among those that were settled is sorted with them. */
    while (from > 0 &&
           list->spans[from - 1].end_ns >= list->spans[list->settled].start_ns)
        from--;
    if (from < list->settled)
        qsort(list->spans + from, list->count - from, sizeof(*list->spans), by_start);
    kept = from;
    for (uint32_t i = from; i < list->count; i++) {
        struct gpu_span *last = kept > 0 ? &list->spans[kept - 1] : NULL;

        if (last == NULL || list->spans[i].start_ns > last->end_ns)
            list->spans[kept++] = list->spans[i];
        else if (list->spans[i].end_ns > last->end_ns)
            last->end_ns = list->spans[i].end_ns;
    }
    list->count = list->settled = kept;
}

void gpu_host_settle(struct gpu *gpu)
{
    for (uint32_t kind = 0; kind < GPU_HOSTS; kind++)
        settle_list(&gpu->hosts[kind]);
}

/* Index of the first span that ends after `time_ns`. */
static uint32_t first_after(const struct gpu_host_list *list, int64_t time_ns)
{
    uint32_t low = 0, high = list->settled;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (list->spans[middle].end_ns > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void gpu_host_forget(struct gpu *gpu, int64_t before_ns)
{
    if (before_ns <= gpu->host_from_ns)
        return;
    gpu->host_from_ns = before_ns;
    for (uint32_t kind = 0; kind < GPU_HOSTS; kind++) {
        struct gpu_host_list *list = &gpu->hosts[kind];
        uint32_t gone = first_after(list, before_ns);

        if (gone == 0)
            continue;
        list->count -= gone;
        list->settled -= gone;
        memmove(list->spans, list->spans + gone, list->count * sizeof(*list->spans));
    }
}

/* Where a launch may stand: WAYS neighbours, the newest first. */
static struct gpu_launch *ways_of(const struct gpu *gpu, uint64_t correlation)
{
    uint64_t way = correlation * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    return &gpu->launches[way % (GPU_LAUNCHES / WAYS) * WAYS];
}

void gpu_launch_add(struct gpu *gpu, const struct gpu_launch *launch)
{
    if (launch->correlation == 0)
        return;
    if (gpu->launches == NULL)
        gpu->launches = calloc(GPU_LAUNCHES, sizeof(*gpu->launches));
    if (gpu->launches == NULL)
        return;
    struct gpu_launch *ways = ways_of(gpu, launch->correlation);

    for (uint32_t i = WAYS - 1; i > 0; i--)
        ways[i] = ways[i - 1];
    ways[0] = *launch;
}

struct gpu_launch *gpu_launch_find(const struct gpu *gpu, uint64_t correlation)
{
    if (correlation == 0 || gpu->launches == NULL)
        return NULL;
    struct gpu_launch *ways = ways_of(gpu, correlation);

    for (uint32_t i = 0; i < WAYS; i++)
        if (ways[i].correlation == correlation)
            return &ways[i];
    return NULL;
}

int64_t gpu_launched_ns(const struct gpu *gpu, uint64_t correlation)
{
    const struct gpu_launch *launch = gpu_launch_find(gpu, correlation);

    return launch != NULL ? launch->start_ns : INT64_MIN;
}

int64_t gpu_launch_begin(struct gpu *gpu, uint64_t correlation)
{
    struct gpu_launch *launch = gpu_launch_find(gpu, correlation);

    if (launch == NULL || launch->begun)
        return INT64_MIN;
    launch->begun = true;
    return launch->start_ns;
}

struct overlap {
    int64_t ns;
    int64_t before_ns; /* of what was going on when the gap began: from its start to its
                          end; 0 nothing was */
};

static struct overlap overlap(const struct gpu_host_list *list,
                              const struct gpu_span *gap)
{
    struct overlap found = {0};

    for (uint32_t i = first_after(list, gap->start_ns);
         i < list->settled && list->spans[i].start_ns < gap->end_ns; i++) {
        const struct gpu_span *span = &list->spans[i];
        int64_t from = span->start_ns > gap->start_ns ? span->start_ns : gap->start_ns;
        int64_t to = span->end_ns < gap->end_ns ? span->end_ns : gap->end_ns;

        found.ns = sum_ns(found.ns, to - from);
        if (span->start_ns < gap->start_ns)
            found.before_ns = span->end_ns - span->start_ns;
    }
    return found;
}

/* A host that had not waited would have come to the next work earlier by as long as it
 * waited: so much of the gap is the wait's, and what is left would be there without it. */
static int64_t wait_ends_ns(const struct gpu_span *gap, int64_t waited_ns)
{
    int64_t length = gap->end_ns - gap->start_ns;

    return length - GPU_LATENCY_NS <= waited_ns ? gap->end_ns
                                                : gap->start_ns + waited_ns;
}

bool gpu_waits_for_data(const struct gpu *gpu, const struct gpu_span *gap)
{
    int64_t length = gap->end_ns - gap->start_ns;

    return overlap(&gpu->hosts[GPU_HOST_DATA], gap).ns >= length - length / 2;
}

struct gpu_cause gpu_cause(const struct gpu *gpu, const struct gpu_span *gap)
{
    static const struct {
        enum gpu_host host;
        enum gpu_idle idle;
    } calls[] = {{GPU_HOST_ALLOC, GPU_IDLE_ALLOC},
                 {GPU_HOST_COPY, GPU_IDLE_COPY},
                 {GPU_HOST_COLLECTIVE, GPU_IDLE_COLLECTIVE},
                 {GPU_HOST_SETUP, GPU_IDLE_SETUP}};
    int64_t length = gap->end_ns - gap->start_ns, half = length - length / 2;
    struct gpu_cause cause = {.idle = GPU_IDLE_DATA, .until_ns = gap->end_ns};

    if (gpu_waits_for_data(gpu, gap))
        return cause;
    for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (overlap(&gpu->hosts[calls[i].host], gap).ns >= half) {
            cause.idle = calls[i].idle;
            return cause;
        }
    struct overlap sync = overlap(&gpu->hosts[GPU_HOST_SYNC], gap);

    cause.idle = GPU_IDLE_SYNC;
    if (sync.ns >= half)
        return cause;
    if (sync.before_ns > 0)
        cause.until_ns = wait_ends_ns(gap, sync.before_ns);
    else if (overlap(&gpu->hosts[GPU_HOST_OP], gap).ns >= half)
        cause.idle = GPU_IDLE_LAUNCH;
    else
        cause.idle = gpu->any_host && gap->start_ns >= gpu->host_from_ns
                         ? GPU_IDLE_PYTHON
                         : GPU_IDLE_UNKNOWN;
    return cause;
}
