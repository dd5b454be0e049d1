#include "query/memory_query.h"

#include <errno.h>
#include <string.h>

#include "query/memory_inside.h"
#include "query/parts.h"

#define POINTS_DEFAULT 600u
#define POINTS_MAX     10000u

static int fill_host(const struct pick *pick, uint32_t points, struct memory_host *host)
{
    const struct answer_window *window = &pick->head->window;
    const struct host_state *state = &pick->store->host;
    const struct series *series = &pick->process->rss;
    const struct series_ring *ring =
        series_pick(series, window->from_ns, window->to_ns, points > 0 ? points : 600);
    int64_t width = series_width_ns(series, ring);
    struct memory_envelopes envelopes;
    int64_t from_ns = window->from_ns;

    host->rss_bytes = pick->process->rss_bytes;
    bool runs = pick->process->state == PROCESS_RUNNING;

    host->shared_bytes = runs ? pick->process->shared_bytes : UNKNOWN;
    host->shared_used_bytes = pick->process->shared_used_bytes;
    host->job_bytes = UNKNOWN;
    for (const struct process *process = pick->session->processes; process != NULL;
         process = process->next)
        if (process->state == PROCESS_RUNNING && !isnan(process->rss_bytes))
            host->job_bytes =
                (isnan(host->job_bytes) ? 0 : host->job_bytes) + process->rss_bytes;
    host->limit_bytes = state->memory_limit_bytes;
    host->limit_name = state->memory_limited_by_container ? "container" : "machine";
    host->used_bytes =
        state->count == 0
            ? UNKNOWN
            : state->points[(state->count - 1) % STATE_HOST_POINTS].memory_used_bytes;
    if (!ARENA_LIST(&pick->head->arena, host->points, points))
        return -ENOMEM;
    if (ring->count > 0 && series_at(ring, 0)->start_ns > from_ns)
        from_ns = series_at(ring, 0)->start_ns;
    memory_envelopes_open(&envelopes, pick, from_ns, window->to_ns, true);
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= window->from_ns ||
            bucket->start_ns >= window->to_ns || bucket->counts[0] == 0)
            continue;
        /* Pages of files that it maps and reads are the kernel's to take back. */
        memory_envelopes_add(
            &envelopes, bucket->start_ns,
            (double)
                bucket->min[bucket->counts[PROCESS_LOAD_OWN] > 0 ? PROCESS_LOAD_OWN
                                                                 : PROCESS_LOAD_RSS]);
        if (host->point_count < points)
            host->points[host->point_count++] =
                (struct memory_point){.time_ns = bucket->start_ns,
                                      .allocated = (double)bucket->max[0],
                                      .reserved = UNKNOWN};
    }
    host->growth =
        memory_envelopes_growth(&envelopes, host->limit_bytes - host->used_bytes);
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

int parts_memory(const struct pick *pick, uint32_t points, struct memory_answer *answer)
{
    const struct memory *memory = &pick->process->memory;
    int error = 0;

    if (!ARENA_LIST(&pick->head->arena, answer->devices, memory->count))
        return -ENOMEM;
    for (uint32_t i = 0; i < memory->count && error == 0; i++) {
        if (memory->tables[i].count == 0)
            continue;
        error = memory_fill_device(pick, &memory->tables[i], points,
                                   &answer->devices[answer->device_count++]);
    }
    if (error == 0)
        error = fill_host(pick, points, &answer->host);
    answer->unseen = why_not(pick, WIRE_SOURCE_DEVICE_MEMORY);
    if (answer->device_count == 0 && pick->head->reason[0] == '\0') {
        const char *told = why_not(pick, WIRE_SOURCE_CPU_MEMORY);

        pick->head->reason =
            told[0] != '\0' ? told : "no allocator has told its totals yet";
    }
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
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
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
    return (struct memory_point){
        .time_ns = highest->time_ns,
        .allocated = (double)highest->allocated,
        .reserved = highest->reserved < 0 ? UNKNOWN : (double)highest->reserved};
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
    device->reserved_bytes = newest->reserved < 0 ? UNKNOWN : (double)newest->reserved;
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
                                      .reserved = UNKNOWN};
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
