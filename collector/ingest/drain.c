/* Rings to tables. Steps are told by one thread; before a step is closed the others
 * give what they began in it:
 *
 *     main    op op op STEP 7 | op op STEP 8 | op ...
 *     other   op op    ^ up to the end of 7  ^ up to the end of 8
 *
 * What the others published beyond the last step that was seen waits until the main
 * thread's ring was read once more, so that it cannot overtake a step.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"
#include "ingest/guard.h"
#include "ingest/source.h"

/* Folding them takes well under a millisecond: how long a reader waits for the lock. The
 * other threads of a step have as many again. */
#define CHUNK 4096u

struct draining {
    struct source *source;
    struct store *store;
    struct process *process;
    const char *failed; /* why the source cannot go on; NULL while it can */
    uint64_t folded;
    uint64_t left; /* what may still be folded of the other threads in this chunk */
};

struct name_copy {
    const struct names *names;
    uint32_t id, length;
    char bytes[NAME_BYTES_MAX];
};

static void copy_name(void *user)
{
    struct name_copy *copy = user;
    const char *bytes;

    copy->length = names_lookup(copy->names, copy->id, &bytes);
    memcpy(copy->bytes, bytes, copy->length);
}

uint32_t source_text(struct source *source, struct process *process, uint32_t name)
{
    struct name_copy copy = {.names = &source->view.names, .id = name};

    if (name == 0 || name > source->view.layout.name_count)
        return 0;
    if (source->texts[name] != 0)
        return source->texts[name];
    if (!guard_run(copy_name, &copy) || copy.length == 0)
        return 0;
    source->texts[name] = texts_intern(process->texts, copy.bytes, copy.length);
    return source->texts[name];
}

static bool value_is_time(uint8_t kind, uint8_t flags)
{
    switch (kind) {
    case EVENT_STEP:
    case EVENT_PHASE:
    case EVENT_CPU_OP:
    case EVENT_USER_RANGE:
    case EVENT_KERNEL:
    case EVENT_MEMCPY:
    case EVENT_MEMSET:
    case EVENT_SYNC:
    case EVENT_RUNTIME:
    case EVENT_LAUNCH:
    case EVENT_COLLECTIVE:
    case EVENT_OVERHEAD:
    case EVENT_KNOWN:
        return true;
    case EVENT_MARK:
        return flags == EVENT_MARK_GC;
    default:
        return false;
    }
}

/* Behind a memory sample or a loss the first record begins with a stamp, and the third
 * behind a sample is a stretch. */
static void convert_more(struct timeline *timeline, uint8_t head, struct event *event)
{
    uint16_t index = EVENT_AUX16(event->meta);
    bool stretch = head == EVENT_MEMORY && index == 3;
    uint64_t ticks = event->time;

    if (!stretch && !((head == EVENT_MEMORY || head == EVENT_LOSS) && index == 1))
        return;
    int64_t start_ns = timeline_ns(timeline, ticks);

    event->time = (uint64_t)start_ns;
    if (stretch)
        event->value =
            (uint64_t)timeline_range_ns(timeline, ticks, start_ns, event->value);
}

/* Ticks to ns, name ids to texts, in place. */
static void convert(struct draining *draining, struct source_thread *thread,
                    struct event *events, uint32_t count)
{
    struct source *source = draining->source;
    struct timeline *timeline = &source->timeline;

    /* The newest stamp is the end of the last: records are written when what they say is
     * over. */
    if (count > 0) {
        const struct event *last = &events[count - 1];

        timeline_seen(timeline, last->time);
        timeline_seen(timeline,
                      value_is_time(EVENT_KIND(last->meta), EVENT_FLAGS(last->meta))
                          ? last->time + last->value
                          : last->time);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct event *event = &events[i];
        uint8_t kind = EVENT_KIND(event->meta);

        if (kind == EVENT_MORE) {
            convert_more(timeline, thread->group_kind, event);
            continue;
        }
        uint32_t name = EVENT_NAME(event->meta), text = 0;

        thread->group_kind = kind;
        if (name != 0) {
            text = LIKELY(name <= source->view.layout.name_count) ? source->texts[name]
                                                                  : 0;
            if (UNLIKELY(text == 0))
                text = source_text(source, draining->process, name);
        }
        event->meta = (event->meta & ~(uint64_t)UINT32_MAX) | text;
        uint64_t ticks = event->time;
        int64_t start_ns = timeline_ns(timeline, ticks);

        event->time = (uint64_t)start_ns;
        if (LIKELY(kind == EVENT_CPU_OP) ||
            value_is_time(kind, EVENT_FLAGS(event->meta)))
            event->value =
                (uint64_t)timeline_range_ns(timeline, ticks, start_ns, event->value);
    }
}

static bool tells_works(const struct source *source, const struct source_thread *thread)
{
    for (uint32_t i = 0; i < thread->staged_to && source->tells_known; i++) {
        uint8_t kind = EVENT_KIND(thread->staged[i].meta);

        if (kind == EVENT_KERNEL || kind == EVENT_MEMCPY || kind == EVENT_MEMSET ||
            kind == EVENT_KNOWN)
            return true;
    }
    return false;
}

/* A record is written when what it says is over: what is gone was written before the first
 * that is left. Other rings, and the steps of one, may reach back further. */
static void tell_gap(struct draining *draining, uint32_t slot)
{
    struct source_thread *thread = &draining->source->threads[slot];
    uint32_t first = 0;

    while (first < thread->staged_to &&
           EVENT_KIND(thread->staged[first].meta) == EVENT_MORE)
        first++;
    if (first == thread->staged_to)
        return;
    const struct event *event = &thread->staged[first];
    int64_t until_ns = (int64_t)event->time;

    if (value_is_time(EVENT_KIND(event->meta), EVENT_FLAGS(event->meta)))
        until_ns = sum_ns(until_ns, (int64_t)event->value);
    process_lack(draining->process, slot, until_ns,
                 tells_works(draining->source, thread));
    thread->has_gap = false;
}

/* A full staging area may end within a group: its head waits for the next reading, for
 * what is folded is taken as whole. */
static uint32_t hold_group(struct source_thread *thread, uint32_t got)
{
    uint32_t head = got;

    if (got < SOURCE_STAGED)
        return got;
    while (--head > 0 && EVENT_KIND(thread->staged[head].meta) == EVENT_MORE)
        ;
    if (head == 0)
        return got;
    thread->ring.pos -= got - head;
    return head;
}

/* Fills an empty staging area; how many events it holds now. */
static uint32_t stage(struct draining *draining, uint32_t slot)
{
    struct source_thread *thread = &draining->source->threads[slot];

    if (thread->staged_from < thread->staged_to)
        return thread->staged_to - thread->staged_from;
    if (thread->staged == NULL)
        thread->staged = malloc(SOURCE_STAGED * sizeof(*thread->staged));
    if (thread->staged == NULL)
        return 0;
    int64_t got = guard_ring_read(&thread->ring, thread->staged, SOURCE_STAGED);

    thread->staged_from = thread->staged_to = 0;
    if (got < 0) {
        draining->failed = got == -EFAULT
                               ? SOURCE_CUT_SHORT
                               : "a ring's positions are impossible: it is damaged";
        return 0;
    }
    uint64_t lost = thread->ring.lost - thread->lost_seen;

    if (lost > 0) {
        thread->lost_seen = thread->ring.lost;
        thread->has_gap = true;
        process_lose(draining->process, slot, lost);
    }
    thread->staged_to = hold_group(thread, (uint32_t)got);
    convert(draining, thread, thread->staged, thread->staged_to);
    if (UNLIKELY(thread->has_gap))
        tell_gap(draining, slot);
    return thread->staged_to;
}

/* Folds what thread `slot` began before `before_ns`, up to ring position `limit`; there is
 * more of it where nothing is `left`. */
static void fold_until(struct draining *draining, uint32_t slot, int64_t before_ns,
                       uint64_t limit)
{
    struct source_thread *thread = &draining->source->threads[slot];

    while (draining->left > 0 && draining->failed == NULL &&
           stage(draining, slot) > 0) {
        uint32_t from = thread->staged_from, to = from;
        /* The staged events are those right before the reader's position. */
        uint64_t first = thread->ring.pos - thread->staged_to;

        while (to < thread->staged_to && first + to < limit &&
               (EVENT_KIND(thread->staged[to].meta) == EVENT_MORE ||
                (int64_t)thread->staged[to].time < before_ns))
            to++;
        process_fold(draining->process, slot, thread->staged + from, to - from);
        thread->staged_from = to;
        draining->folded += to - from;
        draining->left -= to - from < draining->left ? to - from : draining->left;
        if (to < thread->staged_to)
            return;
        process_fold_whole(draining->process, slot);
        if (first + to >= limit)
            return;
    }
}

static void fold_others(struct draining *draining, int64_t before_ns,
                        const uint64_t *limits)
{
    const struct source *source = draining->source;

    for (uint32_t slot = 0; slot < source->ring_slots; slot++) {
        if (slot == source->main_thread || !source->threads[slot].has_ring)
            continue;
        fold_until(draining, slot, before_ns,
                   limits == NULL ? UINT64_MAX : limits[slot]);
    }
}

/* What the main thread staged, up to `to`. */
static void fold_staged(struct draining *draining, uint32_t to)
{
    uint32_t slot = draining->source->main_thread;
    struct source_thread *thread = &draining->source->threads[slot];
    uint32_t count = to - thread->staged_from;

    process_fold(draining->process, slot, thread->staged + thread->staged_from, count);
    thread->staged_from = to;
    draining->folded += count;
}

/* What the others began before the step that is staged next ended. False: there is more,
 * and the step waits for the next chunk. One that writes without a pause holds a step up
 * for no more than the rings can hold. */
static bool fold_step_of_others(struct draining *draining, const struct event *step)
{
    struct source *source = draining->source;
    uint64_t before = draining->left;

    fold_others(draining, (int64_t)(step->time + step->value), NULL);
    source->step_folded += before - draining->left;
    if (draining->left == 0 && draining->failed == NULL &&
        source->step_folded < source_events_max(source))
        return false;
    source->step_folded = 0;
    return true;
}

/* One staging area of the main thread, cut at each step. False: the chunk is full. */
static bool fold_main(struct draining *draining)
{
    struct source *source = draining->source;
    struct source_thread *thread = &source->threads[source->main_thread];

    for (uint32_t i = thread->staged_from; i < thread->staged_to; i++) {
        const struct event *event = &thread->staged[i];

        if (EVENT_KIND(event->meta) != EVENT_STEP)
            continue;
        fold_staged(draining, i);
        if (!fold_step_of_others(draining, event))
            return false;
    }
    fold_staged(draining, thread->staged_to);
    return true;
}

struct heads {
    const struct source *source;
    uint64_t *limits; /* position up to which each ring may be folded */
    bool any;
};

static void read_heads(void *user)
{
    struct heads *heads = user;
    const struct source *source = heads->source;

    for (uint32_t slot = 0; slot < source->ring_slots; slot++) {
        const struct source_thread *thread = &source->threads[slot];

        if (!thread->has_ring)
            continue;
        uint64_t waiting = ring_pending(&thread->ring);

        heads->limits[slot] = thread->ring.pos + waiting;
        heads->any |= waiting > 0 || thread->staged_from < thread->staged_to;
    }
}

/* Before anybody told of a step: a staging area of each ring, unless it holds one. */
static void drain_without_main(struct draining *draining, const uint64_t *limits)
{
    struct source *source = draining->source;

    for (uint32_t slot = 0; slot < source->ring_slots; slot++) {
        struct source_thread *thread = &source->threads[slot];

        if (!thread->has_ring || draining->failed != NULL)
            continue;
        uint32_t staged = stage(draining, slot);

        for (uint32_t i = 0; i < staged; i++) {
            if (EVENT_KIND(thread->staged[thread->staged_from + i].meta) != EVENT_STEP)
                continue;
            source->main_thread = slot;
            return;
        }
    }
    for (uint32_t slot = 0; slot < source->ring_slots; slot++) {
        struct source_thread *thread = &source->threads[slot];
        uint64_t limit =
            thread->ring.pos < limits[slot] ? thread->ring.pos : limits[slot];

        if (thread->has_ring)
            fold_until(draining, slot, INT64_MAX, limit);
    }
}

static void drain_with_main(struct draining *draining, const uint64_t *limits)
{
    struct source *source = draining->source;
    struct source_thread *thread = &source->threads[source->main_thread];
    uint64_t before = draining->folded;
    bool full = false;

    draining->left = CHUNK;
    while (draining->failed == NULL && !full && draining->folded - before < CHUNK) {
        if (stage(draining, source->main_thread) == 0)
            break;
        full = !fold_main(draining);
    }
    process_fold_whole(draining->process, source->main_thread);
    /* Others wait where the main thread has not been read up to their snapshot. */
    if (draining->failed == NULL && !full &&
        thread->ring.pos >= limits[source->main_thread])
        fold_others(draining, INT64_MAX, limits);
}

static void drain_chunk(struct draining *draining, const uint64_t *limits)
{
    draining->process = source_process(draining->source, draining->store);
    if (draining->process == NULL) {
        draining->failed = "forgotten";
        return;
    }
    draining->left = (uint64_t)SOURCE_STAGED * draining->source->ring_slots;
    if (draining->source->main_thread == UINT32_MAX)
        drain_without_main(draining, limits);
    else
        drain_with_main(draining, limits);
    int64_t newest = draining->process->newest_ns;

    if (newest > draining->process->alive_ns)
        draining->process->alive_ns = newest;
    if (draining->folded > 0)
        state_changed(draining->store);
}

uint64_t source_events_max(const struct source *source)
{
    return source->bytes / sizeof(struct event) +
           (uint64_t)SOURCE_STAGED * source->ring_slots;
}

uint64_t source_drain(struct source *source, struct store *store, uint64_t budget)
{
    struct draining draining = {.source = source, .store = store};
    uint64_t limits[4096];
    struct heads heads = {.source = source, .limits = limits};

    while (draining.failed == NULL && draining.folded < budget) {
        uint64_t before = draining.folded;
        uint32_t main_thread = source->main_thread;

        heads.any = false;
        memset(limits, 0, source->ring_slots * sizeof(limits[0]));
        if (!guard_run(read_heads, &heads))
            draining.failed = SOURCE_CUT_SHORT;
        if (!heads.any || draining.failed != NULL)
            break;
        pthread_rwlock_wrlock(&store->lock);
        drain_chunk(&draining, limits);
        pthread_rwlock_unlock(&store->lock);
        if (draining.folded == before && source->main_thread == main_thread)
            break;
    }
    if (draining.failed != NULL)
        source_lose(source, store, draining.failed);
    return draining.folded;
}
