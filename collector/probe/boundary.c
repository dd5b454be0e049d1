/* The training thread's marks: fed to the state machine, written down as it decides.
 *
 *     probe_step_mark --> steps_mark --> emitted() --> events, header, hooks, decide.h
 *
 * The one rule: one thread at a time, and nobody waits for it: a mark that comes while
 * another is inside (a signal handler, a second training thread) is dropped.
 */
#include "probe/core.h"
#include "probe/decide.h"
#include "probe/detail_limit.h"
#include "probe/probe.h"
#include "probe/steps/steps.h"
#include "probe/window.h"

#define HOOKS_MAX         8u
#define FOREIGN_MARKS_MAX 64u /* about 16 steps of another thread */
#define FETCH_GAP_US      20u /* zip(loaders) asks again within 2 us */

static struct steps steps;
static _Atomic uint32_t busy; /* 1: a thread is inside; a try-lock, never waited for */
/* The training thread, by its thread-local storage. Written inside; relaxed, for a
 * thread outside only asks whether it is itself. */
static const void *_Atomic owner;
static bool owner_trains;      /* it did more than fetch */
static uint32_t foreign_marks; /* of others that train, since its last one */
/* Release of who adds pairs with the acquire of who calls. */
static const struct probe_hooks *_Atomic hooks[HOOKS_MAX];
static uint64_t mark_start; /* of the mark that is inside */
static uint64_t mark_ticks; /* what the marks took since the last end of a step */
static uint64_t
    usual_ticks[2]; /* in the newest bare step, and in the newest other one */
static bool phases_said;
static uint32_t first_recording;
static bool begun;      /* there was a step */
static uint32_t missed; /* by the step that ends: probe_step_missed() */

/* The hooks in the order in which they came, then NULL. */
const struct probe_hooks *probe_hook_at(uint32_t i)
{
    return i < HOOKS_MAX ? atomic_load_explicit(&hooks[i], memory_order_acquire) : NULL;
}

/* ---- what the state machine decides -------------------------------------------------
 */

static void count_sources(uint64_t now)
{
    probe_capability_events(WIRE_SOURCE_CPU_OPS, probe_events_written(EVENT_CPU_OP),
                            now);
    probe_capability_events(WIRE_SOURCE_RANGES, probe_events_written(EVENT_USER_RANGE),
                            now);
    probe_capability_events(WIRE_SOURCE_NVTX, probe_events_counted(PROBE_COUNT_NVTX),
                            now);
    probe_capability_events(WIRE_SOURCE_STEPS, probe_events_written(EVENT_STEP), now);
    probe_capability_events(WIRE_SOURCE_PHASES, probe_events_written(EVENT_PHASE), now);
}

/* What the next step records; sources that switch are notified. */
static void set_recording(uint32_t recording)
{
    const struct probe_hooks *one;

    if ((recording & ~probe_recording() & RECORDING_PHASES) != 0) {
        count_sources(clock_ticks(probe->tsc)); /* what bare steps left is no step's */
        decide_skip_costs();
    }
    detail_limit_begin(recording);
    if (recording == probe_recording())
        return;
    atomic_store_explicit(&probe->recording, recording, memory_order_relaxed);
    atomic_store_explicit(&probe->header->recording, recording, memory_order_relaxed);
    for (uint32_t i = 0; (one = probe_hook_at(i)) != NULL; i++)
        if (one->recording_changed != NULL)
            one->recording_changed(recording);
}

void probe_step_missed(uint32_t flags)
{
    missed |= flags;
}

/* Since the last end of a step. In place, and not from a loop that calibrates: a mark that
 * comes once a step finds its code and data out of the caches, and takes ten times as long.
 * What another process took of it is not ours: 8 times the usual at most. */
static uint64_t marks_took(uint64_t now, bool phases)
{
    uint64_t took = mark_ticks + (now - mark_start);
    uint64_t usual = usual_ticks[phases];

    mark_start = now; /* the rest of this mark is the next step's */
    mark_ticks = 0;
    usual_ticks[phases] = usual > 0 && took > 8 * usual ? 8 * usual : took;
    return usual_ticks[phases];
}

static void step_ended(const struct steps_output *output)
{
    struct wire_header *header = probe->header;
    struct probe_step step = {.number = output->number,
                              .start = output->start,
                              .end = output->end,
                              .recording = probe_recording()};
    const struct probe_hooks *one;
    bool phases = (step.recording & RECORDING_PHASES) != 0;

    step.flags = (uint8_t)(output->flags | step.recording | window_flag());
    missed = detail_limit_was_reached() ? EVENT_STEP_OPS : 0;
    for (uint32_t i = 0; (one = probe_hook_at(i)) != NULL; i++)
        if (one->step_ending != NULL)
            one->step_ending(&step);
    step.flags &= (uint8_t)~missed;
    probe_event((struct event){
        output->start, output->end - output->start,
        EVENT_META(0, EVENT_STEP, step.flags, phases ? output->known : 0),
        (output->number & EVENT_STEP_NONE) | (uint64_t)(output->epoch & 0xffff) << 48});
    if (output->number != STEPS_NO_NUMBER) {
        atomic_store_explicit(&header->steps, output->number + 1, memory_order_relaxed);
        atomic_store_explicit(&header->live_role, WIRE_ROLE_TRAINER,
                              memory_order_relaxed); /* whatever it was started as */
    }
    uint64_t now = clock_ticks(probe->tsc);

    atomic_store_explicit(&header->heartbeat_ticks, now, memory_order_relaxed);
    if (phases) /* a bare step has nothing to count but itself */
        count_sources(now);
    probe_clock_keep(now);
    requests_read(now);
    uint64_t spent_ticks = marks_took(now, phases);

    if (!output->late) { /* else the next step already runs, recorded as this one was */
        struct probe_step drawn = step;

        if (detail_limit_was_reached()) { /* its operators have a price, and are not whole */
            drawn.recording |= EVENT_STEP_OPS;
            drawn.flags |= EVENT_STEP_TAGGED;
        }
        uint32_t recording = decide_next(&drawn, steps.number, spent_ticks);

        if (step.number != STEPS_NO_NUMBER) /* a row lies inside of what was decided */
            set_recording(recording);
    }
    window_boundary(&step, steps.number);
}

static void say_source(const struct steps_output *output)
{
    const char *text = steps_source_text((enum steps_source)output->number);

    probe_capability(WIRE_SOURCE_STEPS, WIRE_STATE_ACTIVE, NULL, text);
    probe_event((struct event){
        output->end, 0, EVENT_META(probe_name(text), EVENT_MARK, EVENT_MARK_STRETCH, 0),
        output->number});
}

static void say_phases(void)
{
    if (!phases_said)
        probe_capability(WIRE_SOURCE_PHASES, WIRE_STATE_ACTIVE, NULL, NULL);
    phases_said = true;
}

static void emitted(void *context, const struct steps_output *output)
{
    (void)context;
    switch (output->kind) {
    case STEPS_OUT_STEP:
        step_ended(output);
        break;
    case STEPS_OUT_PHASE:
        if ((probe_recording() & RECORDING_PHASES) == 0)
            break;
        say_phases();
        probe_event((struct event){
            output->start, output->end - output->start,
            EVENT_META(0, EVENT_PHASE, 0, (uint16_t)output->phase), output->number});
        break;
    case STEPS_OUT_EPOCH:
        atomic_store_explicit(&probe->header->epoch, (uint32_t)output->number,
                              memory_order_relaxed);
        probe_event((struct event){output->end, 0,
                                   EVENT_META(0, EVENT_MARK, EVENT_MARK_EPOCH, 0),
                                   output->number});
        break;
    case STEPS_OUT_VALIDATION:
        probe_event((struct event){output->end, 0,
                                   EVENT_META(0, EVENT_MARK, EVENT_MARK_VALIDATION, 0),
                                   output->number});
        break;
    case STEPS_OUT_SOURCE:
        say_source(output);
        break;
    }
}

/* ---- marks
 * ---------------------------------------------------------------------------- */

/* Is the calling thread the training thread? Whoever trains takes it from one that only
 * fetched, or that has said nothing while another trained. */
static bool owns(enum steps_mark_kind kind)
{
    bool trains = kind >= STEPS_BACKWARD_BEGIN && kind != STEPS_GRAPH_BEGIN;

    if (owner == &probe_current) {
        owner_trains |= trains;
        foreign_marks = 0;
        return true;
    }
    foreign_marks += trains;
    if (owner != NULL &&
        (!trains || (owner_trains && foreign_marks < FOREIGN_MARKS_MAX)))
        return false;
    if (owner != NULL)
        steps_abandon(&steps);
    owner = &probe_current;
    owner_trains = trains;
    foreign_marks = 0;
    return true;
}

/* What the thread is in from now on, for whoever looks at it while nothing ends. */
static void keep_phase(uint32_t phase, uint64_t now)
{
    struct wire_header *header = probe->header;

    if (phase == atomic_load_explicit(&header->phase, memory_order_relaxed))
        return;
    atomic_store_explicit(&header->phase_start, now, memory_order_relaxed);
    /* Release: pairs with the acquire of `phase` by readers, who see its start too. */
    atomic_store_explicit(&header->phase, phase, memory_order_release);
}

struct probe_graph probe_graph;
_Atomic uint64_t probe_update_ended;

/* Nodes are counted from the end of a backward. */
static void await_graph(enum steps_mark_kind kind)
{
    if (kind == STEPS_BACKWARD_BEGIN)
        probe_graph.nodes = 0;
    probe_graph.awaited = steps_awaits_graph(&steps);
    bool needed = steps.source < STEPS_BY_OPTIMIZER;
    const struct probe_hooks *one;

    if (needed != probe_graph.needed) {
        probe_graph.needed = needed;
        for (uint32_t i = 0; (one = probe_hook_at(i)) != NULL; i++)
            if (one->graph_needed != NULL)
                one->graph_needed();
    }
    atomic_store_explicit(&probe_graph.thread, owner, memory_order_relaxed);
}

/* Inside: one mark of the training thread. */
static void take_mark(enum steps_mark_kind kind, uint32_t id)
{
    uint32_t nodes = kind == STEPS_BACKWARD_BEGIN ? probe_graph.nodes : id;
    struct steps_mark mark = {kind, nodes, clock_ticks(probe->tsc)};

    mark_start = mark.time;
    if (kind == STEPS_OPTIMIZER_END)
        atomic_store_explicit(&probe_update_ended, mark.time, memory_order_relaxed);
    steps_mark(&steps, &mark);
    if (!begun && steps_begun(&steps) != 0) {
        begun = true;
        set_recording(decide_begin(steps.number));
    }
    atomic_store_explicit(&probe->header->step_start, steps_begun(&steps),
                          memory_order_relaxed);
    keep_phase(steps_phase(&steps), mark.time);
    await_graph(kind);
    mark_ticks += clock_ticks(probe->tsc) - mark_start;
}

/* Backwards of bare steps wait for the next mark: whether there was one is what counts,
 * and nobody asks for its time, unless backwards are what tells steps. */
static _Thread_local struct {
    uint16_t open; /* begun, and not passed on */
    bool ended;    /* one whole backward waits */
} backward __attribute__((tls_model("initial-exec")));

static bool backward_waits(enum steps_mark_kind kind)
{
    bool bare = (probe_recording() & RECORDING_PHASES) == 0 && !probe_graph.needed;

    if (kind == STEPS_BACKWARD_BEGIN && !backward.ended &&
        (bare || backward.open > 0)) {
        backward.open++;
        keep_phase(EVENT_PHASE_BACKWARD + 1, clock_ticks(probe->tsc));
        return true;
    }
    if (kind == STEPS_BACKWARD_END && backward.open > 0) {
        backward.ended = --backward.open == 0;
        keep_phase(0, clock_ticks(probe->tsc));
        return true;
    }
    return false;
}

/* Marks that change nothing in a bare step. */
static bool is_idle(enum steps_mark_kind kind)
{
    return (kind == STEPS_ZERO_GRAD_BEGIN || kind == STEPS_ZERO_GRAD_END) && begun &&
           (probe_recording() & RECORDING_PHASES) == 0;
}

static void pass_backward_on(void)
{
    if (backward.ended) {
        take_mark(STEPS_BACKWARD_BEGIN, 0);
        take_mark(STEPS_BACKWARD_END, 0);
    }
    for (; backward.open > 0; backward.open--)
        take_mark(STEPS_BACKWARD_BEGIN, 0);
    backward.ended = false;
}

void probe_step_mark(enum steps_mark_kind kind, uint32_t id)
{
    bool profiler =
        kind == STEPS_PROFILER_STEP_BEGIN || kind == STEPS_PROFILER_STEP_END;

    if (!probe_is_open() || (profiler && window_is_ours()) || backward_waits(kind) ||
        is_idle(kind))
        return;
    /* Acquire: pairs with the release below, so that state moves between threads. */
    if (atomic_exchange_explicit(&busy, 1, memory_order_acquire) != 0) {
        probe_capability_lost(WIRE_SOURCE_STEPS, 1);
        return;
    }
    if (owns(kind)) {
        pass_backward_on();
        take_mark(kind, id);
    }
    atomic_store_explicit(&busy, 0, memory_order_release);
}

void probe_boundary_thread_ends(void)
{
    if (owner != &probe_current ||
        atomic_exchange_explicit(&busy, 1, memory_order_acquire) != 0)
        return;
    steps_finish(&steps, clock_ticks(probe->tsc));
    steps_abandon(&steps);
    owner = NULL;
    owner_trains = false;
    atomic_store_explicit(&busy, 0, memory_order_release);
}

uint64_t probe_step_number(void)
{
    return probe_is_open()
               ? atomic_load_explicit(&probe->header->steps, memory_order_relaxed)
               : 0;
}

bool probe_hooks_add(const struct probe_hooks *more)
{
    /* Torch, CUPTI's thread and the program's own may come at the same moment. */
    for (uint32_t i = 0; i < HOOKS_MAX; i++) {
        const struct probe_hooks *free_place = NULL;

        if (atomic_compare_exchange_strong_explicit(&hooks[i], &free_place, more,
                                                    memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

void probe_boundary_open(void)
{
    probe_clock_open();
    atomic_store_explicit(&busy, 0, memory_order_relaxed);
    owner = NULL;
    owner_trains = false;
    mark_ticks = usual_ticks[0] = usual_ticks[1] = 0;
    phases_said = false;
    begun = false;
    requests_open();
    window_open();
    first_recording = decide_open();
    steps_init(&steps, FETCH_GAP_US * probe->ticks_per_us, clock_ticks(probe->tsc),
               emitted, NULL);
}

void probe_boundary_begin(void)
{
    probe_capabilities_begin();
    atomic_store_explicit(&probe->header->recording, first_recording,
                          memory_order_relaxed);
    atomic_store_explicit(&probe->recording, first_recording, memory_order_relaxed);
}

void probe_boundary_close(void)
{
    /* Hooks belong to sources that watch the parent; a child that records adds none. */
    for (uint32_t i = 0; i < HOOKS_MAX; i++)
        atomic_store_explicit(&hooks[i], NULL, memory_order_relaxed);
    atomic_store_explicit(&busy, 0, memory_order_relaxed);
    owner = NULL;
    backward.open = 0;
    backward.ended = false;
}
