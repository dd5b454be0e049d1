#include "probe/cupti/drain.h"

#include <string.h>

#include "probe/cupti/buffers.h"
#include "probe/cupti/unreadable.h"
#include "probe/probe.h"

/* A reader that comes every 20 ms reads a quarter of the ring each time, and has a
 * quarter in hand twice over. */
#define PAUSE_MS 20u

void drain_open(struct drain *drain, const struct cupti_library *library)
{
    memset(drain, 0, sizeof(*drain));
    drain->kinds_known = cupti_layout_learn(&drain->layout, library->next);
    calls_open(&drain->calls, library);
    drain->told_ticks = drain->read_ticks = drain->looked_ticks = probe_ticks();
    stamps_open(&drain->stamps, probe->tsc, 1e-3 * (double)probe->ticks_per_us);
    drain->writer = (struct writer){
        .cupti = library, .stamps = &drain->stamps, .calls = &drain->calls};
}

static uint64_t ring_quarter(void)
{
    struct probe_thread *self = probe_enter();
    uint64_t events = 64;

    if (self == NULL)
        return events;
    if (self->ring.mask / 4 > events)
        events = self->ring.mask / 4;
    probe_leave(self);
    return events;
}

void drain_lose(uint64_t since_ticks, uint64_t until_ticks, uint64_t events)
{
    struct event loss[2] = {
        {since_ticks, events, EVENT_META(0, EVENT_LOSS, 0, 0), WIRE_SOURCE_CUPTI},
        {until_ticks, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0},
    };

    probe_events(loss, 2);
}

static void tell_lost(uint64_t since_ticks, uint64_t until_ticks, uint64_t events)
{
    if (events == 0)
        return;
    probe_capability_lost(WIRE_SOURCE_CUPTI, events);
    drain_lose(since_ticks, until_ticks, events);
}

/* What CUPTI and we dropped of work since `since_ticks`. */
static void tell_dropped(struct drain *drain, uint64_t since_ticks)
{
    uint16_t kernel = drain->layout.stride[CUPTI_KERNEL];
    size_t dropped = 0;

    drain->asked_at = buffers_completed();
    uint64_t bytes = kernel != 0 ? kernel : 200;
    uint64_t more = (buffers_scrapped() + bytes - 1) / bytes;

    if (drain->writer.cupti->get_dropped(NULL, 0, &dropped) == CUPTI_OK)
        more += dropped;
    tell_lost(since_ticks, probe_ticks(), more);
}

void drain_ask(struct drain *drain)
{
    uint64_t asked_ticks = probe_ticks();

    tell_dropped(drain, drain->told_ticks);
    drain->read_ticks = drain->told_ticks;
    drain->told_ticks = asked_ticks;
}

static struct cupti_reader reader_of(const struct drain *drain,
                                     const struct buffer_lent *lent)
{
    struct cupti_reader reader;

    cupti_reader_open(&reader, &drain->layout, drain->writer.cupti->next, lent->bytes,
                      lent->valid_bytes);
    reader.open_ended = lent->is_reclaimed;
    return reader;
}

/* Before anything of it is written. What belongs to no device costs no step its work. */
static void tell_unreadable(struct drain *drain, const struct buffer_lent *lent)
{
    struct cupti_reader reader = reader_of(drain, lent);
    struct unreadable lost = unreadable_in(&drain->writer, &reader, drain->read_ticks);

    tell_lost(lost.since_ticks, lost.until_ticks, lost.works);
    if (lost.events > lost.works)
        probe_capability_lost(WIRE_SOURCE_CUPTI, lost.events - lost.works);
}

unsigned drain_buffers(struct drain *drain, bool (*pause)(unsigned ms))
{
    uint64_t quarter = ring_quarter(), written = drain->writer.counts.events;
    struct buffer_lent lent;
    unsigned buffers = 0;
    bool waits = true;

    while (buffers_take(&lent) || (drain->reclaims && buffers_reclaim(&lent))) {
        struct cupti_reader reader = reader_of(drain, &lent);
        struct cupti_record record;

        if (!lent.is_reclaimed && lent.order >= drain->asked_at)
            tell_dropped(drain, drain->read_ticks);
        tell_unreadable(drain, &lent);
        write_buffer_begins();
        while (cupti_read(&reader, &record)) {
            write_record(&drain->writer, &record);
            if (waits && drain->writer.counts.events - written >= quarter) {
                waits = pause(PAUSE_MS);
                written = drain->writer.counts.events;
            }
        }
        buffers_give_back(&lent);
        buffers++;
    }
    drain->reclaims = false;
    return buffers;
}

static void tell_known(struct drain *drain, uint64_t until_ticks, uint64_t now_ticks)
{
    struct event known = {until_ticks, now_ticks - until_ticks,
                          EVENT_META(0, EVENT_KNOWN, 0, 0), WIRE_SOURCE_CUPTI};

    if (until_ticks <= drain->known_ticks)
        return;
    drain->known_ticks = until_ticks;
    probe_events(&known, 1);
}

void drain_give_up(struct drain *drain)
{
    uint64_t now_ticks = probe_ticks();

    tell_known(drain, now_ticks, now_ticks);
}

/* How many are in it nobody knows. */
static void pass_over(uint64_t now_ticks)
{
    uint64_t patience = DRAIN_PATIENCE_US * probe_ticks_per_us();
    struct buffer_passed passed;

    while (buffers_pass(now_ticks > patience ? now_ticks - patience : 0, &passed))
        drain_lose(passed.requested_ticks,
                   passed.followed_ticks != 0 ? passed.followed_ticks : now_ticks, 0);
}

void drain_tell(struct drain *drain)
{
    uint64_t now_ticks = probe_ticks();

    pass_over(now_ticks);
    if (buffers_scrap_was_out()) /* how many is counted when it is back */
        drain_lose(drain->looked_ticks, now_ticks, 0);
    drain->looked_ticks = now_ticks;
    tell_known(drain,
               buffers_known(drain->ours_ticks != 0 ? drain->ours_ticks : now_ticks),
               now_ticks);

    const struct write_counts *counts = &drain->writer.counts;

    if (counts->work > 0)
        probe_capability_events(WIRE_SOURCE_CUPTI, counts->work, counts->last_ticks);
}
