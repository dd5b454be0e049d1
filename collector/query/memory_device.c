#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/hardware_inside.h"
#include "query/memory_inside.h"
#include "query/parts.h"
#include "wire/facts.h"

#define NS_PER_S 1e9

/* One device, and its samples [first, end) of the window. */
struct looking {
    const struct pick *pick;
    const struct memory_table *table;
    struct memory_device *device;
    uint32_t first, end;
};

static const struct memory_sample *sample_at(const struct looking *at, uint32_t i)
{
    return memory_at(at->table, i);
}

/* One for all of these samples: the highest, at its time. */
static void add_point(const struct looking *at, uint32_t from, uint32_t to)
{
    struct memory_point *point = &at->device->points[at->device->point_count++];

    /* Totals since attach are below zero where what was there before is freed. */
    *point = (struct memory_point){.allocated = -(double)INFINITY, .reserved = UNKNOWN};
    for (uint32_t i = from; i < to; i++) {
        const struct memory_sample *sample = sample_at(at, i);
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
static void points_from_ring(const struct looking *at, uint32_t points)
{
    uint32_t before = at->end > at->first ? at->end - at->first - 1 : 0;
    uint32_t buckets = before < points - 1 ? before : points - 1;

    for (uint32_t b = 0; b < buckets; b++)
        add_point(at, at->first + (uint32_t)((uint64_t)before * b / buckets),
                  at->first + (uint32_t)((uint64_t)before * (b + 1) / buckets));
    if (at->end > at->first)
        add_point(at, at->end - 1, at->end);
}

static void points_from_series(const struct looking *at, int64_t until_ns,
                               uint32_t points)
{
    int64_t from_ns = at->pick->head->window.from_ns;
    const struct series_ring *ring =
        series_pick(&at->table->series, from_ns, until_ns, points);
    int64_t width = series_width_ns(&at->table->series, ring);

    for (uint32_t i = 0; i < ring->count && at->device->point_count < points; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= from_ns || bucket->start_ns + width > until_ns)
            continue;
        at->device->points[at->device->point_count++] = (struct memory_point){
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

static void find_peak(const struct looking *at)
{
    const struct answer_window *window = &at->pick->head->window;
    const struct memory_sample *peak = NULL;
    const struct memory_sample *run = &at->table->run_peak;

    for (uint32_t i = at->first; i < at->end; i++)
        if (peak == NULL || sample_at(at, i)->peak > peak->peak)
            peak = sample_at(at, i);
    if (run->peak >= 0 && run->time_ns >= window->from_ns &&
        run->time_ns < window->to_ns && (peak == NULL || run->peak > peak->peak))
        peak = run;
    at->device->peak_op = "";
    at->device->peak_bytes = UNKNOWN;
    at->device->peak_time_ns = at->device->peak_step = NOT_KNOWN;
    if (peak == NULL)
        return;
    at->device->peak_bytes = (double)peak->peak;
    at->device->peak_time_ns = peak->peak_time_ns;
    at->device->peak_step = step_at(at->pick, peak->peak_time_ns);
    at->device->peak_op = arena_text(
        &at->pick->head->arena, texts_get(at->pick->process->texts, peak->peak_op));
}

/* Of long windows an even choice of steps; the highest is known from all of them. */
#define PEAKS_MOST 1024u

/* Of those at steps' ends, evenly chosen; returns how many, `steps`: of how many. */
static uint32_t choose_peaks(const struct looking *at, double *peaks, uint32_t *steps)
{
    uint32_t count = 0, kept = 0;

    for (uint32_t i = at->first; i < at->end; i++)
        count += !sample_at(at, i)->failed;
    uint32_t every = count / PEAKS_MOST + 1;

    *steps = 0;
    for (uint32_t i = at->first; i < at->end; i++)
        if (!sample_at(at, i)->failed && (*steps)++ % every == 0)
            peaks[kept++] = (double)sample_at(at, i)->peak;
    return kept;
}

/* What stays between steps. A file of another program has samples within steps too: it
 * tells of no single step's peak. */
static void find_peaks(const struct looking *at)
{
    bool by_step = !at->pick->session->from_file || at->pick->session->own_file;
    uint32_t count = at->end - at->first, kept;
    double peaks[PEAKS_MOST], floor = (double)INFINITY;

    at->device->usual_peak_bytes = at->device->least_peak_bytes =
        at->device->floor_bytes = UNKNOWN;
    at->device->peaks = at->device->high_peaks = at->device->other_peaks = 0;
    if (count < MEMORY_PEAKS_LEAST)
        return;
    for (uint32_t i = at->first; i < at->end; i++)
        floor = fmin(floor, (double)sample_at(at, i)->allocated);
    at->device->floor_bytes = floor;
    kept = by_step ? choose_peaks(at, peaks, &count) : 0;
    if (kept == 0)
        return;
    at->device->usual_peak_bytes = numbers_median(peaks, kept);
    at->device->least_peak_bytes = peaks[0];
    at->device->peaks = count;
    for (uint32_t i = at->first; i < at->end; i++) {
        double peak = (double)sample_at(at, i)->peak;
        double over = peak - at->device->usual_peak_bytes;

        if (sample_at(at, i)->failed)
            continue;
        at->device->high_peaks +=
            peak > MEMORY_PEAK_HIGH * at->device->usual_peak_bytes;
        at->device->other_peaks +=
            fabs(over) > MEMORY_PEAK_ALIKE * at->device->usual_peak_bytes;
    }
}

/* Steps for each of which calls were counted: what bare steps do is taken to be the same. */
static double steps_per_sample(const struct looking *at)
{
    const struct steps *steps = &at->pick->process->steps;
    double samples = 0;

    if (at->end < at->first + 2)
        return 1;
    for (uint32_t i = at->first + 1; i < at->end; i++)
        samples += !sample_at(at, i)->failed;

    double ended = steps_after(steps, sample_at(at, at->end - 1)->time_ns) -
                   steps_after(steps, sample_at(at, at->first)->time_ns);

    return samples > 0 && ended > samples ? ended / samples : 1;
}

static void find_rates(const struct looking *at)
{
    double allocations = 0, frees = 0, bytes = 0, counted = 0, steps = 0;

    at->device->allocations_per_s = at->device->frees_per_s = at->device->bytes_per_s =
        at->device->allocations_per_step = at->device->bytes_per_step = UNKNOWN;
    for (uint32_t i = at->first + 1; i < at->end; i++) {
        const struct memory_sample *sample = sample_at(at, i);

        counted += sample->counted;
        steps += sample->counted && !sample->failed;
        allocations += sample->allocations;
        frees += sample->frees;
        bytes += (double)sample->bytes;
    }
    if (counted == 0)
        return;
    double seconds = (double)(sample_at(at, at->end - 1)->time_ns -
                              sample_at(at, at->first)->time_ns) /
                     NS_PER_S;

    if (seconds > 0) {
        double scale = steps_per_sample(at);

        at->device->allocations_per_s = scale * allocations / seconds;
        at->device->frees_per_s = scale * frees / seconds;
        at->device->bytes_per_s = scale * bytes / seconds;
    }
    if (at->pick->head->steps > 0 && steps > 0) {
        at->device->allocations_per_step = allocations / steps;
        at->device->bytes_per_step = bytes / steps;
    }
}

/* A model takes its memory in its first steps: what lasts is in both halves. */
static double lasting(const struct looking *at)
{
    uint32_t middle = at->first + (at->end - at->first) / 2;
    double ns[2] = {0, 0}, steps[2] = {0, 0};

    for (uint32_t i = at->first; i < at->end; i++) {
        const struct memory_sample *sample = sample_at(at, i);

        steps[i >= middle] += sample->driver.known && !sample->failed;
        ns[i >= middle] += (double)sample->driver.calls_ns;
    }
    return steps[0] > 0 && steps[1] > 0 ? fmin(ns[0] / steps[0], ns[1] / steps[1])
                                        : UNKNOWN;
}

static void find_driver(const struct looking *at)
{
    double known = 0, steps = 0, got = 0, given_back = 0, retries = 0, ns = 0;
    double ooms_known = 0, ooms = 0;

    at->device->segments = at->device->segments_got = at->device->segments_given_back =
        at->device->retries = at->device->ooms = at->device->driver_ns = UNKNOWN;
    for (uint32_t i = at->first; i < at->end; i++) {
        const struct memory_sample *sample = sample_at(at, i);
        const struct memory_driver *driver = &sample->driver;

        known += driver->known;
        steps += driver->known && !sample->failed;
        got += driver->got;
        given_back += driver->given_back;
        retries += driver->retries;
        ooms_known += driver->ooms_known;
        ooms += driver->ooms;
        ns += (double)driver->calls_ns;
        at->device->segments = driver->held < 0 ? UNKNOWN : driver->held;
    }
    at->device->driver_lasting_ns = lasting(at);
    if (ooms_known > 0)
        at->device->ooms = ooms;
    if (known == 0)
        return;
    at->device->segments_got = got;
    at->device->segments_given_back = given_back;
    at->device->retries = retries;
    if (steps > 0)
        at->device->driver_ns = ns / steps;
}

static void find_slope(const struct looking *at)
{
    int64_t from_ns = at->pick->head->window.from_ns,
            to_ns = at->pick->head->window.to_ns;
    struct memory_envelopes envelopes;

    if (at->end > at->first) {
        from_ns = sample_at(at, at->first)->time_ns;
        to_ns = sample_at(at, at->end - 1)->time_ns + 1;
    }
    /* Totals that lack the calls of bare steps grow by that much less. */
    double scale = at->table->partial ? steps_per_sample(at) : 1;

    memory_envelopes_open(&envelopes, at->pick, from_ns, to_ns, false);
    for (uint32_t i = at->first; i < at->end; i++)
        memory_envelopes_add(&envelopes, sample_at(at, i)->time_ns,
                             scale * (double)sample_at(at, i)->allocated);
    /* A step needs its peak, not what is left behind it. */
    double peak = at->end > at->first ? (double)sample_at(at, at->end - 1)->peak
                                      : at->device->allocated_bytes;

    at->device->growth =
        memory_envelopes_growth(&envelopes, at->device->usable_bytes - peak);
}

static int larger_first(const void *left, const void *right)
{
    const struct memory_largest *a = left, *b = right;

    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static bool find_largest(const struct looking *at)
{
    struct arena *arena = &at->pick->head->arena;
    struct memory_device *device = at->device;

    if (!ARENA_LIST(arena, device->largest, at->table->largest_count))
        return false;
    device->largest_count = at->table->largest_count;
    for (uint32_t i = 0; i < device->largest_count; i++)
        device->largest[i] = (struct memory_largest){
            arena_text(arena,
                       texts_get(at->pick->process->texts, at->table->largest[i].op)),
            (double)at->table->largest[i].bytes};
    qsort(device->largest, device->largest_count, sizeof(*device->largest),
          larger_first);
    return true;
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
static uint32_t add_kept(const struct looking *at, struct kept_size sizes[KEPT_SIZES],
                         uint32_t *told)
{
    uint32_t count = 0, most = 0;

    for (uint32_t i = at->first; i < at->end; i++) {
        const struct memory_kept *kept = &sample_at(at, i)->kept;
        uint32_t slot = 0;

        *told += kept->known;
        while (slot < count && sizes[slot].block != kept->block)
            slot++;
        if (kept->op_count == 0 || slot == KEPT_SIZES)
            continue;
        count += slot == count;
        sizes[slot].block = kept->block;
        sizes[slot].bytes += (double)kept->bytes;
        sizes[slot].steps++;
        for (uint32_t op = 0; op < kept->op_count; op++)
            add_op(&sizes[slot], kept->ops[op]);
    }
    for (uint32_t i = 1; i < count; i++)
        most = sizes[i].bytes > sizes[most].bytes ? i : most;
    sizes[0] = sizes[most];
    return count;
}

static void find_kept(const struct looking *at)
{
    struct kept_size sizes[KEPT_SIZES] = {{.block = 0}}, *most = &sizes[0];

    if (add_kept(at, sizes, &at->device->kept_steps) == 0 || most->vague ||
        most->steps < KEPT_SHARE * at->device->kept_steps)
        return;
    at->device->kept_bytes_per_step = most->bytes / at->device->kept_steps;
    at->device->kept_block_bytes = (double)most->block;
    for (uint32_t i = 0; i < most->op_count; i++)
        at->device->kept_ops[at->device->kept_op_count++] = arena_text(
            &at->pick->head->arena, texts_get(at->pick->process->texts, most->ops[i]));
}

/* Totals of accelerators come with the facts; the host's with the samples. */
static double total_of(const struct looking *at)
{
    if (at->table->device == 0)
        return at->pick->store->host.memory_limit_bytes;
    return at->table->total_bytes > 0
               ? (double)at->table->total_bytes
               : parts_fact_count(at->pick->process, FACT_DEVICE_MEMORY);
}

/* The job asks about the device that it uses. */
static double inactive_split_of(const struct looking *at)
{
    const struct process *process = at->pick->process;
    double device = parts_fact_count(process, FACT_ALLOCATOR_DEVICE);

    return EVENT_DEVICE_TYPE(at->table->device) == 1 &&
                   EVENT_DEVICE_INDEX(at->table->device) == device
               ? parts_fact_count(process, FACT_ALLOCATOR_INACTIVE_SPLIT)
               : UNKNOWN;
}

int memory_fill_device(const struct pick *pick, const struct memory_table *table,
                       uint32_t points, struct memory_device *device)
{
    const struct answer_window *window = &pick->head->window;
    const struct looking at = {pick, table, device,
                               memory_after(table, window->from_ns),
                               memory_after(table, window->to_ns)};
    uint32_t remembered = memory_remembered(table);
    const struct memory_sample *newest =
        remembered > 0 ? memory_at(table, remembered - 1) : NULL;

    device->device = pick_device(pick->head, table->device);
    device->partial = table->partial;
    device->allocated_bytes = newest == NULL ? UNKNOWN : (double)newest->allocated;
    device->reserved_bytes =
        newest == NULL || newest->reserved < 0 ? UNKNOWN : (double)newest->reserved;
    device->total_bytes = total_of(&at);
    device->inactive_split_bytes = inactive_split_of(&at);
    find_peak(&at);
    /* Between two ends of steps it holds up to its peak, whatever it gives back then. */
    double others = whose_else(pick, device->device,
                               fmax(device->reserved_bytes, device->peak_bytes));

    device->usable_bytes = device->total_bytes - (isnan(others) ? 0 : others);
    find_peaks(&at);
    find_rates(&at);
    find_driver(&at);
    find_slope(&at);
    find_kept(&at);
    if (!ARENA_LIST(&pick->head->arena, device->points, points) || !find_largest(&at))
        return -ENOMEM;
    if (points > 0 && remembered < table->count && at.first == 0 && remembered > 0)
        points_from_series(&at, memory_at(table, 0)->time_ns, points / 2);
    if (points > device->point_count)
        points_from_ring(&at, points - device->point_count);
    return 0;
}
