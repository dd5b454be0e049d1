/* The verbs of trainglass.h, as the table that its functions call through. */
#include <errno.h>
#include <string.h>

#include "probe/core.h"
#include "probe/probe.h"
#include "probe/reported.h"
#include "probe/trainglass.h"
#include "wire/attributes.h"

#define OWN_RANGE ((uint16_t)(EVENT_USER_RANGE | EVENT_RANGE_API << 8))

const struct trainglass_verbs *trainglass_verbs(void);

static int attach(void)
{
    if (probe_start(0) != 0)
        return 0;
    probe_capability(WIRE_SOURCE_RANGES, WIRE_STATE_ACTIVE, NULL, "trainglass.h");
    return 1;
}

static void range_push(const char *name)
{
    struct probe_thread *self = probe_enter_or_start();

    if (self == NULL)
        return;
    uint32_t id = probe_name_cached(self, name != NULL ? name : "");

    probe_range_open(self, EVENT_META(id, EVENT_USER_RANGE, EVENT_RANGE_API, 0),
                     probe_thread_ticks(self));
    probe_leave(self);
}

static void range_pop(void)
{
    probe_range_end(OWN_RANGE, 0);
}

static NEVER_INLINE void announce_ops(void)
{
    probe_capability(WIRE_SOURCE_CPU_OPS, WIRE_STATE_ACTIVE, NULL, "trainglass.h");
}

static void op_push(const char *name)
{
    static _Atomic bool announced;

    if (UNLIKELY(!atomic_load_explicit(&announced, memory_order_relaxed)) &&
        probe_is_open() &&
        !atomic_exchange_explicit(&announced, true, memory_order_relaxed))
        announce_ops();
    if ((probe_recording() & EVENT_STEP_OPS) == 0)
        return;
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    uint32_t id = probe_name_cached(self, name != NULL ? name : "");

    probe_range_open(self, EVENT_META(id, EVENT_CPU_OP, 0, 0),
                     probe_thread_ticks(self));
    probe_leave(self);
}

/* Also in a step that is not recorded: an operator may reach beyond its step. */
static void op_pop(void)
{
    probe_range_end(EVENT_CPU_OP, 0);
}

static void phase(uint32_t number, bool begins)
{
    static const enum steps_mark_kind marks[EVENT_PHASES][2] = {
        {STEPS_FETCH_END, STEPS_FETCH_BEGIN},
        {STEPS_FORWARD_END, STEPS_FORWARD_BEGIN},
        {STEPS_BACKWARD_END, STEPS_BACKWARD_BEGIN},
        {STEPS_OPTIMIZER_END, STEPS_OPTIMIZER_BEGIN}};

    if (number < EVENT_PHASES)
        probe_step_mark(marks[number][begins], 0);
}

static void phase_begin(uint32_t number)
{
    phase(number, true);
}

static void phase_end(uint32_t number)
{
    phase(number, false);
}

static void step(uint64_t samples)
{
    if (samples > 0 && probe_is_open())
        probe_instant(EVENT_META(0, EVENT_SAMPLES, 0, 0), samples, probe_step_number());
    probe_step_mark(STEPS_STEP, 0);
}

static void epoch(uint32_t number)
{
    probe_step_mark(STEPS_EPOCH, number);
}

static void validation(uint32_t begins)
{
    probe_step_mark(begins ? STEPS_VALIDATION_BEGIN : STEPS_VALIDATION_END, 0);
}

static void metric(const char *name, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    probe_instant(EVENT_META(probe_name(name), EVENT_METRIC, 0, 0), bits,
                  probe_step_number());
}

static void memory(uint32_t type, uint32_t index, int64_t bytes, uint64_t reserved)
{
    if (type <= UINT8_MAX && index <= UINT8_MAX)
        reported_memory(EVENT_DEVICE(type, index), bytes, reserved);
}

static void mark(const char *name)
{
    probe_instant(EVENT_META(probe_name(name), EVENT_MARK, EVENT_MARK_USER, 0), 0, 0);
}

static const struct trainglass_verbs verbs = {
    .bytes = sizeof(verbs),
    .major = TRAINGLASS_MAJOR,
    .attach = attach,
    .reason = probe_reason,
    .range_push = range_push,
    .range_pop = range_pop,
    .phase_begin = phase_begin,
    .phase_end = phase_end,
    .step = step,
    .epoch = epoch,
    .validation = validation,
    .metric = metric,
    .memory = memory,
    .mark = mark,
    .thread_name = probe_thread_name,
    .fact_text = probe_fact_text,
    .fact_number = probe_fact_number,
    .op_push = op_push,
    .op_pop = op_pop,
};

EXPORTED const struct trainglass_verbs *trainglass_verbs(void)
{
    return &verbs;
}
