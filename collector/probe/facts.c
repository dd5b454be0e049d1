/* Facts of the job and capabilities of the sources: rare writes of any thread. */
#include <string.h>

#include "probe/core.h"
#include "probe/probe.h"

uint32_t probe_name_bytes(const char *bytes, size_t length)
{
    return probe_is_open() ? names_intern(&probe->names, bytes, length) : 0;
}

uint32_t probe_name(const char *text)
{
    return text != NULL ? probe_name_bytes(text, strlen(text)) : 0;
}

/* The slot of `key`, taken if it is new; NULL when the table is full. */
static struct wire_fact *find_fact(uint32_t key)
{
    for (uint32_t i = 0; key != 0 && i < WIRE_FACTS; i++) {
        uint32_t seen = 0;

        /* Two threads with one new key: the loser finds the winner's slot, for the
         * failed exchange loads who took it. Pairs with readers' acquire. */
        if (atomic_compare_exchange_strong_explicit(&probe->facts[i].key, &seen, key,
                                                    memory_order_acq_rel,
                                                    memory_order_acquire) ||
            seen == key)
            return &probe->facts[i];
    }
    return NULL;
}

static void set_fact(const char *key, enum wire_fact_type type, uint64_t value)
{
    uint32_t name = probe_name(key);
    struct wire_fact *fact = probe_is_open() ? find_fact(name) : NULL;

    if (fact == NULL)
        return;
    uint64_t now = probe_ticks();

    atomic_store_explicit(&fact->value, value, memory_order_relaxed);
    atomic_store_explicit(&fact->time, now, memory_order_relaxed);
    /* Release: pairs with readers' acquire of `type`; a slot whose key is there but
     * whose type is still WIRE_FACT_NONE has no value yet. */
    atomic_store_explicit(&fact->type, (uint32_t)type, memory_order_release);
    probe_event((struct event){now, value,
                               EVENT_META(name, EVENT_FACT, (uint8_t)type, 0), type});
}

void probe_fact_text(const char *key, const char *value)
{
    set_fact(key, WIRE_FACT_TEXT, probe_name(value));
}

void probe_fact_number(const char *key, int64_t value)
{
    set_fact(key, WIRE_FACT_NUMBER, (uint64_t)value);
}

void probe_fact_real(const char *key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    set_fact(key, WIRE_FACT_REAL, bits);
}

void probe_fact_bool(const char *key, bool value)
{
    set_fact(key, WIRE_FACT_BOOL, value);
}

static struct wire_capability *capability(enum wire_source source)
{
    return probe_is_open() && source < WIRE_SOURCES ? &probe->sources[source] : NULL;
}

void probe_capability(enum wire_source source, enum wire_source_state state,
                      const char *reason, const char *detail)
{
    struct wire_capability *one = capability(source);

    if (one == NULL)
        return;
    if (state == WIRE_STATE_ACTIVE && reason == NULL)
        reason = ""; /* why it was not, is over */
    if (reason != NULL)
        atomic_store_explicit(&one->reason, probe_name(reason), memory_order_relaxed);
    if (detail != NULL)
        atomic_store_explicit(&one->detail, probe_name(detail), memory_order_relaxed);
    /* Release: pairs with readers' acquire; the reason is there with its state. */
    atomic_store_explicit(&one->state, (uint32_t)state, memory_order_release);
}

bool probe_capability_is(enum wire_source source, enum wire_source_state state)
{
    struct wire_capability *one = capability(source);

    return one != NULL &&
           atomic_load_explicit(&one->state, memory_order_relaxed) == (uint32_t)state;
}

void probe_capabilities_begin(void)
{
    static const struct {
        enum wire_source source;
        enum wire_source_state state;
        const char *reason;
    } rows[] = {
        {WIRE_SOURCE_STEPS, WIRE_STATE_UNKNOWN, "no step has ended yet"},
        {WIRE_SOURCE_PHASES, WIRE_STATE_UNKNOWN, "no phase has ended yet"},
        {WIRE_SOURCE_CPU_OPS, WIRE_STATE_UNAVAILABLE, "PyTorch is not attached"},
        {WIRE_SOURCE_RANGES, WIRE_STATE_UNKNOWN, "nobody has named a range yet"},
        {WIRE_SOURCE_NVTX, WIRE_STATE_UNKNOWN, "no NVTX call was made yet"},
        {WIRE_SOURCE_CPU_MEMORY, WIRE_STATE_UNAVAILABLE, "no allocator is attached"},
        {WIRE_SOURCE_DEVICE_MEMORY, WIRE_STATE_UNAVAILABLE, "no allocator is attached"},
        {WIRE_SOURCE_CUPTI, WIRE_STATE_UNAVAILABLE,
         "CUDA was not used yet in this process"},
        {WIRE_SOURCE_PYTHON, WIRE_STATE_UNAVAILABLE, "Python is not attached"},
        {WIRE_SOURCE_FRAMEWORK, WIRE_STATE_UNAVAILABLE, "no framework is attached"},
        {WIRE_SOURCE_STACKS, WIRE_STATE_UNAVAILABLE, "Python is not attached"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        probe_capability(rows[i].source, rows[i].state, rows[i].reason, NULL);
    if (probe_nvtx_injected())
        probe_capability(WIRE_SOURCE_NVTX, WIRE_STATE_ACTIVE, "", "injection");
}

void probe_capability_events(enum wire_source source, uint64_t events,
                             uint64_t last_ticks)
{
    struct wire_capability *one = capability(source);

    if (one == NULL)
        return;
    atomic_store_explicit(&one->events, events, memory_order_relaxed);
    atomic_store_explicit(&one->last_time, last_ticks, memory_order_relaxed);
}

void probe_capability_lost(enum wire_source source, uint64_t more)
{
    struct wire_capability *one = capability(source);

    if (one != NULL)
        atomic_fetch_add_explicit(&one->lost, more, memory_order_relaxed);
}
