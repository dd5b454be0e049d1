#include "aggregate/gpu_time.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_buckets.h"
#include "aggregate/gpu_host.h"
#include "aggregate/gpu_queue.h"
#include "aggregate/sum.h"

/* ---- where time goes ------------------------------------------------------------------ */

int64_t gpu_busy_ns(const struct gpu_cell *cell)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < GPU_USES; i++)
        sum = sum_ns(sum, cell->use_ns[i]);
    return sum;
}

int64_t gpu_idle_ns(const struct gpu_cell *cell)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < GPU_IDLES; i++)
        sum = sum_ns(sum, cell->idle_ns[i]);
    return sum;
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

uint64_t gpu_step_after(const struct gpu *gpu, int64_t since_ns)
{
    uint64_t low = 0, high = gpu->step_count;

    if (gpu->step_count > gpu->step_capacity)
        low = gpu->step_count - gpu->step_capacity;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (gpu->steps[middle % gpu->step_capacity].end_ns > since_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t gpu_oldest_step(const struct gpu *gpu)
{
    return gpu->step_count > gpu->step_capacity ? gpu->step_count - gpu->step_capacity
                                                : 0;
}

/* Spans of a table come in order: steps that ended before one are done with, also those in
 * which nothing was recorded. After a minute without any they are tens of thousands, in the
 * way of each piece of work. */
static void pass_steps(const struct gpu *gpu, struct gpu_table *table, int64_t until_ns)
{
    /* A device that rested long enough has steps behind it that the ring forgot. */
    if (table->step_at < gpu_oldest_step(gpu))
        table->step_at = gpu_oldest_step(gpu);
    while (table->step_at < gpu->step_count &&
           gpu->steps[table->step_at % gpu->step_capacity].end_ns <= until_ns)
        table->step_at++;
}

static void account(struct gpu *gpu, struct gpu_table *table, size_t place,
                    const struct gpu_span *span)
{
    int64_t to = span->end_ns;

    gpu->accounted = true;
    gpu_cell_add_ns(&table->run, place, to - span->start_ns);
    gpu_buckets_add(gpu, table, place, span);
    pass_steps(gpu, table, span->start_ns);
    for (uint64_t i = table->step_at; i < gpu->step_count; i++) {
        const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];
        int64_t from = longer(step->start_ns, span->start_ns);
        int64_t end = shorter(step->end_ns, to);

        if (step->start_ns >= to)
            break;
        if (end > from)
            gpu_cell_add_ns(&table->steps[i % gpu->step_capacity], place, end - from);
    }
}

/* Takes off the front of `rest` the first part of it in which work was recorded; false
 * where none is left. */
static bool take_recorded(const struct gpu *gpu, const struct gpu_table *table,
                          struct gpu_span *rest, struct gpu_span *part)
{
    uint64_t i =
        table->step_at < gpu_oldest_step(gpu) ? gpu_oldest_step(gpu) : table->step_at;

    for (; i <= gpu->step_count && rest->start_ns < rest->end_ns; i++) {
        struct gpu_span blind = {gpu->blind_ns, INT64_MAX}; /* behind the last step */

        if (i < gpu->step_count) {
            const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];

            blind = (struct gpu_span){step->blind_ns, step->start_ns};
        }
        if (blind.start_ns >= rest->end_ns)
            break;
        if (blind.start_ns >= blind.end_ns || blind.end_ns <= rest->start_ns)
            continue;
        *part = (struct gpu_span){rest->start_ns, blind.start_ns};
        rest->start_ns = blind.end_ns;
        if (part->start_ns < part->end_ns)
            return true;
    }
    *part = *rest;
    rest->start_ns = rest->end_ns;
    return part->start_ns < part->end_ns;
}

static bool is_recorded(const struct gpu *gpu, const struct gpu_table *table,
                        int64_t at_ns)
{
    struct gpu_span rest = {at_ns, at_ns + 1}, part;

    return take_recorded(gpu, table, &rest, &part);
}

static void account_idle(struct gpu *gpu, struct gpu_table *table, enum gpu_idle idle,
                         const struct gpu_span *part)
{
    if (part->start_ns < part->end_ns)
        account(gpu, table,
                offsetof(struct gpu_cell, idle_ns) + (size_t)idle * sizeof(int64_t),
                part);
}

/* A gap in which work was recorded: the host's part, then the queue's. */
static void account_part(struct gpu *gpu, struct gpu_table *table,
                         const struct gpu_span *gap, const struct gpu_ahead *ahead)
{
    struct gpu_queued queued = gpu_queue_find(gpu, table, gap, ahead);
    struct gpu_span rest = {gap->start_ns, queued.from_ns};
    const struct gpu_span tail = {queued.from_ns, gap->end_ns};

    while (rest.start_ns < rest.end_ns) {
        struct gpu_cause cause = gpu_cause(gpu, &rest);

        account_idle(gpu, table, cause.idle,
                     &(struct gpu_span){rest.start_ns, cause.until_ns});
        rest.start_ns = cause.until_ns;
    }
    if (queued.queued && gpu_waits_for_data(gpu, gap))
        queued = (struct gpu_queued){.idle = GPU_IDLE_DATA};
    account_idle(gpu, table, queued.idle, &tail);
    if (queued.queued)
        account(gpu, table, offsetof(struct gpu_cell, queued_ns), &tail);
}

/* Up to the first of the items ahead, or to the end of the span. */
static void account_gap(struct gpu *gpu, struct gpu_table *table, int64_t to,
                        const struct gpu_ahead *ahead)
{
    static const struct gpu_ahead none = {NULL, 0};
    struct gpu_span rest = {.start_ns = table->cursor_ns, .end_ns = to}, gap;

    while (take_recorded(gpu, table, &rest, &gap)) {
        bool last = gap.end_ns == to;

        if (last && ahead->count == 0 && gpu->ends_early)
            account_idle(gpu, table, GPU_IDLE_UNKNOWN, &gap);
        else
            account_part(gpu, table, &gap, last ? ahead : &none);
    }
    table->cursor_ns = table->gap_end_ns = to;
}

/* When recording began again, last before `to`; INT64_MIN: it was never off. */
static int64_t resumed_ns(const struct gpu *gpu, const struct gpu_table *table,
                          int64_t to)
{
    struct gpu_span rest = {.start_ns = table->cursor_ns, .end_ns = to}, part;
    int64_t resumed = INT64_MIN;

    while (take_recorded(gpu, table, &rest, &part))
        if (part.start_ns > table->cursor_ns)
            resumed = part.start_ns;
    return resumed;
}

/* The first work after recording began again, and it had to wait: for what was launched
 * while nothing was recorded. Until then it is not known what the device did. */
static void pass_over_backlog(struct gpu *gpu, struct gpu_table *table,
                              const struct gpu_item *item)
{
    int64_t launched = gpu_launched_ns(gpu, item->correlation);

    if (launched == INT64_MIN || item->start_ns - launched <= GPU_LATENCY_NS)
        return;
    int64_t resumed = resumed_ns(gpu, table, item->start_ns);

    if (resumed == INT64_MIN)
        return;
    account_gap(gpu, table, resumed, &(const struct gpu_ahead){NULL, 0});
    table->cursor_ns = item->start_ns;
}

static void account_use(struct gpu *gpu, struct gpu_table *table, uint32_t use,
                        struct gpu_span rest)
{
    struct gpu_span part;

    while (take_recorded(gpu, table, &rest, &part)) {
        account(gpu, table, offsetof(struct gpu_cell, use_ns) + use * sizeof(int64_t),
                &part);
        part.end_ns = shorter(part.end_ns, table->active_ns[GPU_COMMUNICATION]);
        if (use == GPU_COMPUTE && part.end_ns > part.start_ns)
            account(gpu, table, offsetof(struct gpu_cell, overlap_ns), &part);
    }
}

/* What ran goes on until `to`, or until it ends: then a gap begins at the cursor. */
static void account_busy(struct gpu *gpu, struct gpu_table *table, int64_t to)
{
    while (table->cursor_ns < to) {
        int64_t from = table->cursor_ns;
        uint32_t use = 0;

        while (use < GPU_USES && table->active_ns[use] <= from)
            use++;
        if (use == GPU_USES)
            return;
        struct gpu_span span = {from, shorter(to, table->active_ns[use])};

        account_use(gpu, table, use, span);
        table->cursor_ns = span.end_ns;
    }
}

/* ---- settling --------------------------------------------------------------------------- */

/* What lasts longer before what began with it: that is inside of it. */
static int by_time(const void *left, const void *right)
{
    const struct gpu_item *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

/* What runs into the next piece of its stream ends there, unless that lies inside of it:
 * nodes of a graph run side by side under one stream. Streams that share a place are not
 * cut: at worst too much is busy. */
static void clip(struct gpu_table *table)
{
    struct gpu_item *last[GPU_STREAMS] = {NULL};

    for (uint32_t i = 0; i < table->item_count; i++) {
        struct gpu_item *item = &table->items[i];
        struct gpu_item **of = &last[item->stream % GPU_STREAMS];

        if (*of != NULL && (*of)->stream == item->stream) {
            if ((*of)->end_ns >= item->end_ns)
                continue;
            (*of)->end_ns = shorter((*of)->end_ns, item->start_ns);
        }
        *of = item;
    }
}

static bool is_sorted(const struct gpu_table *table)
{
    for (uint32_t i = 1; i < table->item_count; i++)
        if (by_time(&table->items[i - 1], &table->items[i]) > 0)
            return false;
    return true;
}

static void settle_table(struct gpu *gpu, struct gpu_table *table, int64_t until_ns)
{
    uint32_t kept = 0;

    if (!is_sorted(table))
        qsort(table->items, table->item_count, sizeof(*table->items), by_time);
    clip(table);
    for (uint32_t i = 0; i < table->item_count; i++) {
        struct gpu_item item = table->items[i];
        const struct gpu_ahead ahead = {&table->items[i], table->item_count - i};
        int64_t launched = INT64_MIN;

        pass_steps(gpu, table, table->cursor_ns);
        if (item.start_ns >= until_ns) {
            table->items[kept++] = item;
            continue;
        }
        if (!item.begun && is_recorded(gpu, table, item.start_ns)) {
            launched = gpu_launch_begin(gpu, item.correlation);
            gpu_work_begin(&table->work, &item, launched,
                           item.start_ns >= gpu->trains_ns);
        }
        item.begun = true;
        account_busy(gpu, table, item.start_ns);
        if (table->cursor_ns < item.start_ns)
            pass_over_backlog(gpu, table, &item);
        if (table->cursor_ns < item.start_ns)
            account_gap(gpu, table, item.start_ns, &ahead);
        table->launched_ns = longer(table->launched_ns, launched);
        table->active_ns[item.use] =
            longer(table->active_ns[item.use], shorter(item.end_ns, until_ns));
        if (item.end_ns <= until_ns)
            continue;
        /* Its rest may still be cut by what comes on its stream. */
        item.start_ns = until_ns;
        table->items[kept++] = item;
    }
    table->item_count = kept;
    account_busy(gpu, table, until_ns);
    pass_steps(gpu, table, table->cursor_ns);
}

void gpu_settle_all(struct gpu *gpu, int64_t until_ns)
{
    int64_t oldest = until_ns;

    gpu->settled_ns = longer(gpu->settled_ns, until_ns);
    gpu_host_settle(gpu);
    for (uint32_t i = 0; i < gpu->table_count; i++) {
        settle_table(gpu, gpu->tables[i], until_ns);
        oldest = shorter(oldest, gpu->tables[i]->cursor_ns);
    }
    gpu_host_forget(gpu, oldest);
}

void gpu_settle(struct gpu *gpu, int64_t until_ns)
{
    gpu_settle_all(gpu, until_ns - gpu->host_late_ns);
}

void gpu_finish(struct gpu *gpu, int64_t to_ns)
{
    gpu_settle_all(gpu, to_ns);
    for (uint32_t i = 0; i < gpu->table_count; i++) {
        struct gpu_table *table = gpu->tables[i];

        if (table->cursor_ns < to_ns)
            account_gap(gpu, table, to_ns, &(const struct gpu_ahead){NULL, 0});
    }
}

/* ---- sums -------------------------------------------------------------------------------- */

bool gpu_knows_step(const struct gpu *gpu, const struct gpu_table *table, uint64_t i)
{
    const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];
    const struct gpu_cell *cell = &table->steps[i % gpu->step_capacity];

    return step->end_ns > step->start_ns &&
           gpu_busy_ns(cell) + gpu_idle_ns(cell) == step->end_ns - step->start_ns;
}

/* Nothing has come from it for so long: it has done nothing since. */
static bool is_silent(const struct gpu *gpu, const struct gpu_table *table,
                      const struct gpu_step *step)
{
    return step->end_ns <= gpu->settled_ns && table->cursor_ns <= step->start_ns &&
           time_after(table->cursor_ns, GPU_SILENT_NS) < gpu->settled_ns;
}

bool gpu_knows_all(const struct gpu *gpu, int64_t start_ns)
{
    uint64_t i = gpu_step_after(gpu, start_ns);
    const struct gpu_step *step =
        i < gpu->step_count ? &gpu->steps[i % gpu->step_capacity] : NULL;
    uint32_t knows = 0, silent = 0;

    if (gpu->table_count == 0)
        return true;
    if (step == NULL || step->start_ns != start_ns)
        return false;
    for (uint32_t at = 0; at < gpu->table_count; at++)
        if (gpu_knows_step(gpu, gpu->tables[at], i))
            knows++;
        else
            silent += is_silent(gpu, gpu->tables[at], step);
    return knows > 0 && knows + silent == gpu->table_count;
}

uint64_t gpu_steps_in(const struct gpu *gpu, const int64_t range[2])
{
    uint64_t count = 0;

    for (uint64_t i = gpu_oldest_step(gpu); i < gpu->step_count; i++) {
        const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];

        count += step->start_ns >= range[0] && step->end_ns <= range[1] &&
                 step->start_ns < step->end_ns;
    }
    return count;
}

uint64_t gpu_settled_steps(const struct gpu *gpu)
{
    uint64_t count = gpu->recorded_steps;

    for (uint64_t i = gpu->step_count; i-- > gpu_oldest_step(gpu);) {
        const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];

        if (step->end_ns <= gpu->settled_ns)
            break;
        count -= step->start_ns < step->end_ns;
    }
    return count;
}

uint64_t gpu_sum_steps(const struct gpu *gpu, const struct gpu_table *table,
                       const int64_t range[2], struct gpu_cell *sum)
{
    uint64_t count = 0;

    *sum = (struct gpu_cell){0};
    for (uint64_t i = gpu_oldest_step(gpu); i < gpu->step_count; i++) {
        const struct gpu_step *step = &gpu->steps[i % gpu->step_capacity];

        if (step->start_ns < range[0] || step->end_ns > range[1] ||
            !gpu_knows_step(gpu, table, i))
            continue;
        gpu_cell_add(sum, &table->steps[i % gpu->step_capacity]);
        count++;
    }
    return count;
}
