#include "probe/cupti/unreadable.h"

#include "probe/probe.h"

#define STREAMS 16u /* that are told apart; of more a neighbour is not known */

struct stream {
    uint32_t device, context, stream;
    bool used, waits; /* something unreadable was seen behind the last readable */
    uint64_t end_ticks;
};

struct looking {
    struct unreadable found;
    struct stream streams[STREAMS];
    uint64_t oldest_ticks;
    bool open_begin, open_end; /* of something a neighbour is missing */
};

static bool is_work(uint32_t kind)
{
    return kind == CUPTI_KERNEL || kind == CUPTI_SERIAL_KERNEL || kind == CUPTI_GRAPH ||
           kind == CUPTI_MEMCPY || kind == CUPTI_PEER_COPY || kind == CUPTI_MEMSET;
}

/* Its stream's place; what was there of another one is forgotten. */
static struct stream *stream_of(struct looking *looking,
                                const struct cupti_record *record)
{
    uint32_t place = record->stream * 31 + record->context * 7 + record->device;
    struct stream *stream = &looking->streams[place % STREAMS];

    if (!stream->used || stream->device != record->device ||
        stream->context != record->context || stream->stream != record->stream) {
        looking->open_end |= stream->used && stream->waits;
        *stream = (struct stream){.device = record->device,
                                  .context = record->context,
                                  .stream = record->stream,
                                  .used = true};
    }
    return stream;
}

static void see_readable(struct looking *looking, struct stream *stream,
                         const uint64_t ticks[2])
{
    struct unreadable *found = &looking->found;

    if (ticks[0] < looking->oldest_ticks)
        looking->oldest_ticks = ticks[0];
    if (stream == NULL)
        return;
    if (stream->waits && ticks[0] > found->until_ticks)
        found->until_ticks = ticks[0];
    stream->waits = false;
    if (ticks[1] > stream->end_ticks)
        stream->end_ticks = ticks[1];
}

static void see_unreadable(struct looking *looking, struct stream *stream)
{
    struct unreadable *found = &looking->found;

    found->events++;
    if (stream == NULL)
        return;
    found->works++;
    if (stream->end_ticks == 0)
        looking->open_begin = true;
    else if (stream->end_ticks < found->since_ticks)
        found->since_ticks = stream->end_ticks;
    stream->waits = true;
}

/* Records that are not even whole: any kind, any time. */
static void see_broken(struct looking *looking, const struct cupti_skipped *skipped)
{
    uint64_t broken = skipped->cut + skipped->broken;

    looking->found.events += broken;
    looking->found.works += broken;
    looking->open_begin |= broken > 0;
    looking->open_end |= broken > 0;
}

/* Where a neighbour is missing, or they are not in turn after all. */
static void bound(struct looking *looking)
{
    struct unreadable *found = &looking->found;

    for (uint32_t i = 0; i < STREAMS; i++)
        looking->open_end |= looking->streams[i].waits;
    if (looking->open_end)
        found->until_ticks = probe_ticks();
    if (looking->open_begin)
        found->since_ticks = looking->oldest_ticks;
    if (found->since_ticks > found->until_ticks) {
        found->since_ticks = looking->oldest_ticks;
        found->until_ticks = probe_ticks();
    }
}

struct unreadable unreadable_in(const struct writer *writer, struct cupti_reader *reader,
                                uint64_t read_ticks)
{
    struct looking looking = {.found = {.since_ticks = UINT64_MAX},
                              .oldest_ticks = read_ticks};
    struct cupti_record record;
    uint64_t ticks[2];

    reader->untimed = true;
    while (cupti_read(reader, &record)) {
        if (!write_wants(writer, &record))
            continue;
        struct stream *stream =
            is_work(record.kind) ? stream_of(&looking, &record) : NULL;

        if (write_knows_times(writer, &record, ticks))
            see_readable(&looking, stream, ticks);
        else
            see_unreadable(&looking, stream);
    }
    see_broken(&looking, &reader->skipped);
    bound(&looking);
    return looking.found;
}
