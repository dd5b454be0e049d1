#include "aggregate/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_host.h"

#define BUCKET_FIRST_NS INT64_C(100000)

void gpu_init(struct gpu *gpu)
{
    *gpu = (struct gpu){.from_ns = INT64_MAX,
                        .host_from_ns = INT64_MIN,
                        .bucket_ns = BUCKET_FIRST_NS,
                        .trains_ns = INT64_MAX,
                        .recorded_ns = INT64_MIN,
                        .settled_ns = INT64_MIN,
                        .blind_ns = INT64_MAX,
                        .forced_ns = INT64_MIN};
}

void gpu_free(struct gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->table_count; i++) {
        free(gpu->tables[i]->items);
        free(gpu->tables[i]->steps);
        free(gpu->tables[i]->buckets);
        free(gpu->tables[i]->recent);
        free(gpu->tables[i]);
    }
    for (uint32_t kind = 0; kind < GPU_HOSTS; kind++)
        free(gpu->hosts[kind].spans);
    free(gpu->launches);
    free(gpu->lost);
    free(gpu->steps);
    free(gpu->name_uses);
    gpu_init(gpu);
}

void gpu_begin(struct gpu *gpu, int64_t from_ns)
{
    /* Sums by time count from here: what was added keeps its place. */
    if (gpu->accounted || from_ns >= gpu->from_ns)
        return;
    gpu->from_ns = from_ns;
    for (uint32_t i = 0; i < gpu->table_count; i++)
        gpu->tables[i]->cursor_ns = from_ns;
}

const struct gpu_table *gpu_find(const struct gpu *gpu, uint16_t device)
{
    for (uint32_t i = 0; i < gpu->table_count; i++)
        if (gpu->tables[i]->device == device)
            return gpu->tables[i];
    return NULL;
}

static struct gpu_table *table_new(const struct gpu *gpu, uint16_t device)
{
    struct gpu_table *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return NULL;
    table->device = device;
    table->cursor_ns = gpu->from_ns;
    table->gap_end_ns = INT64_MIN;
    table->launched_ns = INT64_MIN;
    table->buckets = calloc(GPU_BUCKETS, sizeof(*table->buckets));
    table->recent = calloc(GPU_RECENT, sizeof(*table->recent));
    if (gpu->step_capacity > 0)
        table->steps = calloc(gpu->step_capacity, sizeof(*table->steps));
    if (table->buckets == NULL || table->recent == NULL ||
        (gpu->step_capacity > 0 && table->steps == NULL)) {
        free(table->buckets);
        free(table->recent);
        free(table->steps);
        free(table);
        return NULL;
    }
    return table;
}

struct gpu_table *gpu_device(struct gpu *gpu, uint16_t device)
{
    for (uint32_t i = 0; i < gpu->table_count; i++)
        if (gpu->tables[i]->device == device)
            return gpu->tables[i];
    struct gpu_table *table =
        gpu->table_count < GPU_TABLES ? table_new(gpu, device) : NULL;

    if (table == NULL)
        return NULL;
    gpu->on = true;
    gpu->tables[gpu->table_count++] = table;
    return table;
}

/* ---- what comes in ----------------------------------------------------------------- */

static bool grow_steps(struct gpu *gpu)
{
    uint32_t capacity = gpu->step_capacity == 0 ? 256 : gpu->step_capacity * 2;
    struct gpu_step *steps = realloc(gpu->steps, capacity * sizeof(*steps));

    if (steps == NULL)
        return false;
    gpu->steps = steps;
    for (uint32_t i = 0; i < gpu->table_count; i++) {
        struct gpu_table *table = gpu->tables[i];
        struct gpu_cell *cells = realloc(table->steps, capacity * sizeof(*cells));

        if (cells == NULL)
            return false;
        table->steps = cells;
        memset(cells + gpu->step_capacity, 0,
               (capacity - gpu->step_capacity) * sizeof(*cells));
    }
    gpu->step_capacity = capacity;
    return true;
}

/* While the ring grows it has never wrapped: places stay. */
static void keep_step(struct gpu *gpu, int64_t start_ns, int64_t end_ns)
{
    if (gpu->step_count == gpu->step_capacity && gpu->step_capacity < GPU_STEPS &&
        !grow_steps(gpu) && gpu->step_capacity == 0)
        return;
    uint32_t at = (uint32_t)(gpu->step_count++ % gpu->step_capacity);

    gpu->steps[at] = (struct gpu_step){
        .start_ns = start_ns < gpu->forced_ns ? end_ns : start_ns,
        .end_ns = end_ns,
        .blind_ns = gpu->blind_ns < start_ns ? gpu->blind_ns : start_ns};
    gpu->recorded_steps += gpu->steps[at].start_ns < end_ns;
    gpu->blind_ns = INT64_MAX;
    for (uint32_t i = 0; i < gpu->table_count; i++)
        gpu->tables[i]->steps[at] = (struct gpu_cell){0};
}

static bool was_told_ahead(const struct gpu *gpu, int64_t start_ns, int64_t end_ns)
{
    uint64_t last = gpu->step_count - 1;

    return gpu->step_count > 0 && end_ns > start_ns &&
           gpu->steps[last % gpu->step_capacity].start_ns == start_ns &&
           gpu->steps[last % gpu->step_capacity].end_ns == end_ns;
}

void gpu_fold_step(struct gpu *gpu, const struct event *event)
{
    uint8_t flags = EVENT_FLAGS(event->meta);
    int64_t start = (int64_t)event->time, end = start + (int64_t)event->value;

    if (was_told_ahead(gpu, start, end))
        return;
    gpu->training_steps += (flags & EVENT_STEP_VALIDATION) == 0;
    if (!(flags & EVENT_STEP_KERNELS)) {
        /* The source is switched where a step ends. */
        if (gpu->blind_ns == INT64_MAX)
            gpu->blind_ns = gpu->recorded_ns;
        return;
    }
    gpu->trains_ns = start < gpu->trains_ns ? start : gpu->trains_ns;
    gpu->recorded_ns = end > gpu->recorded_ns ? end : gpu->recorded_ns;
    if (!(flags & (EVENT_STEP_VALIDATION | EVENT_STEP_WINDOW)))
        keep_step(gpu, start, end);
}

uint64_t gpu_lose(struct gpu *gpu, int64_t since_ns, int64_t until_ns)
{
    uint64_t first = gpu_step_after(gpu, since_ns), i = first;

    for (; i < gpu->step_count; i++) {
        struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];

        if (step->start_ns >= until_ns)
            break;
        gpu->recorded_steps -= step->start_ns < step->end_ns;
        step->start_ns = step->end_ns;
    }
    return i - first;
}

static bool make_room(struct gpu_table *table)
{
    if (table->item_count < table->item_capacity)
        return true;
    uint32_t capacity = table->item_capacity == 0 ? 256 : table->item_capacity * 2;
    struct gpu_item *items =
        capacity > GPU_ITEMS ? NULL : realloc(table->items, capacity * sizeof(*items));

    if (items == NULL)
        return false;
    table->items = items;
    table->item_capacity = capacity;
    return true;
}

/* What came so far is all: of a source that tells of nothing. Of one that will tell more,
 * the steps in which more may come are not known. */
static void settle_without_room(struct gpu *gpu, int64_t until_ns)
{
    int64_t since_ns = until_ns;

    for (uint32_t i = 0; i < gpu->table_count; i++)
        if (gpu->tables[i]->cursor_ns < since_ns)
            since_ns = gpu->tables[i]->cursor_ns;
    gpu_settle_all(gpu, until_ns);
    if (!gpu->tells)
        return;
    gpu->forced_ns = until_ns > gpu->forced_ns ? until_ns : gpu->forced_ns;
    (void)gpu_lose(gpu, since_ns, until_ns);
}

/* `more` is the record behind it, NULL without. */
static void fold_work(struct gpu *gpu, const struct texts *texts,
                      const struct event *event, const struct event *more)
{
    struct gpu_table *table = gpu_device(gpu, EVENT_AUX16(event->meta));
    uint8_t kind = EVENT_KIND(event->meta);
    bool kernel = kind == EVENT_KERNEL;
    struct gpu_item item = {.start_ns = (int64_t)event->time,
                            .end_ns = (int64_t)event->time + (int64_t)event->value,
                            .correlation = event->aux,
                            .moving_ns = (int64_t)event->value,
                            .use = GPU_COPY,
                            .kind = kind,
                            .copy = EVENT_FLAGS(event->meta)};

    if (table == NULL) {
        gpu->refused++;
        return;
    }
    if (kernel)
        item.use =
            gpu_name_use(gpu, texts, EVENT_NAME(event->meta)) & GPU_NAME_COMMUNICATION
                ? GPU_COMMUNICATION
                : GPU_COMPUTE;
    if (more != NULL)
        item.stream = (uint32_t)(kernel ? more->time : more->value);
    if (more != NULL && !kernel)
        item.bytes = more->time;
    if (!make_room(table))
        settle_without_room(gpu, item.start_ns);
    if (!make_room(table)) {
        table->refused++;
        return;
    }
    table->works++;
    table->late += item.start_ns < table->gap_end_ns;
    table->items[table->item_count++] = item;
}

/* NCCL only takes an order, in 0.2 ms at most: who returns so soon waited for no peer. */
#define COLLECTIVE_WAITS_NS 1000000u

static bool is_call(uint8_t kind)
{
    return kind == EVENT_RUNTIME || kind == EVENT_LAUNCH;
}

/* What the host does in a call, op or range; GPU_HOSTS: it says nothing of that. */
static enum gpu_host host_of(uint8_t use, const struct texts *texts,
                             const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);
    enum gpu_host host = GPU_NAME_HOST(use);
    bool call = is_call(kind);

    if (kind == EVENT_SYNC)
        host = GPU_HOST_SYNC;
    else if (kind == EVENT_COLLECTIVE)
        host = GPU_HOST_COLLECTIVE;
    else if (!call && host != GPU_HOST_DATA && host != GPU_HOST_COLLECTIVE)
        host = GPU_HOST_OP;
    if (host == GPU_HOST_COLLECTIVE && event->value < COLLECTIVE_WAITS_NS)
        host = GPU_HOST_OP;
    if (call && gpu_name_sets_up(use, (double)event->value))
        host = GPU_HOST_SETUP;
    if (host == GPU_HOST_OP &&
        (kind == EVENT_USER_RANGE || texts_class(texts, EVENT_NAME(event->meta))))
        return GPU_HOSTS;
    return host;
}

void gpu_fold_ahead(struct gpu *gpu, const struct texts *texts,
                    const struct event *event)
{
    uint8_t use = gpu_name_use(gpu, texts, EVENT_NAME(event->meta));
    enum gpu_host host = host_of(use, texts, event);
    int64_t start = (int64_t)event->time;

    if (host != GPU_HOSTS)
        gpu_host_add(gpu, host, start, start + (int64_t)event->value);
}

/* What is launched between its begin and its end is written down, and nothing runs. */
static void note_capture(struct gpu *gpu, const struct texts *texts,
                         const struct event *event)
{
    uint8_t use = gpu_name_use(gpu, texts, EVENT_NAME(event->meta));
    int64_t start = (int64_t)event->time, end = start + (int64_t)event->value;

    if (GPU_NAME_CALL(use) == GPU_NAME_CAPTURES) {
        gpu->capture_ns = start;
        gpu->captures = true;
    } else if (GPU_NAME_CALL(use) == GPU_NAME_CAPTURED && gpu->captures) {
        gpu->captures = false;
        if (gpu->capture_ns < end)
            gpu_host_add(gpu, GPU_HOST_SETUP, gpu->capture_ns, end);
    }
}

static void fold_host(struct gpu *gpu, const struct texts *texts,
                      const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);

    gpu_fold_ahead(gpu, texts, event);
    if (is_call(kind))
        note_capture(gpu, texts, event);
    if (is_call(kind) || kind == EVENT_SYNC)
        gpu_launch_add(
            gpu, &(struct gpu_launch){.correlation = event->aux,
                                      .start_ns = (int64_t)event->time,
                                      .end_ns = (int64_t)(event->time + event->value),
                                      .thread = EVENT_CALLER(event->meta, UINT32_MAX)});
}

void gpu_fold(struct gpu *gpu, const struct texts *texts, const struct event *events,
              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct event *event = &events[i];
        bool more = i + 1 < count && EVENT_KIND(events[i + 1].meta) == EVENT_MORE;

        switch (EVENT_KIND(event->meta)) {
        case EVENT_KERNEL:
        case EVENT_MEMCPY:
        case EVENT_MEMSET:
            gpu_begin(gpu, (int64_t)event->time);
            fold_work(gpu, texts, event, more ? event + 1 : NULL);
            break;
        case EVENT_CPU_OP:
        case EVENT_USER_RANGE:
        case EVENT_RUNTIME:
        case EVENT_LAUNCH:
        case EVENT_SYNC:
        case EVENT_COLLECTIVE:
            if (gpu->on)
                fold_host(gpu, texts, event);
            break;
        case EVENT_PHASE:
            if (gpu->on && EVENT_AUX16(event->meta) == EVENT_PHASE_DATA)
                gpu_host_add(gpu, GPU_HOST_DATA, (int64_t)event->time,
                             (int64_t)event->time + (int64_t)event->value);
            break;
        default:
            break;
        }
    }
}
