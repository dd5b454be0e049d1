/* The words of a segment that change slowly: copied under the guard first, told to the
 * store afterwards. */
#include <math.h>
#include <string.h>

#include "ingest/guard.h"
#include "ingest/source.h"
#include "wire/clock.h"

#define NS_PER_S 1e9
/* Events are rated over so long: between two looks a job takes a step or none. */
#define RATED_S 2

/* One segment's slow words, private. */
struct look {
    const struct source *source;
    uint64_t heartbeat, steps, step_start, phase_start;
    uint64_t threads_refused, nested_lost, names_refused;
    uint32_t level, recording, role, phase;
    uint32_t rank, local_rank, world_size; /* plus 1; 0 as they were */
    struct {
        uint32_t key, type;
        uint64_t value;
    } facts[WIRE_FACTS];
    struct {
        uint32_t state, reason, detail, cost_ps;
        uint64_t events, lost;
    } sources[WIRE_SOURCES];
    struct {
        bool known;
        uint64_t budget, measured, ci_low, ci_high, detail, burst, fixed, share, phases;
        uint64_t recorded, control, needed, state;
    } governor;
};

static void read_governor(struct look *look)
{
    const struct wire_governor *from = &look->source->view.header->governor;

    for (int tries = 0; tries < 3; tries++) {
        /* Acquire: pairs with the releases of `sequence` around the probe's writes. */
        uint64_t sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);

        look->governor.budget = RELAXED(from->budget);
        look->governor.measured = RELAXED(from->measured);
        look->governor.ci_low = RELAXED(from->ci_low);
        look->governor.ci_high = RELAXED(from->ci_high);
        look->governor.detail = RELAXED(from->detail);
        look->governor.burst = RELAXED(from->burst);
        look->governor.fixed = RELAXED(from->fixed);
        look->governor.share = RELAXED(from->recorded_share);
        look->governor.phases = RELAXED(from->phases_share);
        look->governor.recorded = RELAXED(from->recorded_steps);
        look->governor.control = RELAXED(from->control_steps);
        look->governor.needed = RELAXED(from->steps_needed);
        look->governor.state = RELAXED(from->state);
        atomic_thread_fence(memory_order_acquire);
        look->governor.known =
            sequence != 0 && sequence % 2 == 0 && RELAXED(from->sequence) == sequence;
        if (look->governor.known)
            return;
    }
}

static void read_words(void *user)
{
    struct look *look = user;
    const struct wire_view *view = &look->source->view;

    look->heartbeat = RELAXED(view->header->heartbeat_ticks);
    look->steps = RELAXED(view->header->steps);
    look->step_start = RELAXED(view->header->step_start);
    /* Acquire: pairs with the release after the start of the phase was written. */
    look->phase = atomic_load_explicit(&view->header->phase, memory_order_acquire);
    look->phase_start = RELAXED(view->header->phase_start);
    look->threads_refused = RELAXED(view->header->threads_refused);
    look->nested_lost = RELAXED(view->header->nested_lost);
    look->names_refused = names_refused(&view->names);
    look->level = RELAXED(view->header->level);
    look->recording = RELAXED(view->header->recording);
    look->role = RELAXED(view->header->live_role);
    look->rank = RELAXED(view->header->live_rank);
    look->local_rank = RELAXED(view->header->live_local_rank);
    look->world_size = RELAXED(view->header->live_world_size);
    for (uint32_t i = 0; i < WIRE_FACTS; i++) {
        /* Acquire: pairs with the release of `key` by whoever took the slot. */
        look->facts[i].key =
            atomic_load_explicit(&view->facts[i].key, memory_order_acquire);
        look->facts[i].type = RELAXED(view->facts[i].type);
        look->facts[i].value = RELAXED(view->facts[i].value);
    }
    for (uint32_t i = 0; i < WIRE_SOURCES; i++) {
        const struct wire_capability *from = &view->sources[i];

        look->sources[i].state = RELAXED(from->state);
        look->sources[i].reason = RELAXED(from->reason);
        look->sources[i].detail = RELAXED(from->detail);
        look->sources[i].cost_ps = RELAXED(from->cost_ps);
        look->sources[i].events = RELAXED(from->events);
        look->sources[i].lost = RELAXED(from->lost);
    }
    read_governor(look);
}

static double as_double(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void tell_facts(struct source *source, struct process *process,
                       const struct look *look)
{
    process->fact_count = 0;
    for (uint32_t i = 0; i < WIRE_FACTS; i++) {
        struct process_fact fact = {.type = look->facts[i].type};
        uint64_t value = look->facts[i].value;

        fact.key = source_text(source, process, look->facts[i].key);
        if (fact.key == 0)
            continue;
        switch (fact.type) {
        case WIRE_FACT_TEXT:
            fact.text =
                value <= UINT32_MAX ? source_text(source, process, (uint32_t)value) : 0;
            break;
        case WIRE_FACT_NUMBER:
            fact.number = (double)(int64_t)value;
            break;
        case WIRE_FACT_REAL:
            fact.number = as_double(value);
            break;
        case WIRE_FACT_BOOL:
            fact.number = value != 0;
            break;
        case WIRE_FACT_NONE:
        default:
            continue;
        }
        process->facts[process->fact_count++] = fact;
    }
}

static void tell_sources(struct source *source, struct process *process,
                         const struct look *look, int64_t now_ns)
{
    double seconds = (double)(now_ns - source->rated_ns) / NS_PER_S;
    bool rated = source->rated_ns != 0 && seconds >= RATED_S;

    for (uint32_t i = 0; i < WIRE_SOURCES; i++) {
        struct process_capability *to = &process->capabilities[i];
        uint64_t before = source->rated_events[i], events = look->sources[i].events;

        to->state = look->sources[i].state;
        to->reason = source_text(source, process, look->sources[i].reason);
        to->detail = source_text(source, process, look->sources[i].detail);
        to->cost_ns = look->sources[i].cost_ps == 0
                          ? (double)NAN
                          : (double)look->sources[i].cost_ps * 1e-3;
        to->events = events;
        to->lost = look->sources[i].lost;
        if (rated && events >= before)
            to->events_per_s = (double)(events - before) / seconds;
        if (rated || source->rated_ns == 0)
            source->rated_events[i] = events;
    }
    if (rated || source->rated_ns == 0)
        source->rated_ns = now_ns;
}

static void tell_governor(struct process *process, const struct look *look)
{
    struct process_governor *to = &process->governor;

    if (!look->governor.known)
        return;
    *to = (struct process_governor){.known = true,
                                    .state =
                                        (enum wire_governor_state)look->governor.state,
                                    .budget_pct = as_double(look->governor.budget),
                                    .measured_pct = as_double(look->governor.measured),
                                    .ci_low_pct = as_double(look->governor.ci_low),
                                    .ci_high_pct = as_double(look->governor.ci_high),
                                    .detail_pct = as_double(look->governor.detail),
                                    .burst_pct = as_double(look->governor.burst),
                                    .fixed_pct = as_double(look->governor.fixed),
                                    .recorded_share = as_double(look->governor.share),
                                    .phases_share = as_double(look->governor.phases),
                                    .recorded_steps = look->governor.recorded,
                                    .control_steps = look->governor.control,
                                    .steps_needed = look->governor.needed};
}

/* One thread slot, private. */
struct slot_look {
    const struct thread_slot *slot;
    uint32_t state, tid, name, depth;
    uint64_t lost;
    struct {
        uint64_t start, meta;
    } open[WIRE_OPEN_RANGES];
};

static void read_slot(void *user)
{
    struct slot_look *look = user;

    look->state = RELAXED(look->slot->state);
    if (look->state == THREAD_FREE)
        return;
    look->tid = RELAXED(look->slot->tid);
    look->name = RELAXED(look->slot->name);
    look->lost = RELAXED(look->slot->lost);
    look->depth = RELAXED(look->slot->depth);
    for (uint32_t i = 0; i < WIRE_OPEN_RANGES && i < look->depth; i++) {
        look->open[i].start = RELAXED(look->slot->open[i].start);
        look->open[i].meta = RELAXED(look->slot->open[i].meta);
    }
}

static void tell_slot(struct source *source, struct process *process, uint32_t index,
                      const struct slot_look *look)
{
    struct process_thread *thread = process_thread(process, index);
    struct source_thread *own = &source->threads[index];

    if (thread == NULL)
        return;
    thread->tid = look->tid != 0 ? look->tid : thread->tid;
    if (look->name != 0)
        thread->name = source_text(source, process, look->name);
    thread->depth = look->state == THREAD_LIVE ? look->depth : 0;
    thread->range_count = 0;
    for (uint32_t i = 0; i < WIRE_OPEN_RANGES && i < thread->depth; i++) {
        uint64_t meta = look->open[i].meta;

        thread->ranges[thread->range_count++] = (struct process_range){
            .start_ns = timeline_ns(&source->timeline, look->open[i].start),
            .text = source_text(source, process, EVENT_NAME(meta)),
            .kind = EVENT_KIND(meta)};
    }
    if (look->lost > own->slot_lost)
        process_lose(process, index, look->lost - own->slot_lost);
    own->slot_lost = look->lost;
}

/* A word that holds raw ticks, 0 where it says nothing. */
static int64_t stamp_of(const struct source *source, uint64_t ticks)
{
    return ticks == 0 ? INT64_MIN : timeline_ns(&source->timeline, ticks);
}

static void tell_words(struct source *source, struct process *process,
                       const struct look *look)
{
    if (look->heartbeat != 0) {
        int64_t beat = timeline_ns(&source->timeline, look->heartbeat);

        process->alive_ns = beat > process->alive_ns ? beat : process->alive_ns;
    }
    if (process->told_steps != look->steps || process->recording != look->recording)
        process->rev++;
    process->told_steps = look->steps;
    /* Nobody says that a step runs: what happens lies outside of steps. */
    if (look->step_start == 0 && process->steps.count == 0) {
        ops_settle(&process->ops);
        ops_settle(&process->device.ops);
    }
    process->threads_refused = look->threads_refused;
    process->names_refused = look->names_refused;
    process->nested_lost = look->nested_lost;
    process->level = look->level < WIRE_LEVELS ? look->level : WIRE_LEVEL_AUTO;
    process->recording = look->recording;
    process->step_start_ns = stamp_of(source, look->step_start);
    process->phase_start_ns = stamp_of(source, look->phase_start);
    process->phase = look->phase <= EVENT_PHASES ? look->phase : 0;
    if (look->role >= WIRE_ROLE_TRAINER && look->role <= WIRE_ROLE_WORKER)
        process->identity.role = look->role;
    struct process_identity *who = &process->identity;

    who->rank = wire_number(look->rank, who->rank);
    who->local_rank = wire_number(look->local_rank, who->local_rank);
    who->world_size = wire_number(look->world_size, who->world_size);
}

void source_look(struct source *source, struct store *store, int64_t now_ns)
{
    struct look look = {.source = source};
    bool readable = guard_run(read_words, &look);

    pthread_rwlock_wrlock(&store->lock);
    struct process *process = source_process(source, store);

    if (process != NULL && readable) {
        tell_words(source, process, &look);
        tell_facts(source, process, &look);
        tell_sources(source, process, &look, now_ns);
        tell_governor(process, &look);
        for (uint32_t i = 0; readable && i < source->view.layout.thread_count; i++) {
            struct slot_look slot = {.slot = &source->view.threads[i]};

            readable = guard_run(read_slot, &slot);
            if (readable && slot.state != THREAD_FREE)
                tell_slot(source, process, i, &slot);
        }
    }
    pthread_rwlock_unlock(&store->lock);
    source->looked_ns = now_ns;
    if (!readable)
        source_lose(source, store, SOURCE_CUT_SHORT);
}

struct pairs {
    const struct wire_header *header;
    uint64_t count;
    struct {
        uint64_t ticks, monotonic_ns;
    } pairs[WIRE_CLOCK_PAIRS];
};

static void read_pairs(void *user)
{
    struct pairs *pairs = user;

    /* Acquire: pairs with the release of the count after a pair was written. */
    pairs->count =
        atomic_load_explicit(&pairs->header->clock_pairs_count, memory_order_acquire);
    for (uint32_t i = 0; i < WIRE_CLOCK_PAIRS; i++) {
        pairs->pairs[i].ticks = RELAXED(pairs->header->clock_pairs[i].ticks);
        pairs->pairs[i].monotonic_ns =
            RELAXED(pairs->header->clock_pairs[i].monotonic_ns);
    }
}

/* The middle of two looks at the counter belongs to the clock's look between them; the
 * closest of a few, for we may be interrupted. */
static void pair_own(struct source *source)
{
    uint64_t best_width = UINT64_MAX, ticks = 0, ns = clock_ns(CLOCK_MONOTONIC);

    if (!source->tsc) {
        timeline_pair(&source->timeline, ns, (int64_t)ns);
        return;
    }
    for (int tries = 0; tries < 3; tries++) {
        uint64_t before = clock_ticks(true), now = clock_ns(CLOCK_MONOTONIC);
        uint64_t width = clock_ticks(true) - before;

        if (width >= best_width)
            continue;
        best_width = width;
        ticks = before + width / 2;
        ns = now;
    }
    timeline_pair(&source->timeline, ticks, (int64_t)ns);
}

void source_pair(struct source *source, bool live)
{
    struct pairs pairs = {.header = source->view.header};

    if (!guard_run(read_pairs, &pairs))
        return; /* the next drain says so */
    uint64_t oldest =
        pairs.count > WIRE_CLOCK_PAIRS ? pairs.count - WIRE_CLOCK_PAIRS : 0;
    uint64_t from = source->pairs_seen > oldest ? source->pairs_seen : oldest;

    for (uint64_t i = from; i < pairs.count && i - from < WIRE_CLOCK_PAIRS; i++) {
        uint64_t ns = pairs.pairs[i % WIRE_CLOCK_PAIRS].monotonic_ns;

        if (ns < (uint64_t)1 << 61)
            timeline_pair(&source->timeline, pairs.pairs[i % WIRE_CLOCK_PAIRS].ticks,
                          (int64_t)ns);
    }
    source->pairs_seen = pairs.count;
    /* One pair has no rate; ours is as good, the counter is the machine's. */
    bool no_rate = source->timeline.pair_ticks == source->timeline.first_ticks;

    if (live || no_rate)
        pair_own(source);
}

struct new_rings {
    const struct source *source;
    struct ring_reader readers[SOURCE_NEW_RINGS];
    uint32_t slots[SOURCE_NEW_RINGS];
    uint32_t count;
    int error;
};

static void find_new(void *user)
{
    struct new_rings *found = user;
    const struct source *source = found->source;

    for (uint32_t i = 0; i < source->view.layout.thread_count; i++) {
        if (source->threads[i].has_ring)
            continue;
        int has = wire_view_ring(&source->view, i, &found->readers[found->count], 1);

        if (has < 0)
            found->error = has;
        if (has <= 0)
            continue;
        found->slots[found->count++] = i;
        if (found->count == SOURCE_NEW_RINGS)
            return;
    }
}

void source_find_rings(struct source *source, struct store *store)
{
    struct new_rings found = {.source = source};

    if (!guard_run(find_new, &found)) {
        source_lose(source, store, SOURCE_CUT_SHORT);
        return;
    }
    if (found.error != 0) {
        source_lose(source, store,
                    "a thread's ring points outside of the file: it is damaged");
        return;
    }
    for (uint32_t i = 0; i < found.count; i++) {
        struct source_thread *thread = &source->threads[found.slots[i]];

        thread->ring = found.readers[i];
        thread->has_ring = true;
        source->ring_slots = source->ring_slots > found.slots[i] ? source->ring_slots
                                                                 : found.slots[i] + 1;
        if (thread->ring.pos == 0)
            continue;
        thread->has_gap = true;
        /* Its beginning was overwritten before we came. */
        pthread_rwlock_wrlock(&store->lock);
        struct process *process = source_process(source, store);

        if (process != NULL)
            process_lose(process, found.slots[i], 0);
        pthread_rwlock_unlock(&store->lock);
    }
}
