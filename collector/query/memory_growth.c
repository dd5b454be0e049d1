#include "query/memory_inside.h"
#include "query/numbers.h"

#define NS_PER_S 1e9

/* What is gained below this share of the level is no news. */
#define GROWTH_SHARE 0.01
#define GROWTH_BYTES (16.0 * 1024 * 1024)

/* In its first minute of steps, and in a few seconds of later ones, a process touches pages
 * that it was given long ago, by some tens of MiB, and keeps them. */
#define TOUCHED_SHARE 0.05
#define TOUCHED_BYTES (64.0 * 1024 * 1024)
#define TOUCHED_NS    INT64_C(55000000000)

/* Each quarter of the time has that share of what was gained: what is taken at once and
 * kept, or fills up, is no trend. */
#define QUARTER_SHARE 0.1

/* Seconds enough to see a rise, soon enough for who looks; and the steps in them. */
#define NEWEST_NS    INT64_C(8000000000)
#define NEWEST_STEPS 10u

/* Only training, and steps enough of it. */
static bool trains(const struct pick *pick, int64_t from_ns)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count), found = 0;

    for (uint32_t i = first + count; i-- > first; found++) {
        const struct step *step = steps_at(steps, i);

        if (step->start_ns < from_ns)
            break;
        if (step->flags & EVENT_STEP_VALIDATION)
            return false;
    }
    return found >= NEWEST_STEPS;
}

/* Of the run's first step, or its start when that is long forgotten; INT64_MIN before
 * one. */
static int64_t first_step_end(const struct steps *steps)
{
    if (steps->first_ns == INT64_MAX)
        return INT64_MIN;
    if (steps_remembered(steps) < steps->count)
        return steps->first_ns;
    return steps_at(steps, 0)->start_ns + steps_at(steps, 0)->duration_ns;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

void memory_envelopes_open(struct memory_envelopes *envelopes, const struct pick *pick,
                           int64_t from_ns, int64_t to_ns, bool resident)
{
    int64_t warm_ns = first_step_end(&pick->process->steps);

    from_ns = resident ? later(from_ns, warm_ns) : from_ns;
    *envelopes =
        (struct memory_envelopes){.resident = resident,
                                  .settled_ns = warm_ns + TOUCHED_NS,
                                  .whole = {.from_ns = from_ns, .to_ns = to_ns},
                                  .newest = {.from_ns = to_ns, .to_ns = to_ns},
                                  .before = -(double)INFINITY};
    if (pick_goes_on(pick) && to_ns - from_ns >= 2 * NEWEST_NS &&
        trains(pick, to_ns - NEWEST_NS))
        envelopes->newest.from_ns = to_ns - NEWEST_NS;
}

static void add(struct envelope *envelope, int64_t time_ns, double value)
{
    int64_t width = (envelope->to_ns - envelope->from_ns) / ENVELOPE_PARTS + 1;
    double part = (double)((time_ns - envelope->from_ns) / width);

    if (envelope->count > 0 && envelope->times[envelope->count - 1] >= part) {
        double *low = &envelope->lows[envelope->count - 1];

        *low = value < *low ? value : *low;
        return;
    }
    if (envelope->count == ENVELOPE_PARTS)
        return;
    envelope->times[envelope->count] = part;
    envelope->lows[envelope->count++] = value;
}

void memory_envelopes_add(struct memory_envelopes *envelopes, int64_t time_ns,
                          double value)
{
    struct envelope *newest = &envelopes->newest;

    if (time_ns < envelopes->whole.from_ns)
        return;
    add(&envelopes->whole, time_ns, value);
    if (time_ns < newest->from_ns)
        envelopes->before = value > envelopes->before ? value : envelopes->before;
    else if (newest->from_ns < newest->to_ns)
        add(newest, time_ns, value);
}

static bool rises_all_along(const struct envelope *envelope)
{
    double levels[NUMBERS_QUARTERS];

    numbers_quarters(envelope->lows, envelope->count, levels);
    double least = QUARTER_SHARE * (levels[NUMBERS_QUARTERS - 1] - levels[0]);

    /* It may have begun behind the first. */
    for (uint32_t q = 1; q < NUMBERS_QUARTERS; q++)
        if (!(levels[q] - levels[q - 1] >= (q == 1 ? 0 : least)))
            return false;
    return least > 0;
}

/* So much must have been gained. */
static double least_of(const struct memory_envelopes *envelopes,
                       const struct envelope *envelope)
{
    double level = envelope->lows[envelope->count - 1];
    int64_t settled_ns = later(envelope->from_ns, envelopes->settled_ns);

    if (envelopes->resident && envelope->to_ns - settled_ns < TOUCHED_NS)
        return fmax(TOUCHED_SHARE * level, TOUCHED_BYTES);
    return fmax(GROWTH_SHARE * level, GROWTH_BYTES);
}

static struct memory_growth growth_of(const struct memory_envelopes *envelopes,
                                      const struct envelope *envelope)
{
    struct memory_growth growth = {
        .full_in_s = UNKNOWN, .earliest_s = UNKNOWN, .latest_s = UNKNOWN};
    double width =
        (double)(envelope->to_ns - envelope->from_ns) / ENVELOPE_PARTS / NS_PER_S;
    struct numbers_trend trend =
        numbers_trend(envelope->times, envelope->lows, envelope->count);
    int grows;

    growth.slope_bytes_per_s =
        numbers_slope(envelope->times, envelope->lows, envelope->count, &grows) / width;
    growth.error_bytes_per_s = trend.error / width;
    if (isnan(growth.slope_bytes_per_s))
        return growth;
    double grown = growth.slope_bytes_per_s * width * (double)envelope->count;

    growth.sure =
        grows && grown > least_of(envelopes, envelope) && rises_all_along(envelope);
    return growth;
}

/* The newest seconds say more than the whole window where that holds little of it yet. */
static bool began_lately(const struct memory_envelopes *envelopes,
                         const struct memory_growth *whole,
                         const struct memory_growth *newest)
{
    if (!newest->sure)
        return false;
    const struct envelope *seconds = &envelopes->newest;
    double beyond = seconds->lows[seconds->count - 1] - envelopes->before;

    return beyond > least_of(envelopes, seconds) &&
           (!whole->sure || newest->slope_bytes_per_s - newest->error_bytes_per_s >
                                whole->slope_bytes_per_s);
}

struct memory_growth memory_envelopes_growth(const struct memory_envelopes *envelopes,
                                             double left)
{
    struct memory_growth growth = growth_of(envelopes, &envelopes->whole);
    struct memory_growth newest = growth_of(envelopes, &envelopes->newest);

    if (began_lately(envelopes, &growth, &newest))
        growth = newest;
    if (!growth.sure || !(left > 0))
        return growth;
    double least = growth.slope_bytes_per_s - growth.error_bytes_per_s;

    growth.full_in_s = left / growth.slope_bytes_per_s;
    growth.earliest_s = left / (growth.slope_bytes_per_s + growth.error_bytes_per_s);
    if (least > 0)
        growth.latest_s = left / least;
    return growth;
}
