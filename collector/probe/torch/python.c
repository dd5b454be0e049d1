#include "probe/torch/python.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "probe/cupti/session.h"
#include "probe/decide.h"
#include "probe/probe.h"
#include "probe/torch/attach.h"
#include "probe/torch/observer.h"
#include "probe/torch/wrappers.h"
#include "probe/window.h"
#include "wire/clock.h"
#include "wire/facts.h"

static int is_open(void)
{
    return probe_is_open();
}

static void mark(uint32_t kind, uint32_t id)
{
    if (kind >= STEPS_MARKS)
        return;
    if (kind == STEPS_BACKWARD_END || kind == STEPS_FETCH_END ||
        kind == STEPS_OPTIMIZER_END)
        torch_wrapper_ran();
    probe_step_mark((enum steps_mark_kind)kind, id);
}

static void range_push(const char *name)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    uint32_t id = probe_name_cached(self, name);

    probe_range_open(self, EVENT_META(id, EVENT_USER_RANGE, EVENT_RANGE_API, 0),
                     probe_thread_ticks(self));
    probe_leave(self);
}

static void range_pop(void)
{
    probe_range_end(
        PROBE_RANGE_OWNER(EVENT_META(0, EVENT_USER_RANGE, EVENT_RANGE_API, 0)), 0);
}

static void metric(const char *name, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    probe_instant(EVENT_META(probe_name(name), EVENT_METRIC, 0, 0), bits,
                  probe_step_number());
}

static void samples(uint64_t count)
{
    probe_instant(EVENT_META(0, EVENT_SAMPLES, 0, 0), count, probe_step_number());
}

static void happened(uint32_t what, const char *name, uint64_t argument)
{
    probe_instant(EVENT_META(probe_name(name), EVENT_MARK, what, 0), 0, argument);
}

static void waited(uint64_t ns)
{
    probe_instant(EVENT_META(0, EVENT_WAITED, 0, 0), ns, 0);
}

/* Collections do not nest, and run on one thread at a time under the GIL. */
static uint64_t gc_start, gc_start_ns, gc_total_ns, gc_count;

/* Said after the first, and then often enough: young generations may be collected a
 * thousand times a second, and a fact costs a microsecond. */
#define GC_SAID_EVERY 64u

static void gc_begin(void)
{
    gc_start = probe_ticks();
    gc_start_ns = clock_ns(CLOCK_MONOTONIC);
}

static void gc_end(uint32_t generation)
{
    uint64_t start = gc_start;

    gc_start = 0;
    if (start == 0)
        return;
    gc_total_ns += clock_ns(CLOCK_MONOTONIC) - gc_start_ns;
    if (gc_count++ % GC_SAID_EVERY == 0 || generation >= 2)
        probe_fact_real(FACT_GC_SECONDS, (double)gc_total_ns / 1e9);
    probe_event((struct event){start, probe_ticks() - start,
                               EVENT_META(0, EVENT_MARK, EVENT_MARK_GC, 0),
                               generation});
}

static void fact_bool(const char *key, int value)
{
    probe_fact_bool(key, value != 0);
}

static void capability(uint32_t source, uint32_t state, const char *reason,
                       const char *detail)
{
    if (source < WIRE_SOURCES && state <= WIRE_STATE_DISABLED)
        probe_capability((enum wire_source)source, (enum wire_source_state)state,
                         reason, detail);
}

static void gpu_yield(int begins)
{
    if (begins == TRAINGLASS_YIELD_FOR_GOOD)
        cupti_yield_for_good();
    else
        cupti_yield(begins != 0);
}

static void rank_is(int32_t rank, int32_t local_rank, int32_t world_size)
{
    probe_rank(rank, local_rank, world_size);
    if (probe_is_open() && world_size > 1)
        decide_ranks();
}

/* Python's exit comes before that of C, where CUDA may be half gone. */
static void end(int code)
{
    cupti_leave();
    probe_end(code);
}

static const struct trainglass_python table = {
    .bytes = sizeof(table),
    .major = TRAINGLASS_PYTHON_MAJOR,
    .start = probe_start,
    .is_open = is_open,
    .reason = probe_reason,
    .session = probe_session,
    .path = probe_path,
    .role = probe_role,
    .end = end,
    .mark = mark,
    .range_push = range_push,
    .range_pop = range_pop,
    .metric = metric,
    .samples = samples,
    .happened = happened,
    .gc_begin = gc_begin,
    .gc_end = gc_end,
    .fact_text = probe_fact_text,
    .fact_number = probe_fact_number,
    .fact_real = probe_fact_real,
    .fact_bool = fact_bool,
    .capability = capability,
    .torch_begin = torch_attach_begin,
    .torch_end = torch_attach_end,
    .ask = probe_ask,
    .gpu_yield = gpu_yield,
    .window_listen = window_listen,
    .window_word = window_word,
    .window_state = window_state,
    .rank = rank_is,
    .waited = waited,
    .parent = probe_parent,
};

EXPORTED const struct trainglass_python *trainglass_python(void)
{
    return &table;
}
