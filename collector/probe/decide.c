#include "probe/decide.h"

#include <stdlib.h>
#include <string.h>

#include "probe/budget/governor.h"
#include "wire/event.h"
#include "wire/words.h"

#define BUDGET_DEFAULT      0.01
#define PUBLISH_INTERVAL_US 50000u /* the page draws ten times a second */
#define PUBLISH_STEPS       16u    /* the first ones are shown at once */

enum cost_kind {
    COST_PHASES, /* of steps whose phases are known */
    COST_MEMORY, /* of steps whose memory is counted */
    COST_DETAIL, /* of recorded steps alone */
    COST_TIMED,  /* inside the marks, whose time is taken: not added again */
};

/* Calibrated costs of one event, as seen inside of steps: on a Zen 4 VM at 2.6 GHz, with
 * what torch loses when it leaves its fast path. */
static const struct {
    enum wire_source source;
    uint32_t cost_ps;
    enum cost_kind kind;
} costs[] = {
    {WIRE_SOURCE_PHASES, 350000, COST_TIMED},        /* two marks and an event */
    {WIRE_SOURCE_RANGES, 240000, COST_DETAIL},       /* of torch's; ours cost a tenth */
    {WIRE_SOURCE_NVTX, 20000, COST_PHASES},          /* push and pop */
    {WIRE_SOURCE_PYTHON, 300000, COST_TIMED},        /* a wrapper of the package */
    {WIRE_SOURCE_CPU_MEMORY, 20000, COST_MEMORY},    /* one call of the allocator */
    {WIRE_SOURCE_DEVICE_MEMORY, 10000, COST_MEMORY}, /* the same under its lock */
    {WIRE_SOURCE_CPU_OPS, 250000, COST_DETAIL}, /* 215 measured, 404 tiny ops a step */
    {WIRE_SOURCE_CUPTI, 1000000, COST_DETAIL},  /* 1 % at 10,000 launches a second */
};
#define COSTS         (sizeof(costs) / sizeof(costs[0]))
#define ALLOC_COST_NS 15.0 /* an EVENT_ALLOC, beside the call that is counted anyway */

/* What comes once a step finds its code and data out of the caches. The marks' own time is
 * taken in place; with their callers, wrappers and hooks of Python, they took three times
 * as long, measured from outside in steps of 404 operators. */
#define MARK_TIMES 3.0
/* A bare step's are short beside what leads to them: hooks of torch, wrappers in C. 5.7 us
 * where they took 1.15, with all of it taken off and put on again in one process. */
#define BARE_MARK_TIMES 5.0

static struct governor governor;
static uint64_t events_before[COSTS], allocs_before;
static uint64_t published_ticks;
static uint32_t burst_seen;

/* What was asked and is not obeyed yet; below 0, or no steps: as it is. */
struct request {
    int32_t level;
    int64_t budget_ppm;
    uint32_t steps;
};
static const struct request nothing = {-1, -1, 0};
static struct request asked;

/* ---- settings ---------------------------------------------------------------------- */

static const char *environment(const char *name)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    return getenv(name);
}

static enum wire_level level_parse(const char *text)
{
    for (uint32_t level = 0; text != NULL && level < WIRE_LEVELS; level++)
        if (strcmp(text, wire_level_word(level)) == 0)
            return (enum wire_level)level;
    return WIRE_LEVEL_AUTO;
}

/* "1", "0.5" or "2.5%"; the default for everything else. Not strtod(): the application
 * may have set a locale whose point is a comma. */
static double budget_parse(const char *text)
{
    double value = 0, unit = 0;

    if (text == NULL || *text == '\0')
        return BUDGET_DEFAULT;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && unit <= 0); text++) {
        if (*text == '.') {
            unit = 1;
            continue;
        }
        value = unit > 0 ? value + (*text - '0') * (unit /= 10)
                         : value * 10 + (*text - '0');
    }
    if (*text == '%')
        text++;
    return *text == '\0' && value <= 100 ? value / 100 : BUDGET_DEFAULT;
}

/* All ranks of a job know these; a process without a launcher draws by its session. */
static uint64_t seed_of_job(void)
{
    const char *texts[] = {environment("MASTER_ADDR"), environment("MASTER_PORT"),
                           environment("WORLD_SIZE"),
                           environment("TORCHELASTIC_RESTART_COUNT")};
    const char *session = probe->header->session;

    return texts[0] != NULL ? draw_seed(texts, 4) : draw_seed(&session, 1);
}

static void say_level(void)
{
    atomic_store_explicit(&probe->header->level, governor.options.level,
                          memory_order_relaxed);
}

/* ---- what it costs --------------------------------------------------------------- */

static uint32_t sources_present(void)
{
    static const struct {
        enum wire_source source;
        uint32_t flag;
    } rows[] = {{WIRE_SOURCE_CPU_OPS, EVENT_STEP_OPS},
                {WIRE_SOURCE_CUPTI, EVENT_STEP_KERNELS}};
    uint32_t present = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (atomic_load_explicit(&probe->sources[rows[i].source].state,
                                 memory_order_relaxed) == WIRE_STATE_ACTIVE)
            present |= rows[i].flag;
    return present;
}

static double ticks_ns(uint64_t ticks)
{
    return 1e3 * (double)ticks / (double)probe->ticks_per_us;
}

/* Adds what was written since the last boundary, at its calibrated cost. */
static void add_costs(struct governor_step *step)
{
    double *const sums[] = {[COST_PHASES] = &step->phases_ns,
                            [COST_MEMORY] = &step->memory_ns,
                            [COST_DETAIL] = &step->detail_ns};
    uint64_t allocs = probe_events_written(EVENT_ALLOC);

    step->detail_ns += ALLOC_COST_NS * (double)(allocs - allocs_before);
    allocs_before = allocs;
    for (size_t i = 0; i < COSTS; i++) {
        const struct wire_capability *source = &probe->sources[costs[i].source];
        uint64_t events = atomic_load_explicit(&source->events, memory_order_relaxed);
        uint32_t cost_ps = atomic_load_explicit(&source->cost_ps, memory_order_relaxed);

        if (costs[i].kind != COST_TIMED)
            *sums[costs[i].kind] +=
                1e-3 * cost_ps * (double)(events - events_before[i]);
        events_before[i] = events;
    }
}

static void put_share(_Atomic uint64_t *word, double share)
{
    uint64_t bits;

    memcpy(&bits, &share, sizeof(bits));
    atomic_store_explicit(word, bits, memory_order_relaxed);
}

static void publish(void)
{
    struct wire_governor *sums = &probe->header->governor;
    struct governor_report report;
    uint64_t sequence = atomic_load_explicit(&sums->sequence, memory_order_relaxed);

    governor_report(&governor, &report);
    atomic_store_explicit(&sums->sequence, sequence + 1, memory_order_relaxed);
    /* Release: who sees a number of ours sees the odd sequence; pairs with the acquire
     * fence of the reader before it reads the sequence again. */
    atomic_thread_fence(memory_order_release);
    put_share(&sums->budget, report.budget_pct);
    put_share(&sums->measured, report.known ? report.measured_pct : __builtin_nan(""));
    put_share(&sums->ci_low,
              report.interval_known ? report.low_pct : __builtin_nan(""));
    put_share(&sums->ci_high,
              report.interval_known ? report.high_pct : __builtin_nan(""));
    put_share(&sums->detail, report.detail_pct);
    put_share(&sums->burst, report.burst_pct);
    put_share(&sums->fixed, report.fixed_pct);
    put_share(&sums->recorded_share, report.recorded_share);
    put_share(&sums->phases_share, report.phases_share);
    atomic_store_explicit(&sums->recorded_steps, report.recorded_steps,
                          memory_order_relaxed);
    atomic_store_explicit(&sums->control_steps, report.control_steps,
                          memory_order_relaxed);
    atomic_store_explicit(&sums->steps_needed, report.steps_needed,
                          memory_order_relaxed);
    atomic_store_explicit(&sums->rate, report.rate, memory_order_relaxed);
    atomic_store_explicit(&sums->state, report.state, memory_order_relaxed);
    /* Release: pairs with the acquire of the reader's first look at the sequence. */
    atomic_store_explicit(&sums->sequence, sequence + 2, memory_order_release);
}

/* Between two steps: what ended is added up under what it was asked. */
static void obey(void)
{
    struct request request = asked;

    if (request.level < 0 && request.budget_ppm < 0 && request.steps == 0)
        return;
    asked = nothing;
    if (request.budget_ppm >= 0)
        governor_set_budget(&governor, (double)request.budget_ppm / 1e6);
    if (request.level >= 0 && (uint32_t)request.level != governor.options.level) {
        governor_set_level(&governor, (enum wire_level)request.level);
        probe_instant(EVENT_META(0, EVENT_MARK, EVENT_MARK_LEVEL, 0), 0,
                      (uint64_t)request.level);
        say_level();
    }
    if (request.steps > 0)
        governor_burst(&governor, request.steps);
    published_ticks = 0; /* the page waits for the answer */
}

/* ---- boundaries -------------------------------------------------------------------- */

uint32_t decide_open(void)
{
    struct governor_options options = {
        .budget = budget_parse(environment("TRAINGLASS_BUDGET")),
        .level = level_parse(environment("TRAINGLASS_LEVEL")),
        .seed = seed_of_job(),
    };

    governor_init(&governor, &options);
    memset(events_before, 0, sizeof(events_before));
    allocs_before = 0;
    published_ticks = 0;
    burst_seen = 0;
    asked = nothing;
    for (size_t i = 0; i < COSTS; i++)
        atomic_store_explicit(&probe->sources[costs[i].source].cost_ps,
                              costs[i].cost_ps, memory_order_relaxed);
    say_level();
    publish();
    return governor_level_flags(options.level);
}

void decide_ranks(void)
{
    governor.options.seed = seed_of_job();
}

uint32_t decide_begin(uint64_t number)
{
    decide_skip_costs();
    governor_set_sources(&governor, sources_present());
    publish();
    return governor_next(&governor, number);
}

void decide_skip_costs(void)
{
    struct governor_step nobodys = {.phases_ns = 0};

    add_costs(&nobodys);
}

uint32_t decide_next(const struct probe_step *ended, uint64_t next, uint64_t mark_ticks)
{
    bool bare = (ended->recording & RECORDING_PHASES) == 0;
    struct governor_step step = {
        .number = ended->number,
        .flags = ended->recording | ended->flags,
        .duration_ns = ticks_ns(ended->end - ended->start),
        .phases_ns = (bare ? BARE_MARK_TIMES : MARK_TIMES) * ticks_ns(mark_ticks),
    };

    if (!bare)
        add_costs(&step);
    governor_step_end(&governor, &step);
    obey();
    if (next < PUBLISH_STEPS || (next & (next - 1)) == 0 ||
        ended->end - published_ticks > PUBLISH_INTERVAL_US * probe->ticks_per_us) {
        published_ticks = ended->end;
        publish();
    }
    /* Validation batches lie inside what was decided for the step after them. */
    if (ended->number == STEPS_NO_NUMBER)
        return ended->recording;
    governor_set_sources(&governor, sources_present());
    return governor_next(&governor, next);
}

void decide_ask(int32_t level, int64_t budget_ppm, uint32_t steps)
{
    asked.level = level >= 0 ? level : asked.level;
    asked.budget_ppm = budget_ppm >= 0 ? budget_ppm : asked.budget_ppm;
    asked.steps = steps > 0 ? steps : asked.steps;
}

void decide_request(const struct control *control)
{
    bool burst = control->burst_id != burst_seen;

    burst_seen = control->burst_id;
    decide_ask((int32_t)control->level, control->budget_ppm,
               burst ? control->burst_steps : 0);
}
