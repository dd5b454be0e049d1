#include <stdlib.h>

#include "aggregate/history.h"
#include "query/numbers.h"
#include "query/replay_inside.h"
#include "query/replay_query.h"

/* Calls of all picks, 12 MB, and stretches of phases in one: a step with more is left out. */
#define CALLS_MAX  (1u << 19)
#define PHASES_MAX 1024u

struct call {
    uint64_t correlation;
    int64_t at_ns; /* while its step is read */
    uint8_t pick, phase;
    bool launches, has_work;
};

struct stretch {
    int64_t start_ns, end_ns;
    uint32_t phase;
};

/* Of a pick: its launches, those of them whose work is known, and that work. */
struct part {
    uint32_t launches, known;
    double ns;
};

struct looking {
    const struct trace_process *process;
    struct call *calls; /* [call_capacity] */
    uint32_t call_count, call_capacity;
    struct stretch phases[PHASES_MAX]; /* of one pick */
    uint32_t phase_count;
    struct part parts[REPLAY_STEPS_MAX][EVENT_PHASES + 1];
};

/* ---- calls of the picks ---------------------------------------------------------------- */

static bool add_call(struct looking *looking, const struct event *event, uint8_t pick)
{
    if (looking->call_count == looking->call_capacity) {
        uint32_t capacity =
            looking->call_capacity == 0 ? 1024 : looking->call_capacity * 2;
        struct call *calls = capacity > CALLS_MAX
                                 ? NULL
                                 : realloc(looking->calls, capacity * sizeof(*calls));

        if (calls == NULL)
            return false;
        looking->calls = calls;
        looking->call_capacity = capacity;
    }
    looking->calls[looking->call_count++] =
        (struct call){.correlation = event->aux,
                      .at_ns = (int64_t)event->time,
                      .pick = pick,
                      .launches = EVENT_KIND(event->meta) == EVENT_LAUNCH};
    return true;
}

/* False: there is no room for what it tells. */
static bool take_host(struct looking *looking, uint32_t thread, uint8_t pick,
                      const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);
    uint32_t phase = EVENT_AUX16(event->meta);

    if (kind == EVENT_PHASE && looking->process->threads[thread].tells_steps &&
        phase < EVENT_PHASES) {
        if (looking->phase_count == PHASES_MAX)
            return false;
        looking->phases[looking->phase_count++] = (struct stretch){
            (int64_t)event->time, (int64_t)(event->time + event->value), phase};
    }
    return (kind != EVENT_LAUNCH && kind != EVENT_RUNTIME && kind != EVENT_SYNC) ||
           event->aux == 0 || add_call(looking, event, pick);
}

static int by_start(const void *left, const void *right)
{
    const struct stretch *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* EVENT_PHASES in none; they do not lie in each other. */
static uint8_t phase_at(const struct looking *looking, int64_t at_ns)
{
    uint32_t after =
        numbers_upto(&looking->phases[0].start_ns, sizeof(looking->phases[0]),
                     looking->phase_count, at_ns);

    return after > 0 && at_ns < looking->phases[after - 1].end_ns
               ? (uint8_t)looking->phases[after - 1].phase
               : EVENT_PHASES;
}

/* False: it is left out. */
static bool take_step(struct looking *looking, const struct step_row *row, uint8_t pick)
{
    int64_t from_ns = row->start_ns, to_ns = from_ns + (int64_t)row->duration_ns;
    uint32_t first = looking->call_count;
    bool whole = true;

    looking->phase_count = 0;
    for (uint32_t i = 0; i < looking->process->block_count && whole; i++) {
        const struct trace_block *block = &looking->process->blocks[i];

        if (!replay_block_touches(block, from_ns, to_ns))
            continue;
        for (uint32_t j = 0; j < block->count && whole; j++) {
            int64_t at_ns = (int64_t)block->events[j].time;

            whole = at_ns < from_ns || at_ns >= to_ns ||
                    take_host(looking, block->thread, pick, &block->events[j]);
        }
    }
    if (looking->phase_count > 1)
        qsort(looking->phases, looking->phase_count, sizeof(struct stretch), by_start);
    for (uint32_t i = first; i < looking->call_count; i++)
        looking->calls[i].phase = phase_at(looking, looking->calls[i].at_ns);
    if (!whole)
        looking->call_count = first;
    return whole;
}

/* ---- their work -------------------------------------------------------------------------- */

static int by_correlation(const void *left, const void *right)
{
    const struct call *a = left, *b = right;

    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

static void take_work(struct looking *looking, const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);
    const struct call key = {.correlation = event->aux};

    if ((kind != EVENT_KERNEL && kind != EVENT_MEMCPY && kind != EVENT_MEMSET) ||
        event->aux == 0)
        return;
    struct call *call =
        bsearch(&key, looking->calls, looking->call_count, sizeof(key), by_correlation);

    if (call == NULL)
        return;
    call->has_work = true;
    looking->parts[call->pick][call->phase].ns += (double)event->value;
}

/* A call of the runtime and the driver's within it have one number, and are one. */
static void count_launches(struct looking *looking)
{
    for (uint32_t i = 0; i < looking->call_count;) {
        const struct call *first = &looking->calls[i];
        bool launches = false, has_work = false;

        for (; i < looking->call_count &&
               looking->calls[i].correlation == first->correlation;
             i++) {
            launches |= looking->calls[i].launches;
            has_work |= looking->calls[i].has_work;
        }
        looking->parts[first->pick][first->phase].launches += launches;
        looking->parts[first->pick][first->phase].known += launches && has_work;
    }
}

/* Nothing runs before it is launched. False: there is too much to read. */
static bool look_at_devices(struct looking *looking, int64_t first_ns)
{
    const struct trace_process *process = looking->process;
    uint64_t read = 0;

    if (looking->call_count == 0)
        return false;
    qsort(looking->calls, looking->call_count, sizeof(*looking->calls), by_correlation);
    for (uint32_t i = 0; i < process->block_count; i++) {
        const struct trace_block *block = &process->blocks[i];

        if (block->count == 0 || block->block->to_ns < first_ns)
            continue;
        read += block->count;
        if (read > REPLAY_READ_MAX)
            return false;
        for (uint32_t j = 0; j < block->count; j++)
            take_work(looking, &block->events[j]);
    }
    count_launches(looking);
    return true;
}

/* ---- the mean ------------------------------------------------------------------------------ */

void launched_mean(const struct trace_process *process,
                   const struct replay_pick picks[], uint32_t count,
                   double mean[EVENT_PHASES + 1])
{
    struct looking *looking = calloc(1, sizeof(*looking));
    double sums[EVENT_PHASES + 1] = {0};
    uint32_t counted = 0;
    int64_t first_ns = INT64_MAX;

    for (uint32_t i = 0; looking != NULL && i < count; i++) {
        looking->process = process;
        (void)take_step(looking, picks[i].row, (uint8_t)i);
        first_ns =
            picks[i].row->start_ns < first_ns ? picks[i].row->start_ns : first_ns;
    }
    bool known = looking != NULL && look_at_devices(looking, first_ns);

    for (uint32_t i = 0; known && i < count; i++) {
        uint32_t launches = 0;
        bool counts = true;

        for (uint32_t phase = 0; phase <= EVENT_PHASES; phase++) {
            const struct part *part = &looking->parts[i][phase];

            counts = counts && part->known >= LAUNCHED_KNOWN * part->launches;
            launches += part->launches;
        }
        if (!counts || launches == 0)
            continue;
        for (uint32_t phase = 0; phase <= EVENT_PHASES; phase++) {
            double host = phase < EVENT_PHASES ? picks[i].row->phase_ns[phase]
                                               : picks[i].row->other_ns;

            sums[phase] +=
                isnan(host) ? UNKNOWN : picks[i].scale * looking->parts[i][phase].ns;
        }
        counted++;
    }
    for (uint32_t phase = 0; phase <= EVENT_PHASES; phase++)
        mean[phase] = counted > 0 ? sums[phase] / counted : UNKNOWN;
    if (looking != NULL)
        free(looking->calls);
    free(looking);
}
