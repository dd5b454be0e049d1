#include "aggregate/gpu_work.h"

#include "aggregate/gpu_state.h"
#include "aggregate/sum.h"

static void add_moves(struct gpu_moves *moves, const struct gpu_item *item, bool trains)
{
    uint64_t bytes = item->bytes == GPU_BYTES_UNKNOWN ? 0 : item->bytes;

    moves->count++;
    moves->unsized += item->bytes == GPU_BYTES_UNKNOWN;
    moves->bytes += bytes;
    moves->ns = sum_ns(moves->ns, item->moving_ns);
    if (!trains)
        return;
    moves->step_count++;
    moves->step_bytes += bytes;
    moves->step_ns = sum_ns(moves->step_ns, item->moving_ns);
}

static void add_item(struct gpu_work *work, const struct gpu_item *item, bool trains)
{
    uint32_t way = item->copy & EVENT_COPY_WAY;
    enum gpu_side side = item->copy & EVENT_COPY_PAGEABLE  ? GPU_SIDE_PAGEABLE
                         : item->copy & EVENT_COPY_UNKNOWN ? GPU_SIDE_UNKNOWN
                                                           : GPU_SIDE_PINNED;

    if (item->kind == EVENT_MEMSET)
        add_moves(&work->memsets, item, trains);
    if (item->kind == EVENT_MEMCPY)
        add_moves(&work->copies[way < GPU_COPY_WAYS ? way : 0][side], item, trains);
}

static struct gpu_stream *stream_of(struct gpu_work *work, uint32_t id)
{
    for (uint32_t i = 0; i < work->stream_count; i++)
        if (work->streams[i].id == id)
            return &work->streams[i];
    if (work->stream_count == GPU_WORK_STREAMS)
        return &work->other_streams;
    work->streams[work->stream_count] =
        (struct gpu_stream){.id = id, .until_ns = INT64_MIN};
    return &work->streams[work->stream_count++];
}

void gpu_work_begin(struct gpu_work *work, const struct gpu_item *item,
                    int64_t launched_ns, bool trains)
{
    struct gpu_stream *stream = stream_of(work, item->stream);
    bool alone = stream != &work->other_streams;
    int64_t from = item->start_ns;

    add_item(work, item, trains);
    if (alone && stream->until_ns > from)
        from = stream->until_ns;
    stream->works++;
    if (item->end_ns > from) {
        stream->busy_ns = sum_ns(stream->busy_ns, item->end_ns - from);
        stream->until_ns = item->end_ns;
    }
    /* What began before its launch is two clocks' disagreement. */
    if (launched_ns == INT64_MIN || item->start_ns < launched_ns)
        return;
    int64_t delay = item->start_ns - launched_ns;

    work->delays++;
    work->delay_ns = sum_ns(work->delay_ns, delay);
    work->delay_max_ns = delay > work->delay_max_ns ? delay : work->delay_max_ns;
    work->delay_cells[histogram_cell(delay)]++;
}
