#include "query/hardware_query.h"

#include <errno.h>
#include <string.h>

#include "query/hardware_inside.h"
#include "query/parts.h"
#include "wire/clock.h"

/* Idle clocks and clocks that somebody chose cost no speed that could be had. The board
 * slows down by heat or by power: which of them is told by a second bit, or not at all. */
#define BY_POWER    (HARDWARE_SLOWED_POWER_CAP | HARDWARE_SLOWED_POWER_BRAKE)
#define BY_HEAT     (HARDWARE_SLOWED_THERMAL | HARDWARE_SLOWED_THERMAL_HARD)
#define COSTS_SPEED (BY_POWER | BY_HEAT | HARDWARE_SLOWED_HARDWARE)

static void sample_values(const struct hardware_sample *sample, double *values)
{
    const double all[HARDWARE_COLUMNS] = {
        [HARDWARE_BUSY] = (double)sample->busy_share,
        [HARDWARE_MEMORY_BUSY] = (double)sample->memory_busy_share,
        [HARDWARE_USED_BYTES] = sample->used_bytes,
        [HARDWARE_POWER_W] = (double)sample->power_w,
        [HARDWARE_TEMPERATURE_C] = (double)sample->temperature_c,
        [HARDWARE_SM_MHZ] = (double)sample->sm_mhz,
        [HARDWARE_MEMORY_MHZ] = (double)sample->memory_mhz,
        [HARDWARE_PCIE_SENT] = (double)sample->pcie_sent,
        [HARDWARE_PCIE_RECEIVED] = (double)sample->pcie_received,
        [HARDWARE_NVLINK_SENT] = (double)sample->nvlink_sent,
        [HARDWARE_NVLINK_RECEIVED] = (double)sample->nvlink_received,
        [HARDWARE_SLOWED] =
            sample->slowed_known ? (sample->slowed & COSTS_SPEED) != 0 : UNKNOWN};

    memcpy(values, all, sizeof(all));
}

/* ---- the machine ------------------------------------------------------------------- */

static void fill_row(struct arena *arena, const struct hardware_device *device,
                     struct hardware_row *row)
{
    int64_t age = (int64_t)clock_ns(CLOCK_MONOTONIC) - device->sample.monotonic_ns;
    bool current = device->reason[0] == '\0' && age < HARDWARE_CURRENT_NS;

    *row = (struct hardware_row){
        .name = arena_text(arena, device->name),
        .uuid = arena_text(arena, device->uuid),
        .pci = device->place_known
                   ? arena_print(arena, "%04x:%02x:%02x.0", device->place.domain,
                                 device->place.bus, device->place.device)
                   : NULL,
        .index = device->index,
        .mig = device->mig,
        .reason = arena_text(arena, device->reason),
        .total_bytes = device->total_bytes,
        .power_limit_w = device->power_limit_w,
        .sm_max_mhz = device->sm_max_mhz,
        .memory_max_mhz = device->memory_max_mhz,
        .pcie_generation = (double)device->sample.pcie_generation,
        .pcie_most = (double)device->sample.pcie_generation,
        .pcie_width = device->pcie_width,
        .ecc_corrected = device->ecc_corrected,
        .ecc_uncorrected = device->ecc_uncorrected,
        .xids = device->xids,
        .last_xid =
            device->last_xid_monotonic_ns == 0 ? NOT_KNOWN : (int64_t)device->last_xid,
        .last_xid_ns = NOT_KNOWN,
        .slowed = current ? device->sample.slowed : 0,
        .slowed_known = current && device->sample.slowed_known,
        .energy_total_j = current ? device->sample.energy_j : UNKNOWN,
        .job_bytes = UNKNOWN,
        .other_bytes = UNKNOWN,
        .processes_reason = "",
        .energy_j = UNKNOWN,
        .energy_span_ns = UNKNOWN,
        .joules_per_step = UNKNOWN,
        .samples_per_joule = UNKNOWN,
        .idle_w = UNKNOWN,
        .free_mhz = UNKNOWN};
    for (uint32_t i = 0; i < HARDWARE_HOLDERS; i++)
        row->held_share[i] = row->held_mhz[i] = UNKNOWN;
    for (uint32_t i = 0; i < HARDWARE_COLUMNS; i++)
        row->now[i] = row->mean[i] = UNKNOWN;
    if (current)
        sample_values(&device->sample, row->now);
    row->instances = arena_new(arena, device->instance_count, sizeof(*row->instances));
    if (row->instances == NULL)
        return;
    row->instance_count = device->instance_count;
    memcpy(row->instances, device->instances,
           device->instance_count * sizeof(*row->instances));
}

static int fill_rows(struct arena *arena, const struct hardware *hardware,
                     struct hardware_answer *answer)
{
    const struct hardware_reading *now = &hardware->now;

    *answer = (struct hardware_answer){.state = now->state,
                                       .reason = arena_text(arena, now->reason),
                                       .driver = arena_text(arena, now->driver),
                                       .unseen = now->devices_unseen,
                                       .joules_per_step = UNKNOWN,
                                       .samples_per_joule = UNKNOWN};
    if (now->state == WIRE_STATE_UNKNOWN)
        answer->reason = "not asked yet: once a second while a process runs";
    if (!ARENA_LIST(arena, answer->rows, now->device_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < now->device_count; i++)
        fill_row(arena, &now->devices[i], &answer->rows[answer->row_count++]);
    return 0;
}

int hardware_query(struct store *store, struct arena *arena,
                   struct hardware_answer *answer)
{
    pthread_rwlock_rdlock(&store->lock);
    int error = fill_rows(arena, &store->hardware, answer);

    pthread_rwlock_unlock(&store->lock);
    return error;
}

/* ---- points ------------------------------------------------------------------------ */

static void mean_point(const struct stretch *stretch, uint32_t first, uint32_t last,
                       struct hardware_point *point)
{
    double counts[HARDWARE_COLUMNS] = {0}, values[HARDWARE_COLUMNS];

    *point = (struct hardware_point){.time_ns = stretch_ns(stretch, first)};
    for (uint32_t i = first; i < last; i++) {
        sample_values(stretch_at(stretch, i), values);
        for (uint32_t column = 0; column < HARDWARE_COLUMNS; column++)
            if (!isnan(values[column])) {
                point->values[column] += values[column];
                counts[column]++;
            }
    }
    for (uint32_t column = 0; column < HARDWARE_COLUMNS; column++)
        point->values[column] =
            counts[column] > 0 ? point->values[column] / counts[column] : UNKNOWN;
}

static int fill_points(struct arena *arena, const struct stretch *stretch,
                       uint32_t most, struct hardware_row *row)
{
    uint32_t count = stretch->last - stretch->first;

    if (most == 0)
        return 0;
    most = most < HARDWARE_POINTS_MAX ? most : HARDWARE_POINTS_MAX;
    if (!ARENA_LIST(arena, row->points, most))
        return -ENOMEM;
    for (uint32_t i = 0, group = (count + most - 1) / most; i < count; i += group) {
        uint32_t end = i + group < count ? i + group : count;

        mean_point(stretch, stretch->first + i, stretch->first + end,
                   &row->points[row->point_count++]);
    }
    return 0;
}

/* A link slows down while its board idles, and the last look is often then. */
static void find_generation(const struct stretch *stretch, struct hardware_row *row)
{
    float most = NAN;

    for (uint32_t i = stretch->first; i < stretch->last; i++)
        most = fmaxf(most, stretch_at(stretch, i)->pcie_generation);
    if (!isnan(most))
        row->pcie_most = (double)most;
}

struct clocks {
    double mhz;
    uint32_t samples, told; /* told: with a clock */
};

static void add_clock(struct clocks *clocks, const struct hardware_sample *sample)
{
    clocks->samples++;
    if (isnan(sample->sm_mhz))
        return;
    clocks->mhz += (double)sample->sm_mhz;
    clocks->told++;
}

static double mean_clock(const struct clocks *clocks)
{
    return clocks->told > 0 ? clocks->mhz / clocks->told : UNKNOWN;
}

/* HARDWARE_HOLDERS: nothing. */
static enum hardware_holder holder_of(const struct hardware_sample *sample)
{
    static const uint32_t bits[HARDWARE_HOLDERS] = {
        [HARDWARE_HELD_BY_HEAT] = BY_HEAT,
        [HARDWARE_HELD_BY_POWER] = BY_POWER,
        [HARDWARE_HELD_BY_BOARD] = HARDWARE_SLOWED_HARDWARE,
        [HARDWARE_HELD_BY_SETTING] = HARDWARE_SLOWED_SETTING,
    };
    uint32_t holder = 0;

    while (holder < HARDWARE_HOLDERS && (sample->slowed & bits[holder]) == 0)
        holder++;
    return (enum hardware_holder)holder;
}

static void sum_slowed(const struct stretch *stretch, struct hardware_row *row)
{
    struct clocks by[HARDWARE_HOLDERS + 1] = {0};
    double all = 0;

    for (uint32_t i = stretch->first; i < stretch->last; i++) {
        const struct hardware_sample *sample = stretch_at(stretch, i);

        /* While it rests, so does its clock. A busy share of NaN is none of 0. */
        if (!sample->slowed_known || (sample->slowed & HARDWARE_SLOWED_IDLE) != 0 ||
            sample->busy_share <= 0)
            continue;
        add_clock(&by[holder_of(sample)], sample);
        all++;
    }
    if (!(all > 0))
        return;
    for (uint32_t i = 0; i < HARDWARE_HOLDERS; i++) {
        row->held_share[i] = by[i].samples / all;
        row->held_mhz[i] = mean_clock(&by[i]);
    }
    row->free_mhz = mean_clock(&by[HARDWARE_HOLDERS]);
}

/* ---- all of it --------------------------------------------------------------------- */

static int join_row(const struct pick *pick, const struct hardware_device *device,
                    uint32_t points, struct hardware_row *row)
{
    struct stretch stretch = stretch_of_window(pick, device);
    struct hardware_point mean;

    if (device->last_xid_monotonic_ns != 0)
        row->last_xid_ns = device->last_xid_monotonic_ns - stretch.zero_ns;
    if (!pick->head->live) {
        for (uint32_t i = 0; i < HARDWARE_COLUMNS; i++)
            row->now[i] = UNKNOWN;
        row->slowed_known = false;
    }
    stretch_sum_energy(&stretch, pick, row);
    row->idle_w = hardware_idle_w(&pick->store->hardware, device);
    sum_slowed(&stretch, row);
    find_generation(&stretch, row);
    if (stretch.first < stretch.last) {
        mean_point(&stretch, stretch.first, stretch.last, &mean);
        memcpy(row->mean, mean.values, sizeof(row->mean));
    }
    return fill_points(&pick->head->arena, &stretch, points, row);
}

static void sum_rows(struct hardware_answer *answer)
{
    double joules = 0, samples = 0;
    bool any = false;

    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct hardware_row *row = &answer->rows[i];

        if (!row->works)
            continue;
        any = true;
        joules += row->joules_per_step;
        samples += 1 / row->samples_per_joule;
    }
    answer->joules_per_step = any ? joules : UNKNOWN;
    answer->samples_per_joule = any ? 1 / samples : UNKNOWN;
}

int parts_hardware(const struct pick *pick, uint32_t points,
                   struct hardware_answer *answer)
{
    const struct hardware *hardware = &pick->store->hardware;
    int error = 0;

    if (pick->head->from_file) {
        *answer = (struct hardware_answer){
            .state = WIRE_STATE_UNAVAILABLE,
            .reason = "a trace file says nothing of its machine",
            .driver = "",
            .joules_per_step = UNKNOWN,
            .samples_per_joule = UNKNOWN};
        return 0;
    }
    error = fill_rows(&pick->head->arena, hardware, answer);
    if (error == 0) {
        whose_devices(pick, answer);
        whose_memory(pick, answer);
    }
    for (uint32_t i = 0; i < answer->row_count && error == 0; i++)
        error = join_row(pick, &hardware->now.devices[i], points, &answer->rows[i]);
    if (error == 0)
        sum_rows(answer);
    return error;
}
