#include "probe/cupti/stamps.h"

#include <string.h>

#include "wire/clock.h"

#define TRIES 4
/* A stamp that lies between two looks at a clock is of that clock. The driver's own
 * interpolation may be off by this much. */
#define SLACK_NS  UINT64_C(1000000)
#define MINUTE_NS UINT64_C(60000000000)
#define SECOND_NS UINT64_C(1000000000)
/* NTP slews by 500 ppm at most; what is more, and more than noise, is a jump. */
#define JUMP_SHARE 0.002
#define JUMP_NS    50000.0
/* What a double still turns into an int64_t: 2^62, forty years of the fastest counter. */
#define TICKS_MAX 4611686018427387904.0

void stamps_open(struct stamps *stamps, bool tsc, double ticks_per_ns)
{
    memset(stamps, 0, sizeof(*stamps));
    stamps->tsc = tsc;
    stamps->ticks_per_ns = ticks_per_ns;
}

static struct stamps_era *newest(const struct stamps *stamps)
{
    const struct stamps_era *era = &stamps->eras[(stamps->eras_seen - 1) % STAMPS_ERAS];

    return stamps->eras_seen > 0 ? (struct stamps_era *)(uintptr_t)era : NULL;
}

static const struct stamps_pair *pair_at(const struct stamps_era *era, uint32_t i)
{
    return &era->pairs[i % STAMPS_PAIRS];
}

static uint32_t oldest_of(const struct stamps_era *era)
{
    return era->count > STAMPS_PAIRS ? era->count - STAMPS_PAIRS : 0;
}

/* Does the new pair lie off the line through those before it? */
static bool jumps(const struct stamps_era *era, struct stamps_pair pair)
{
    const struct stamps_pair *last = pair_at(era, era->count - 1);

    if (pair.stamp <= last->stamp || pair.ticks <= last->ticks)
        return true;
    if (era->count < 2)
        return false;
    const struct stamps_pair *oldest = pair_at(era, oldest_of(era));
    double slope =
        (double)(last->stamp - oldest->stamp) / (double)(last->ticks - oldest->ticks);
    double passed = (double)(pair.stamp - last->stamp);
    double off = passed - slope * (double)(pair.ticks - last->ticks);

    off = off < 0 ? -off : off;
    return off > JUMP_NS + JUMP_SHARE * passed;
}

enum stamps_change stamps_add(struct stamps *stamps, enum stamps_clock clock,
                              struct stamps_pair pair)
{
    struct stamps_era *era = newest(stamps);
    enum stamps_change change = STAMPS_SAME;

    if (era != NULL && era->clock != clock)
        change = STAMPS_OTHER_CLOCK;
    else if (era != NULL && jumps(era, pair))
        change = STAMPS_JUMPED;
    if (era == NULL || change != STAMPS_SAME) {
        era = &stamps->eras[stamps->eras_seen++ % STAMPS_ERAS];
        era->clock = clock;
        era->count = 0;
        era->first = pair;
    }
    era->pairs[era->count % STAMPS_PAIRS] = pair;
    era->count++;
    return change;
}

static uint64_t counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static bool between(uint64_t low, uint64_t value, uint64_t high, uint64_t slack)
{
    return value + slack >= low && value <= high + slack;
}

/* One look at all clocks around one at CUPTI's. */
static enum stamps_clock classify(uint64_t stamp, const uint64_t before[3],
                                  const uint64_t after[3])
{
    for (uint32_t i = 0; i < 3; i++)
        if (before[i] != 0 && between(before[i], stamp, after[i], SLACK_NS))
            return (enum stamps_clock)(i + STAMPS_REALTIME);
    return STAMPS_UNKNOWN;
}

static void look(uint64_t clocks[3])
{
    clocks[0] = clock_ns(CLOCK_REALTIME);
    clocks[1] = clock_ns(CLOCK_MONOTONIC);
    clocks[2] = counter();
}

enum stamps_change stamps_take(struct stamps *stamps, int (*now)(uint64_t *stamp))
{
    uint64_t narrowest = UINT64_MAX, before[3], after[3];
    enum stamps_clock clock = STAMPS_UNKNOWN;
    struct stamps_pair best = {0, 0};

    for (int i = 0; i < TRIES; i++) {
        uint64_t stamp = 0;

        look(before);
        uint64_t from = clock_ticks(stamps->tsc);

        if (now(&stamp) != 0 || stamp == 0)
            return STAMPS_SAME;
        uint64_t to = clock_ticks(stamps->tsc);

        look(after);
        if (to - from >= narrowest)
            continue;
        narrowest = to - from;
        best = (struct stamps_pair){stamp, from + (to - from) / 2};
        clock = classify(stamp, before, after);
    }
    return stamps_add(stamps, clock, best);
}

/* False where a clock that hardly moved between its pairs leads out of all ticks. */
static bool along(const struct stamps_pair *from, uint64_t stamp, double slope,
                  uint64_t *ticks)
{
    double passed = slope * (double)(int64_t)(stamp - from->stamp);

    if (passed <= -TICKS_MAX || passed >= TICKS_MAX)
        return false;
    *ticks = from->ticks + (uint64_t)(int64_t)passed;
    return true;
}

/* Along the line through the two pairs around the stamp, or through all of the era
 * where it lies outside. */
static bool convert(const struct stamps *stamps, const struct stamps_era *era,
                    uint64_t stamp, uint64_t *ticks)
{
    uint32_t low = oldest_of(era), high = era->count - 1;
    const struct stamps_pair *a, *b;

    if (low == high)
        return along(pair_at(era, low), stamp,
                     stamps->tsc && era->clock == STAMPS_TSC ? 1 : stamps->ticks_per_ns,
                     ticks);
    if (stamp > pair_at(era, low)->stamp && stamp < pair_at(era, high)->stamp) {
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;

            *(pair_at(era, middle)->stamp <= stamp ? &low : &high) = middle;
        }
    }
    a = pair_at(era, low);
    b = pair_at(era, high);
    return along(stamp >= b->stamp ? b : a, stamp,
                 (double)(b->ticks - a->ticks) / (double)(b->stamp - a->stamp), ticks);
}

/* How much of the clock's own unit `ns` are: the counter runs at 1 to 6 GHz. */
static uint64_t units(const struct stamps_era *era, uint64_t ns)
{
    return era->clock == STAMPS_TSC ? 3 * ns : ns;
}

bool stamps_ticks(const struct stamps *stamps, uint64_t stamp, uint64_t *ticks)
{
    uint32_t eras = stamps->eras_seen < STAMPS_ERAS ? stamps->eras_seen : STAMPS_ERAS;

    for (uint32_t back = 0; back < eras; back++) {
        const struct stamps_era *era =
            &stamps->eras[(stamps->eras_seen - 1 - back) % STAMPS_ERAS];
        const struct stamps_pair *last = pair_at(era, era->count - 1);
        /* What came before an era began is of the one before, where there is one. */
        uint64_t reach = back + 1 < eras ? 0 : units(era, MINUTE_NS);

        if (stamp + reach < era->first.stamp ||
            stamp > last->stamp + units(era, SECOND_NS))
            continue;
        return convert(stamps, era, stamp, ticks);
    }
    return false;
}

enum stamps_clock stamps_clock(const struct stamps *stamps)
{
    const struct stamps_era *era = newest(stamps);

    return era != NULL ? era->clock : STAMPS_UNKNOWN;
}

const char *stamps_clock_name(enum stamps_clock clock)
{
    static const char *const names[] = {"an unknown clock", "CLOCK_REALTIME",
                                        "CLOCK_MONOTONIC", "the time stamp counter"};

    return names[clock <= STAMPS_TSC ? clock : 0];
}
