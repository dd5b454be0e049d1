#include "query/memory_query.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "query/numbers.h"
#include "query/parts.h"
#include "query/pick.h"
#include "wire/facts.h"

#define POINTS_DEFAULT 600u
#define POINTS_MAX     10000u
#define NS_PER_S       1e9

/* A slope below this share of the level in the whole window is no news. */
#define GROWTH_SHARE 0.01
#define GROWTH_BYTES (16.0 * 1024 * 1024)
#define PARTS        24u

static double sum_of(double value)
{
    return isnan(value) ? 0 : value;
}

/* The lowest value of each of PARTS parts of the window: what stays between steps. */
struct envelope {
    double times[PARTS], lows[PARTS];
    uint32_t count;
    int64_t from_ns, to_ns;
};

static void envelope_add(struct envelope *envelope, int64_t time_ns, double value)
{
    int64_t width = (envelope->to_ns - envelope->from_ns) / PARTS + 1;
    double part = (double)((time_ns - envelope->from_ns) / width);

    if (envelope->count > 0 && envelope->times[envelope->count - 1] >= part) {
        double *low = &envelope->lows[envelope->count - 1];

        *low = value < *low ? value : *low;
        return;
    }
    if (envelope->count == PARTS)
        return;
    envelope->times[envelope->count] = part;
    envelope->lows[envelope->count++] = value;
}

/* `left` bytes are free; NaN unknown. */
static struct memory_growth envelope_growth(const struct envelope *envelope,
                                            double left)
{
    struct memory_growth growth = {
        .full_in_s = (double)NAN, .earliest_s = (double)NAN, .latest_s = (double)NAN};
    double width = (double)(envelope->to_ns - envelope->from_ns) / PARTS / NS_PER_S;
    struct numbers_trend trend =
        numbers_trend(envelope->times, envelope->lows, envelope->count);
    int grows;

    growth.slope_bytes_per_s =
        numbers_slope(envelope->times, envelope->lows, envelope->count, &grows) / width;
    growth.error_bytes_per_s = trend.error / width;
    if (isnan(growth.slope_bytes_per_s))
        return growth;
    double grown = growth.slope_bytes_per_s * width * (double)envelope->count;
    double level = envelope->lows[envelope->count - 1];
    double least = growth.slope_bytes_per_s - growth.error_bytes_per_s;

    growth.sure = grows && grown > GROWTH_SHARE * level && grown > GROWTH_BYTES;
    if (!growth.sure || !(left > 0))
        return growth;
    growth.full_in_s = left / growth.slope_bytes_per_s;
    growth.earliest_s = left / (growth.slope_bytes_per_s + growth.error_bytes_per_s);
    if (least > 0)
        growth.latest_s = left / least;
    return growth;
}

/* One for all of these samples: the highest, at its time. */
static void add_point(const struct memory_table *table, uint32_t from, uint32_t to,
                      struct memory_device *device)
{
    struct memory_point *point = &device->points[device->point_count++];

    /* Totals since attach are below zero where what was there before is freed. */
    *point = (struct memory_point){.allocated = -(double)INFINITY,
                                   .reserved = (double)NAN};
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
            .reserved = bucket->counts[1] > 0 ? (double)bucket->max[1] : (double)NAN};
    }
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
    device->peak_bytes = (double)NAN;
    device->peak_time_ns = NOT_KNOWN;
    if (peak == NULL)
        return;
    device->peak_bytes = (double)peak->peak;
    device->peak_time_ns = peak->peak_time_ns;
    device->peak_op =
        arena_text(&pick->head->arena, texts_get(pick->process->texts, peak->peak_op));
}

/* Of long windows an even choice of steps; the highest is known from all of them. */
#define PEAKS_MOST 1024u

/* What stays between steps. A file of another program has samples within steps too: it
 * tells of no single step's peak. */
static void find_peaks(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    bool by_step = !pick->session->from_file || pick->session->own_file;
    uint32_t count = range[1] - range[0];
    uint32_t kept = count < PEAKS_MOST ? count : PEAKS_MOST;
    double peaks[PEAKS_MOST], floor = (double)INFINITY;

    device->usual_peak_bytes = device->least_peak_bytes = device->floor_bytes =
        (double)NAN;
    device->peaks = device->high_peaks = 0;
    if (count < MEMORY_PEAKS_LEAST)
        return;
    for (uint32_t i = range[0]; i < range[1]; i++)
        floor = fmin(floor, (double)memory_at(table, i)->allocated);
    device->floor_bytes = floor;
    if (!by_step)
        return;
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t at = range[0] + (uint32_t)((uint64_t)count * i / kept);

        peaks[i] = (double)memory_at(table, at)->peak;
    }
    numbers_sort(peaks, kept);
    device->usual_peak_bytes = numbers_quantile(peaks, kept, 0.5);
    device->least_peak_bytes = peaks[0];
    device->peaks = count;
    for (uint32_t i = range[0]; i < range[1]; i++)
        device->high_peaks += (double)memory_at(table, i)->peak >
                              MEMORY_PEAK_HIGH * device->usual_peak_bytes;
}

static void find_rates(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    double allocations = 0, frees = 0, bytes = 0, samples = 0;

    device->allocations_per_s = device->frees_per_s = device->bytes_per_s =
        device->allocations_per_step = device->bytes_per_step = (double)NAN;
    for (uint32_t i = range[0] + 1; i < range[1]; i++) {
        const struct memory_sample *sample = memory_at(table, i);

        samples += sample->counted;
        allocations += sample->allocations;
        frees += sample->frees;
        bytes += (double)sample->bytes;
    }
    if (samples == 0)
        return;
    double seconds = (double)(memory_at(table, range[1] - 1)->time_ns -
                              memory_at(table, range[0])->time_ns) /
                     NS_PER_S;

    if (seconds > 0) {
        device->allocations_per_s = allocations / seconds;
        device->frees_per_s = frees / seconds;
        device->bytes_per_s = bytes / seconds;
    }
    if (pick->head->steps > 0) {
        device->allocations_per_step = allocations / samples;
        device->bytes_per_step = bytes / samples;
    }
}

/* A model takes its memory in its first steps: what lasts is in both halves. */
static double lasting(const struct memory_table *table, const uint32_t range[2])
{
    uint32_t middle = range[0] + (range[1] - range[0]) / 2;
    double ns[2] = {0, 0}, known[2] = {0, 0};

    for (uint32_t i = range[0]; i < range[1]; i++) {
        const struct memory_driver *driver = &memory_at(table, i)->driver;

        known[i >= middle] += driver->known;
        ns[i >= middle] += (double)driver->calls_ns;
    }
    return known[0] > 0 && known[1] > 0 ? fmin(ns[0] / known[0], ns[1] / known[1])
                                        : (double)NAN;
}

static void find_driver(const struct memory_table *table, const uint32_t range[2],
                        struct memory_device *device)
{
    double known = 0, got = 0, given_back = 0, retries = 0, ooms = 0, ns = 0;

    device->segments = device->segments_got = device->segments_given_back =
        device->retries = device->ooms = device->driver_ns = (double)NAN;
    for (uint32_t i = range[0]; i < range[1]; i++) {
        const struct memory_driver *driver = &memory_at(table, i)->driver;

        known += driver->known;
        got += driver->got;
        given_back += driver->given_back;
        retries += driver->retries;
        ooms += driver->ooms;
        ns += (double)driver->calls_ns;
        device->segments = driver->held < 0 ? (double)NAN : driver->held;
    }
    device->driver_lasting_ns = lasting(table, range);
    if (known == 0)
        return;
    device->segments_got = got;
    device->segments_given_back = given_back;
    device->retries = retries;
    device->ooms = ooms;
    device->driver_ns = ns / known;
}

static void find_slope(const struct pick *pick, const struct memory_table *table,
                       const uint32_t range[2], struct memory_device *device)
{
    struct envelope envelope = {.from_ns = pick->head->window.from_ns,
                                .to_ns = pick->head->window.to_ns};

    if (range[1] > range[0]) {
        envelope.from_ns = memory_at(table, range[0])->time_ns;
        envelope.to_ns = memory_at(table, range[1] - 1)->time_ns + 1;
    }
    for (uint32_t i = range[0]; i < range[1]; i++)
        envelope_add(&envelope, memory_at(table, i)->time_ns,
                     (double)memory_at(table, i)->allocated);
    /* A step needs its peak, not what is left behind it. */
    double peak = range[1] > range[0] ? (double)memory_at(table, range[1] - 1)->peak
                                      : device->allocated_bytes;

    device->growth = envelope_growth(&envelope, device->total_bytes - peak);
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
    return (double)NAN;
}

static int fill_device(const struct pick *pick, const struct memory_table *table,
                       uint32_t points, struct memory_device *device)
{
    const struct answer_window *window = &pick->head->window;
    uint32_t remembered = memory_remembered(table);
    uint32_t range[2] = {memory_after(table, window->from_ns),
                         memory_after(table, window->to_ns)};
    const struct memory_sample *newest =
        remembered > 0 ? memory_at(table, remembered - 1) : NULL;

    device->device = pick_device(pick->head, table->device);
    device->allocated_bytes = newest == NULL ? (double)NAN : (double)newest->allocated;
    device->reserved_bytes =
        newest == NULL || newest->reserved < 0 ? (double)NAN : (double)newest->reserved;
    device->total_bytes = total_of(pick, table);
    find_peak(pick, table, range, device);
    find_peaks(pick, table, range, device);
    find_rates(pick, table, range, device);
    find_driver(table, range, device);
    find_slope(pick, table, range, device);
    device->points = arena_new(&pick->head->arena, points, sizeof(*device->points));
    if (device->points == NULL)
        return -ENOMEM;
    if (points > 0 && remembered < table->count && range[0] == 0 && remembered > 0)
        points_from_series(table, window->from_ns, memory_at(table, 0)->time_ns,
                           points / 2, device);
    if (points > device->point_count)
        points_from_ring(table, range, points - device->point_count, device);
    return 0;
}

/* Of the run's first step, or its start when that is long forgotten; INT64_MIN before
 * one. */
static int64_t first_step_end(const struct steps *steps)
{
    if (steps->first_ns == INT64_MAX)
        return INT64_MIN;
    if (steps_remembered(steps) < steps->count)
        return steps->first_ns;
    return steps_at(steps, 0)->start_ns + steps_at(steps, 0)->duration_ns;
}

static int fill_host(const struct pick *pick, uint32_t points, struct memory_host *host)
{
    const struct answer_window *window = &pick->head->window;
    const struct host_state *state = &pick->store->host;
    const struct series *series = &pick->process->rss;
    const struct series_ring *ring =
        series_pick(series, window->from_ns, window->to_ns, points > 0 ? points : 600);
    int64_t width = series_width_ns(series, ring);
    struct envelope envelope = {.from_ns = window->from_ns, .to_ns = window->to_ns};

    host->rss_bytes = pick->process->rss_bytes;
    bool runs = pick->process->state == PROCESS_RUNNING;

    host->shared_bytes = runs ? pick->process->shared_bytes : (double)NAN;
    host->shared_used_bytes = pick->process->shared_used_bytes;
    host->job_bytes = (double)NAN;
    for (const struct process *process = pick->session->processes; process != NULL;
         process = process->next)
        if (process->state == PROCESS_RUNNING && !isnan(process->rss_bytes))
            host->job_bytes = sum_of(host->job_bytes) + process->rss_bytes;
    host->limit_bytes = state->memory_limit_bytes;
    host->limit_name = state->memory_limited_by_container ? "container" : "machine";
    host->used_bytes =
        state->count == 0
            ? (double)NAN
            : state->points[(state->count - 1) % STATE_HOST_POINTS].memory_used_bytes;
    host->points = arena_new(&pick->head->arena, points, sizeof(*host->points));
    if (host->points == NULL)
        return -ENOMEM;
    if (ring->count > 0 && series_at(ring, 0)->start_ns > envelope.from_ns)
        envelope.from_ns = series_at(ring, 0)->start_ns;
    /* Until its first step has ended a process loads libraries and data, and makes its
     * model: all that grows, and none of it is a leak. */
    int64_t warm_ns = first_step_end(&pick->process->steps);

    envelope.from_ns = warm_ns > envelope.from_ns ? warm_ns : envelope.from_ns;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= window->from_ns ||
            bucket->start_ns >= window->to_ns || bucket->counts[0] == 0)
            continue;
        /* Pages of files that it maps and reads are the kernel's to take back. */
        if (bucket->start_ns >= envelope.from_ns)
            envelope_add(&envelope, bucket->start_ns,
                         (double)bucket->min[bucket->counts[PROCESS_LOAD_OWN] > 0
                                                 ? PROCESS_LOAD_OWN
                                                 : PROCESS_LOAD_RSS]);
        if (host->point_count < points)
            host->points[host->point_count++] =
                (struct memory_point){.time_ns = bucket->start_ns,
                                      .allocated = (double)bucket->max[0],
                                      .reserved = (double)NAN};
    }
    host->growth = envelope_growth(&envelope, host->limit_bytes - host->used_bytes);
    return 0;
}

/* "" where the source is active or says nothing. */
static const char *why_not(const struct pick *pick, enum wire_source source)
{
    const struct process_capability *one = &pick->process->capabilities[source];

    if (one->state == WIRE_STATE_ACTIVE)
        return "";
    return arena_text(&pick->head->arena, texts_get(pick->process->texts, one->reason));
}

static void explain(const struct pick *pick, struct memory_answer *answer)
{
    const char *told = why_not(pick, WIRE_SOURCE_CPU_MEMORY);

    answer->unseen = why_not(pick, WIRE_SOURCE_DEVICE_MEMORY);
    if (answer->device_count == 0 && pick->head->reason[0] == '\0')
        pick->head->reason =
            told[0] != '\0' ? told : "no allocator has told its totals yet";
}

int parts_memory(const struct pick *pick, uint32_t points, struct memory_answer *answer)
{
    const struct memory *memory = &pick->process->memory;
    int error = 0;

    answer->devices =
        arena_new(&pick->head->arena, memory->count, sizeof(*answer->devices));
    if (answer->devices == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < memory->count && error == 0; i++) {
        if (memory->tables[i].count == 0)
            continue;
        error = fill_device(pick, &memory->tables[i], points,
                            &answer->devices[answer->device_count++]);
    }
    if (error == 0)
        error = fill_host(pick, points, &answer->host);
    explain(pick, answer);
    return error;
}

int memory_query(struct store *store, const struct selection *selection,
                 const struct memory_request *request, struct memory_answer *answer)
{
    uint32_t points = request->points == 0 ? POINTS_DEFAULT : request->points;
    struct pick pick;

    *answer = (struct memory_answer){0};
    if (points > POINTS_MAX)
        return -EINVAL;
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_window(&pick, &selection->window);
    error = parts_memory(&pick, points, answer);
    pick_end(&pick);
    return error;
}

/* The highest of the samples [first, end), at least one. */
static struct memory_point highest_of(const struct memory_table *table, uint32_t first,
                                      uint32_t end)
{
    const struct memory_sample *highest = memory_at(table, first);

    for (uint32_t i = first + 1; i < end; i++)
        if (memory_at(table, i)->allocated > highest->allocated)
            highest = memory_at(table, i);
    return (struct memory_point){.time_ns = highest->time_ns,
                                 .allocated = (double)highest->allocated,
                                 .reserved = highest->reserved < 0
                                                 ? (double)NAN
                                                 : (double)highest->reserved};
}

/* More than `max` since then are no gap: each point that is told is the highest of its
 * share of them. */
static void points_since(const struct memory_table *table, uint64_t passed,
                         uint32_t max, struct memory_answer *answer)
{
    struct memory_device *device = &answer->devices[answer->device_count++];
    uint32_t count = memory_remembered(table), from = count;

    while (from > 0 && memory_at(table, from - 1)->sequence > passed)
        from--;
    if (from == 0 && count > 0 && count < table->count &&
        memory_at(table, 0)->sequence > passed + 1)
        answer->head.reason = "gap";
    uint32_t fresh = count - from, told = fresh < max ? fresh : max;

    device->device = pick_device(&answer->head, table->device);
    device->points = arena_new(&answer->head.arena, told, sizeof(*device->points));
    if (device->points == NULL || told == 0)
        return;
    for (uint32_t i = 0; i < told; i++) {
        uint32_t first = from + (uint32_t)((uint64_t)fresh * i / told);
        uint32_t end = from + (uint32_t)((uint64_t)fresh * (i + 1) / told);

        device->points[device->point_count++] = highest_of(table, first, end);
    }
    const struct memory_sample *newest = memory_at(table, count - 1);

    device->allocated_bytes = (double)newest->allocated;
    device->reserved_bytes =
        newest->reserved < 0 ? (double)NAN : (double)newest->reserved;
}

/* The newest seconds of the process's memory, whatever was told before: one a second
 * is little, and whoever has them knows them by their time. */
#define HOST_POINTS_SINCE 3u

static void host_since(const struct pick *pick, struct memory_answer *answer)
{
    const struct series_ring *ring = &pick->process->rss.rings[0];
    uint32_t from =
        ring->count > HOST_POINTS_SINCE ? ring->count - HOST_POINTS_SINCE : 0;

    answer->host.points =
        arena_new(&answer->head.arena, HOST_POINTS_SINCE, sizeof(*answer->host.points));
    for (; answer->host.points != NULL && from < ring->count; from++) {
        const struct series_bucket *bucket = series_at(ring, from);

        if (bucket->counts[0] > 0)
            answer->host.points[answer->host.point_count++] =
                (struct memory_point){.time_ns = bucket->start_ns,
                                      .allocated = (double)bucket->max[0],
                                      .reserved = (double)NAN};
    }
}

int memory_since(struct store *store, const struct selection *selection,
                 uint64_t *cursor, uint32_t max, struct memory_answer *answer)
{
    struct pick pick;

    *answer = (struct memory_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    const struct memory *memory = &pick.process->memory;
    /* A cursor is one more than the samples of all devices that were passed. */
    uint64_t passed = *cursor == 0 ? memory->sequence : *cursor - 1;

    if (passed > memory->sequence) {
        answer->head.reason = "gap";
        passed = memory->sequence;
    }
    answer->devices =
        arena_new(&answer->head.arena, memory->count, sizeof(*answer->devices));
    for (uint32_t i = 0; i < memory->count && answer->devices != NULL; i++)
        points_since(&memory->tables[i], passed, max, answer);
    host_since(&pick, answer);
    *cursor = memory->sequence + 1;
    pick_end(&pick);
    return answer->devices == NULL ? -ENOMEM : 0;
}
