#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/hardware_inside.h"
#include "query/memory_inside.h"
#include "query/parts.h"
#include "wire/facts.h"

#define NS_PER_S 1e9

/* One for all of these samples: the highest, at its time. */
static void add_point(const struct memory_table *table, uint32_t from, uint32_t to,
                      struct memory_device *device)
{
    struct memory_point *point = &device->points[device->point_count++];

    /* Totals since attach are below zero where what was there before is freed. */
    *point = (struct memory_point){.allocated = -(double)INFINITY, .reserved = UNKNOWN};
    for (uint32_t i = from; i < to; i++) {
        const struct memory_sample *sample = memory_at(table, i);
        double reserved = (double)sample->reserved;

        if ((double)sample->allocated > point->allocated) {
            point->allocated = (double)sample->allocated;
            point->time_ns = sample->time_ns;
        }
        if (reserved >= 0 && !(reserved <= point->reserved))
            point->reserved = reserved;
    }
}

/* At most `points`, 1 and more; the last is the last sample itself: what is held at the
 * window's end depends on nobody's number of points. */
static void points_from_ring(const struct memory_table *table, const uint32_t range[2],
                             uint32_t points, struct memory_device *device)
{
    uint32_t before = range[1] > range[0] ? range[1] - range[0] - 1 : 0;
    uint32_t buckets = before < points - 1 ? before : points - 1;

    for (uint32_t b = 0; b < buckets; b++)
        add_point(table, range[0] + (uint32_t)((uint64_t)before * b / buckets),
                  range[0] + (uint32_t)((uint64_t)before * (b + 1) / buckets), device);
    if (range[1] > range[0])
        add_point(table, range[1] - 1, range[1], device);
}

static void points_from_series(const struct memory_table *table, int64_t from_ns,
                               int64_t until_ns, uint32_t points,
                               struct memory_device *device)
{
    const struct series_ring *ring =
        series_pick(&table->series, from_ns, until_ns, points);
    int64_t width = series_width_ns(&table->series, ring);

    for (uint32_t i = 0; i < ring->count && device->point_count < points; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= from_ns || bucket->start_ns + width > until_ns)
            continue;
        device->points[device->point_count++] = (struct memory_point){
            .time_ns = bucket->start_ns,
            .allocated = (double)bucket->max[0],
            .reserved = bucket->counts[1] > 0 ? (double)bucket->max[1] : UNKNOWN};
    }
}

/* NOT_KNOWN where none that is remembered was at work then, or a batch of validation. */
static int64_t step_at(const struct pick *pick, int64_t time_ns)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t after = steps_after(steps, time_ns);
    const struct step *step =
        after < steps_remembered(steps) ? steps_at(steps, after) : NULL;

    return step == NULL || time_ns < step->start_ns ||
                   (step->flags & EVENT_STEP_VALIDATION) != 0
               ? NOT_KNOWN
               : (int64_t)step->number;
}

static void find_peak(const struct pick *pick, const struct memory_table *table,
                      const uint32_t range[2], struct memory_device *device)
{
    const struct answer_window *window = &pick->head->window;
    const struct memory_sample *peak = NULL;
    const struct memory_sample *run = &table->run_peak;

    for (uint32_t i = range[0]; i < range[1]; i++)
        if (peak == NULL || memory_at(table, i)->peak > peak->peak)
            peak = memory_at(table, i);
    if (run->peak >= 0 && run->time_ns >= window->from_ns &&
        run->time_ns < window->to_ns && (peak == NULL || run->peak > peak->peak))
        peak = run;
    device->peak_op = "";
    device->peak_bytes = UNKNOWN;
    device->peak_time_ns = device->peak_step = NOT_KNOWN;
    if (peak == NULL)
        return;
    device->peak_bytes = (double)peak->peak;
    device->peak_time_ns = peak->peak_time_ns;
    device->peak_step = step_at(pick, peak->peak_time_ns);
    device->peak_op =
        arena_text(&pick->head->arena, texts_get(pick->process->texts, peak->peak_op));
}

/* Of long windows an even choice of steps; the highest is known from all of them. */
#define PEAKS_MOST 1024u

/* Of those at steps' ends, evenly chosen; returns how many, `steps`: of how many. */
static uint32_t choose_peaks(const struct memory_table *table, const uint32_t range[2],
                             double *peaks, uint32_t *steps)
{
    uint32_t count = 0, kept = 0;

    for (uint32_t i = range[0]; i < range[1]; i++)
        count += !memory_at(table, i)->failed;
    uint32_t every = count / PEAKS_MOST + 1;

    *steps = 0;
    for (uint32_t i = range[0]; i < range[1]; i++)
        if (!memory_at(table, i)->failed && (*steps)++ % every == 0)
            peaks[kept++] = (double)memory_at(table, i)->peak;
    return kept;
}

/* What stays between steps. A file of another program has samples within steps too: it
 * tells of no single step's peak. */
static void find_peaks(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    bool by_step = !pick->session->from_file || pick->session->own_file;
    uint32_t count = range[1] - range[0], kept;
    double peaks[PEAKS_MOST], floor = (double)INFINITY;

    device->usual_peak_bytes = device->least_peak_bytes = device->floor_bytes = UNKNOWN;
    device->peaks = device->high_peaks = device->other_peaks = 0;
    if (count < MEMORY_PEAKS_LEAST)
        return;
    for (uint32_t i = range[0]; i < range[1]; i++)
        floor = fmin(floor, (double)memory_at(table, i)->allocated);
    device->floor_bytes = floor;
    kept = by_step ? choose_peaks(table, range, peaks, &count) : 0;
    if (kept == 0)
        return;
    device->usual_peak_bytes = numbers_median(peaks, kept);
    device->least_peak_bytes = peaks[0];
    device->peaks = count;
    for (uint32_t i = range[0]; i < range[1]; i++) {
        double peak = (double)memory_at(table, i)->peak;
        double over = peak - device->usual_peak_bytes;

        if (memory_at(table, i)->failed)
            continue;
        device->high_peaks += peak > MEMORY_PEAK_HIGH * device->usual_peak_bytes;
        device->other_peaks +=
            fabs(over) > MEMORY_PEAK_ALIKE * device->usual_peak_bytes;
    }
}

/* Steps for each of which calls were counted: what bare steps do is taken to be the same. */
static double steps_per_sample(const struct pick *pick,
                               const struct memory_table *table,
                               const uint32_t range[2])
{
    const struct steps *steps = &pick->process->steps;
    double samples = 0;

    if (range[1] < range[0] + 2)
        return 1;
    for (uint32_t i = range[0] + 1; i < range[1]; i++)
        samples += !memory_at(table, i)->failed;

    double ended = steps_after(steps, memory_at(table, range[1] - 1)->time_ns) -
                   steps_after(steps, memory_at(table, range[0])->time_ns);

    return samples > 0 && ended > samples ? ended / samples : 1;
}

static void find_rates(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    double allocations = 0, frees = 0, bytes = 0, counted = 0, steps = 0;

    device->allocations_per_s = device->frees_per_s = device->bytes_per_s =
        device->allocations_per_step = device->bytes_per_step = UNKNOWN;
    for (uint32_t i = range[0] + 1; i < range[1]; i++) {
        const struct memory_sample *sample = memory_at(table, i);

        counted += sample->counted;
        steps += sample->counted && !sample->failed;
        allocations += sample->allocations;
        frees += sample->frees;
        bytes += (double)sample->bytes;
    }
    if (counted == 0)
        return;
    double seconds = (double)(memory_at(table, range[1] - 1)->time_ns -
                              memory_at(table, range[0])->time_ns) /
                     NS_PER_S;

    if (seconds > 0) {
        double scale = steps_per_sample(pick, table, range);

        device->allocations_per_s = scale * allocations / seconds;
        device->frees_per_s = scale * frees / seconds;
        device->bytes_per_s = scale * bytes / seconds;
    }
    if (pick->head->steps > 0 && steps > 0) {
        device->allocations_per_step = allocations / steps;
        device->bytes_per_step = bytes / steps;
    }
}

/* A model takes its memory in its first steps: what lasts is in both halves. */
static double lasting(const struct memory_table *table, const uint32_t range[2])
{
    uint32_t middle = range[0] + (range[1] - range[0]) / 2;
    double ns[2] = {0, 0}, steps[2] = {0, 0};

    for (uint32_t i = range[0]; i < range[1]; i++) {
        const struct memory_sample *sample = memory_at(table, i);

        steps[i >= middle] += sample->driver.known && !sample->failed;
        ns[i >= middle] += (double)sample->driver.calls_ns;
    }
    return steps[0] > 0 && steps[1] > 0 ? fmin(ns[0] / steps[0], ns[1] / steps[1])
                                        : UNKNOWN;
}

static void find_driver(const struct memory_table *table, const uint32_t range[2],
                        struct memory_device *device)
{
    double known = 0, steps = 0, got = 0, given_back = 0, retries = 0, ns = 0;
    double ooms_known = 0, ooms = 0;

    device->segments = device->segments_got = device->segments_given_back =
        device->retries = device->ooms = device->driver_ns = UNKNOWN;
    for (uint32_t i = range[0]; i < range[1]; i++) {
        const struct memory_sample *sample = memory_at(table, i);
        const struct memory_driver *driver = &sample->driver;

        known += driver->known;
        steps += driver->known && !sample->failed;
        got += driver->got;
        given_back += driver->given_back;
        retries += driver->retries;
        ooms_known += driver->ooms_known;
        ooms += driver->ooms;
        ns += (double)driver->calls_ns;
        device->segments = driver->held < 0 ? UNKNOWN : driver->held;
    }
    device->driver_lasting_ns = lasting(table, range);
    if (ooms_known > 0)
        device->ooms = ooms;
    if (known == 0)
        return;
    device->segments_got = got;
    device->segments_given_back = given_back;
    device->retries = retries;
    if (steps > 0)
        device->driver_ns = ns / steps;
}

static void find_slope(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    int64_t from_ns = pick->head->window.from_ns, to_ns = pick->head->window.to_ns;
    struct memory_envelopes envelopes;

    if (range[1] > range[0]) {
        from_ns = memory_at(table, range[0])->time_ns;
        to_ns = memory_at(table, range[1] - 1)->time_ns + 1;
    }
    /* Totals that lack the calls of bare steps grow by that much less. */
    double scale = table->partial ? steps_per_sample(pick, table, range) : 1;

    memory_envelopes_open(&envelopes, pick, from_ns, to_ns, false);
    for (uint32_t i = range[0]; i < range[1]; i++)
        memory_envelopes_add(&envelopes, memory_at(table, i)->time_ns,
                             scale * (double)memory_at(table, i)->allocated);
    /* A step needs its peak, not what is left behind it. */
    double peak = range[1] > range[0] ? (double)memory_at(table, range[1] - 1)->peak
                                      : device->allocated_bytes;

    device->growth = memory_envelopes_growth(&envelopes, device->usable_bytes - peak);
}

static int larger_first(const void *left, const void *right)
{
    const struct memory_largest *a = left, *b = right;

    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static int find_largest(const struct pick *pick, const struct memory_table *table,
                        struct memory_device *device)
{
    struct arena *arena = &pick->head->arena;

    if (!ARENA_LIST(arena, device->largest, table->largest_count))
        return -ENOMEM;
    device->largest_count = table->largest_count;
    for (uint32_t i = 0; i < table->largest_count; i++)
        device->largest[i] = (struct memory_largest){
            arena_text(arena, texts_get(pick->process->texts, table->largest[i].op)),
            (double)table->largest[i].bytes};
    qsort(device->largest, device->largest_count, sizeof(*device->largest),
          larger_first);
    return 0;
}

/* Sizes of which most stays in some step. */
#define KEPT_SIZES 16u

/* Of the steps, how many must keep some: what one keeps and the next gives back is kept by
 * half of them. */
#define KEPT_SHARE 0.8

struct kept_size {
    int64_t block;
    double bytes;
    uint32_t ops[MEMORY_KEPT_OPS], op_count;
    uint32_t steps; /* that keep some */
    bool vague;     /* of more ops */
};

static void add_op(struct kept_size *size, uint32_t op)
{
    for (uint32_t i = 0; i < size->op_count; i++)
        if (size->ops[i] == op)
            return;
    if (size->op_count == MEMORY_KEPT_OPS)
        size->vague = true;
    else
        size->ops[size->op_count++] = op;
}

/* Those of the window's steps, with the most first of all; `told`: how many steps tell. */
static uint32_t add_kept(const struct memory_table *table, const uint32_t range[2],
                         struct kept_size sizes[KEPT_SIZES], uint32_t *told)
{
    uint32_t count = 0, most = 0;

    for (uint32_t i = range[0]; i < range[1]; i++) {
        const struct memory_kept *kept = &memory_at(table, i)->kept;
        uint32_t at = 0;

        *told += kept->known;
        while (at < count && sizes[at].block != kept->block)
            at++;
        if (kept->op_count == 0 || at == KEPT_SIZES)
            continue;
        count += at == count;
        sizes[at].block = kept->block;
        sizes[at].bytes += (double)kept->bytes;
        sizes[at].steps++;
        for (uint32_t op = 0; op < kept->op_count; op++)
            add_op(&sizes[at], kept->ops[op]);
    }
    for (uint32_t i = 1; i < count; i++)
        most = sizes[i].bytes > sizes[most].bytes ? i : most;
    sizes[0] = sizes[most];
    return count;
}

static void find_kept(const struct pick *pick, const struct memory_table *table,
                      const uint32_t range[2], struct memory_device *device)
{
    struct kept_size sizes[KEPT_SIZES] = {{.block = 0}}, *most = &sizes[0];

    if (add_kept(table, range, sizes, &device->kept_steps) == 0 || most->vague ||
        most->steps < KEPT_SHARE * device->kept_steps)
        return;
    device->kept_bytes_per_step = most->bytes / device->kept_steps;
    device->kept_block_bytes = (double)most->block;
    for (uint32_t i = 0; i < most->op_count; i++)
        device->kept_ops[device->kept_op_count++] = arena_text(
            &pick->head->arena, texts_get(pick->process->texts, most->ops[i]));
}

/* Totals of accelerators come with the facts; the host's with the samples. */
static double total_of(const struct pick *pick, const struct memory_table *table)
{
    const struct process *process = pick->process;

    if (table->device == 0)
        return pick->store->host.memory_limit_bytes;
    if (table->total_bytes > 0)
        return (double)table->total_bytes;
    for (uint32_t i = 0; i < process->fact_count; i++)
        if (strcmp(texts_get(process->texts, process->facts[i].key),
                   FACT_DEVICE_MEMORY) == 0)
            return process->facts[i].number;
    return UNKNOWN;
}

/* The job asks about the device that it uses. */
static double inactive_split_of(const struct pick *pick,
                                const struct memory_table *table)
{
    const struct process *process = pick->process;
    double device = parts_fact_count(process, FACT_ALLOCATOR_DEVICE);

    return EVENT_DEVICE_TYPE(table->device) == 1 &&
                   EVENT_DEVICE_INDEX(table->device) == device
               ? parts_fact_count(process, FACT_ALLOCATOR_INACTIVE_SPLIT)
               : UNKNOWN;
}

static double usable_of(const struct pick *pick, const struct memory_device *device)
{
    /* Between two ends of steps it holds up to its peak, whatever it gives back then. */
    double own = fmax(device->reserved_bytes, device->peak_bytes);
    double others = whose_else(pick, device->device, own);

    return isnan(others) ? device->total_bytes : device->total_bytes - others;
}

int memory_fill_device(const struct pick *pick, const struct memory_table *table,
                       uint32_t points, struct memory_device *device)
{
    const struct answer_window *window = &pick->head->window;
    uint32_t remembered = memory_remembered(table);
    uint32_t range[2] = {memory_after(table, window->from_ns),
                         memory_after(table, window->to_ns)};
    const struct memory_sample *newest =
        remembered > 0 ? memory_at(table, remembered - 1) : NULL;

    device->device = pick_device(pick->head, table->device);
    device->partial = table->partial;
    device->allocated_bytes = newest == NULL ? UNKNOWN : (double)newest->allocated;
    device->reserved_bytes =
        newest == NULL || newest->reserved < 0 ? UNKNOWN : (double)newest->reserved;
    device->total_bytes = total_of(pick, table);
    device->inactive_split_bytes = inactive_split_of(pick, table);
    find_peak(pick, table, range, device);
    device->usable_bytes = usable_of(pick, device);
    find_peaks(pick, table, range, device);
    find_rates(pick, table, range, device);
    find_driver(table, range, device);
    find_slope(pick, table, range, device);
    find_kept(pick, table, range, device);
    device->points = arena_new(&pick->head->arena, points, sizeof(*device->points));
    if (device->points == NULL || find_largest(pick, table, device) != 0)
        return -ENOMEM;
    if (points > 0 && remembered < table->count && range[0] == 0 && remembered > 0)
        points_from_series(table, window->from_ns, memory_at(table, 0)->time_ns,
                           points / 2, device);
    if (points > device->point_count)
        points_from_ring(table, range, points - device->point_count, device);
    return 0;
}
