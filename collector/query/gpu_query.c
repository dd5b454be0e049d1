#include "query/gpu_query.h"

#include <errno.h>
#include <string.h>

#include "aggregate/gpu_buckets.h"
#include "aggregate/histogram.h"
#include "aggregate/sum.h"
#include "query/parts.h"
#include "wire/facts.h"

#define POINTS_DEFAULT 600u
#define POINTS_MAX     10000u

static void explain(const struct pick *pick, struct gpu_answer *answer)
{
    const struct process *process = pick->process;
    const struct process_capability *source = &process->capabilities[WIRE_SOURCE_CUPTI];
    const char *told = texts_get(process->texts, source->reason);

    if (answer->head.reason != NULL && answer->head.reason[0] != '\0')
        return;
    answer->head.reason =
        told[0] != '\0' ? arena_text(&answer->head.arena, told)
        : source->state == WIRE_STATE_ACTIVE
            ? "no GPU work has come yet: none was launched, or libcupti still keeps it"
            : "GPU work is not recorded in this process";
}

/* Training steps of the window in the whole of which work was recorded. */
static uint64_t recorded_steps(const struct pick *pick)
{
    const uint8_t looked_at = STEP_APART | EVENT_STEP_KERNELS;
    uint32_t count, first = pick_steps(pick, &count);
    uint64_t recorded = 0;

    for (uint32_t i = first; i < first + count; i++)
        recorded += (steps_at(&pick->process->steps, i)->flags & looked_at) ==
                    EVENT_STEP_KERNELS;
    return recorded;
}

/* Windows of steps are summed step by step, exactly; others by buckets of time. */
static void sum_window(const struct pick *pick, const struct gpu_table *table,
                       struct gpu_cell *sum, int64_t *summed_steps)
{
    const struct gpu *gpu = &pick->process->gpu;
    const struct answer_window *window = &pick->head->window;
    int64_t range[2] = {window->from_ns, window->to_ns};

    *summed_steps = NOT_KNOWN;
    if (range[0] <= gpu->from_ns && range[1] >= table->cursor_ns) {
        *sum = table->run;
        return;
    }
    uint64_t steps = gpu_sum_steps(gpu, table, range, sum);

    if (steps == 0 || gpu_steps_in(gpu, range) != recorded_steps(pick))
        gpu_sum_time(gpu, table, range, sum);
    else
        *summed_steps = (int64_t)steps;
}

static void put_point(const struct gpu_cell *cell, int64_t time_ns,
                      struct gpu_device *device)
{
    double all = (double)(gpu_busy_ns(cell) + gpu_idle_ns(cell));
    struct gpu_point *point = &device->points[device->point_count];

    if (all <= 0)
        return;
    device->point_count++;
    point->time_ns = time_ns;
    for (uint32_t i = 0; i < GPU_USES; i++)
        point->use_share[i] = (double)cell->use_ns[i] / all;
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        point->idle_share[i] = (double)cell->idle_ns[i] / all;
}

/* Neighbouring buckets together, so that at most `most` points remain. */
static void fill_points(const struct gpu *gpu, const struct gpu_table *table,
                        const int64_t range[2], uint32_t most,
                        struct gpu_device *device)
{
    struct gpu_buckets buckets = gpu_buckets_since(gpu, table, range[0]);
    int64_t width = buckets.width_ns;
    int64_t first = time_after(range[0], -gpu->from_ns) / width;
    int64_t end = time_after(range[1] - 1, -gpu->from_ns) / width + 1;

    first = first < buckets.first ? buckets.first : first;
    end = end > buckets.end ? buckets.end : end;
    if (end <= first || most == 0)
        return;
    int64_t group = (end - 1 - first + (int64_t)most) / (int64_t)most;

    for (int64_t at = first; at < end; at += group) {
        struct gpu_cell sum = {0};

        for (int64_t i = at; i < at + group && i < end; i++)
            gpu_cell_add(&sum, gpu_bucket(&buckets, i));
        put_point(&sum, gpu->from_ns + at * width, device);
    }
}

static int fill_copies(const struct pick *pick, const struct gpu_work *work,
                       struct gpu_run *run)
{
    if (!ARENA_LIST(&pick->head->arena, run->copies,
                    sizeof(work->copies) / sizeof(struct gpu_moves)))
        return -ENOMEM;
    for (uint32_t way = 0; way < GPU_COPY_WAYS; way++)
        for (uint32_t side = 0; side < GPU_COPY_SIDES; side++) {
            const struct gpu_moves *from = &work->copies[way][side];

            if (from->count == 0)
                continue;
            run->copies[run->copy_count++] = (struct gpu_run_copies){
                .way = way,
                .pageable = side == GPU_SIDE_PAGEABLE,
                .unknown = side == GPU_SIDE_UNKNOWN,
                .unsized = from->unsized > 0,
                .count = from->count,
                .bytes = from->bytes,
                .ns = (double)from->ns,
                .step_count = from->step_count,
                .step_bytes = (double)from->step_bytes,
                .step_ns = (double)from->step_ns,
                .bytes_per_s = from->ns > 0 && from->unsized == 0
                                   ? (double)from->bytes * 1e9 / (double)from->ns
                                   : UNKNOWN};
        }
    return 0;
}

static int fill_streams(const struct pick *pick, const struct gpu_work *work,
                        struct gpu_run *run)
{
    uint64_t *addresses =
        arena_new(&pick->head->arena, GPU_STREAM_ADDRESSES, sizeof(*addresses));

    run->streams =
        arena_new(&pick->head->arena, work->stream_count, sizeof(*run->streams));
    if (run->streams == NULL || addresses == NULL)
        return -ENOMEM;
    memcpy(addresses, pick->process->gpu.stream_addresses,
           sizeof(pick->process->gpu.stream_addresses));
    run->stream_addresses = addresses;
    for (uint32_t i = 0; i < work->stream_count; i++) {
        const struct gpu_stream *from = &work->streams[i];
        uint32_t at = run->stream_count++;

        for (; at > 0 && run->streams[at - 1].busy_ns < (double)from->busy_ns; at--)
            run->streams[at] = run->streams[at - 1];
        run->streams[at] =
            (struct gpu_run_stream){from->id, from->works, (double)from->busy_ns};
    }
    run->streams_not_shown_works = work->other_streams.works;
    return 0;
}

static int fill_run(const struct pick *pick, const struct gpu_table *table,
                    struct gpu_run *run)
{
    const struct gpu_work *work = &table->work;
    double busy = (double)gpu_busy_ns(&table->run);
    double span = busy + (double)gpu_idle_ns(&table->run);
    double streams = (double)work->other_streams.busy_ns;
    double n = work->delays > 0 ? (double)work->delays : UNKNOWN;

    for (uint32_t i = 0; i < work->stream_count; i++)
        streams += (double)work->streams[i].busy_ns;
    *run = (struct gpu_run){
        .steps = pick->process->gpu.training_steps,
        .recorded_steps = gpu_settled_steps(&pick->process->gpu),
        .memset_count = work->memsets.count,
        .memset_bytes = work->memsets.bytes,
        .memset_unsized = work->memsets.unsized > 0,
        .memset_ns = (double)work->memsets.ns,
        .memset_step_ns = (double)work->memsets.step_ns,
        .delays = work->delays,
        .delay_mean_ns = (double)work->delay_ns / n,
        .delay_p50_ns = histogram_quantile(work->delay_cells, work->delays, 0.50),
        .delay_p95_ns = histogram_quantile(work->delay_cells, work->delays, 0.95),
        .delay_p99_ns = histogram_quantile(work->delay_cells, work->delays, 0.99),
        .delay_max_ns = work->delays > 0 ? (double)work->delay_max_ns : UNKNOWN,
        .queue_depth =
            work->delays > 0 && span > 0 ? (double)work->delay_ns / span : UNKNOWN,
        .streams_busy = busy > 0 ? streams / busy : UNKNOWN};
    int error = fill_copies(pick, work, run);

    return error != 0 ? error : fill_streams(pick, work, run);
}

/* NaN, where none of the window's time is known. */
static void fill_sums(const struct gpu_cell *sum, struct gpu_device *device)
{
    double busy = (double)gpu_busy_ns(sum), span = busy + (double)gpu_idle_ns(sum);
    double known = span > 0 ? 0 : UNKNOWN;

    device->busy_ns = known + busy;
    device->span_ns = known + span;
    device->overlap_ns = known + (double)sum->overlap_ns;
    for (uint32_t i = 0; i < GPU_USES; i++)
        device->all_use_ns[i] = known + (double)sum->use_ns[i];
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        device->all_idle_ns[i] = known + (double)sum->idle_ns[i];
}

/* A file names each device, a running job the one that it is on. */
static const char *name_of(const struct pick *pick, const struct gpu_table *table)
{
    const struct process *process = pick->process;
    const char *name = texts_get(process->texts, table->name);
    bool is_on = EVENT_DEVICE_TYPE(table->device) == 1 &&
                 parts_fact_count(process, FACT_ALLOCATOR_DEVICE) ==
                     (double)EVENT_DEVICE_INDEX(table->device);

    return *name == '\0' && is_on ? parts_fact_text(process, FACT_DEVICE_NAME) : name;
}

static int fill_device(const struct pick *pick, const struct gpu_table *table,
                       uint32_t points, struct gpu_device *device)
{
    const struct answer_window *window = &pick->head->window;
    int64_t range[2] = {window->from_ns, window->to_ns};
    struct gpu_cell sum;

    sum_window(pick, table, &sum, &device->summed_steps);
    device->device = pick_device(pick->head, table->device);
    device->name = arena_text(&pick->head->arena, name_of(pick, table));
    fill_sums(&sum, device);
    device->works = table->works + table->refused;
    device->uncounted = table->refused + table->late;
    device->reason = "";
    if (gpu_means(pick, table, device) != 0)
        return -ENOMEM;
    if (device->known_steps > pick->head->recorded_steps)
        pick->head->recorded_steps = device->known_steps;
    if (gpu_drift(&pick->head->arena, &pick->process->gpu, table, range, device) != 0 ||
        fill_run(pick, table, &device->run) != 0)
        return -ENOMEM;
    if (!ARENA_LIST(&pick->head->arena, device->points, points))
        return -ENOMEM;
    fill_points(&pick->process->gpu, table, range, points, device);
    return 0;
}

int parts_gpu(const struct pick *pick, uint32_t points, struct gpu_answer *answer)
{
    const struct gpu *gpu = &pick->process->gpu;
    const struct process_capability *source =
        &pick->process->capabilities[WIRE_SOURCE_CUPTI];
    int error = 0;

    answer->devices = NULL;
    answer->uncounted = gpu->refused;
    answer->lost_launches = gpu->lost_count;
    answer->head.recorded_steps = 0;
    if (gpu->table_count == 0) {
        answer->head.recorded_steps = recorded_steps(pick);
        explain(pick, answer);
        return 0;
    }
    if (!ARENA_LIST(&answer->head.arena, answer->devices, gpu->table_count))
        return -ENOMEM;
    /* Nothing comes of a job that runs, and it says why. */
    if (pick->process->state == PROCESS_RUNNING && source->state != WIRE_STATE_ACTIVE &&
        texts_get(pick->process->texts, source->reason)[0] != '\0')
        explain(pick, answer);
    for (uint32_t i = 0; i < gpu->table_count && error == 0; i++)
        error = fill_device(pick, gpu->tables[i], points,
                            &answer->devices[answer->device_count++]);
    return error;
}

double gpu_device_busy_ns(const struct gpu_device *device)
{
    double busy = 0;

    for (uint32_t use = 0; use < GPU_USES; use++)
        busy += device->use_ns[use];
    return busy;
}

const struct gpu_device *gpu_busiest(const struct gpu_answer *answer)
{
    const struct gpu_device *busiest = NULL;
    double most = -1;

    for (uint32_t i = 0; i < answer->device_count; i++) {
        double busy = gpu_device_busy_ns(&answer->devices[i]);

        if (busy > most) {
            most = busy;
            busiest = &answer->devices[i];
        }
    }
    return busiest;
}

int gpu_query(struct store *store, const struct selection *selection,
              const struct gpu_request *request, struct gpu_answer *answer)
{
    uint32_t points = request->points == 0 ? POINTS_DEFAULT : request->points;
    struct pick pick;

    *answer = (struct gpu_answer){0};
    if (points > POINTS_MAX)
        return -EINVAL;
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return hardware_query(store, &answer->head.arena, &answer->hardware) != 0
                   ? -ENOMEM
                   : error;
    error = parts_gpu(&pick, points, answer);
    if (error == 0)
        error = parts_hardware(&pick, points, &answer->hardware);
    pick_end(&pick);
    return error;
}

/* Buckets that were settled as a whole after the cursor, a stamp + 1. */
int gpu_since(struct store *store, const struct selection *selection, uint64_t *cursor,
              uint32_t max, struct gpu_answer *answer)
{
    struct pick pick;

    *answer = (struct gpu_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    const struct gpu *gpu = &pick.process->gpu;
    int64_t settled = INT64_MAX;

    for (uint32_t i = 0; i < gpu->table_count; i++)
        settled =
            gpu->tables[i]->cursor_ns < settled ? gpu->tables[i]->cursor_ns : settled;
    pick_window(&pick, &selection->window);
    if (gpu->table_count == 0) {
        explain(&pick, answer);
    } else {
        int64_t width = gpu_newest_bucket_ns(gpu);
        int64_t whole = gpu->from_ns + (settled - gpu->from_ns) / width * width;
        int64_t oldest = whole - (int64_t)max * width;
        int64_t from = *cursor > 1 ? (int64_t)(*cursor - 1) : whole;

        answer->head.window.from_ns = from > oldest ? from : oldest;
        answer->head.window.to_ns = whole;
        if (answer->head.window.from_ns < whole)
            error = parts_gpu(&pick, max, answer);
        *cursor = whole < 0 ? 1 : (uint64_t)whole + 1;
    }
    if (*cursor == 0)
        *cursor = 1;
    pick_end(&pick);
    return error;
}
