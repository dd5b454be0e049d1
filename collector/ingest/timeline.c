#include "ingest/timeline.h"

#include <math.h>
#include <string.h>

/* Over which time a small difference is made up for. */
#define BEND_NS 1e9

static void push(struct timeline *timeline, const struct timeline_line *line)
{
    if (timeline->count == TIMELINE_LINES) {
        memmove(timeline->lines, timeline->lines + 1,
                (TIMELINE_LINES - 1) * sizeof(timeline->lines[0]));
        timeline->count--;
    }
    timeline->lines[timeline->count++] = *line;
}

/* The rate between two pairs, if it can be one: a clock of 1 MHz to 100 GHz. */
static bool rate_between(uint64_t ticks, int64_t ns, double *rate)
{
    if (ticks == 0 || ns <= 0)
        return false;
    *rate = (double)ns / (double)ticks;
    return *rate > 1e-2 && *rate < 1e3;
}

void timeline_pair(struct timeline *timeline, uint64_t ticks, int64_t monotonic_ns)
{
    /* Whatever bits a segment holds: 18 years from its zero, so that no difference of
     * stamps overflows. */
    if (monotonic_ns < 0)
        return;
    int64_t ns = monotonic_ns - timeline->zero_ns;

    if (ns < -TIMELINE_PAIR_MAX_NS || ns > TIMELINE_PAIR_MAX_NS)
        return;
    double rate = 1;

    if (timeline->count == 0) {
        timeline->first_ticks = timeline->pair_ticks = timeline->newest_ticks = ticks;
        timeline->first_ns = timeline->pair_ns = ns;
        push(timeline, &(struct timeline_line){ticks, ns, 1});
        return;
    }
    if (ticks <= timeline->pair_ticks)
        return;
    bool second = timeline->pair_ticks == timeline->first_ticks;
    uint64_t from = timeline->newest_ticks > timeline->pair_ticks
                        ? timeline->newest_ticks
                        : timeline->pair_ticks;
    bool sane =
        rate_between(ticks - timeline->first_ticks, ns - timeline->first_ns, &rate);

    if (second && timeline->count == 1) {
        /* Until now there was no rate at all: nothing true was converted. */
        if (sane) {
            timeline->lines[0].ns_per_tick = rate;
            timeline->pair_ticks = ticks;
            timeline->pair_ns = ns;
        }
        return;
    }
    const struct timeline_line *newest = &timeline->lines[timeline->count - 1];
    int64_t at_from = timeline_ns(timeline, from);
    double ahead = (double)(int64_t)(ticks - from);
    double off = (double)ns - ((double)at_from + ahead * newest->ns_per_tick);
    /* The long baseline gives the better rate; small differences are made up for. */
    struct timeline_line line = {from, at_from, rate * (1 + off / BEND_NS)};

    timeline->pair_ticks = ticks;
    timeline->pair_ns = ns;
    if (!sane || fabs(off) > (double)TIMELINE_JUMP_NS) {
        timeline->jumps++;
        timeline->first_ticks = ticks;
        timeline->first_ns = ns;
        line = (struct timeline_line){ticks, ns, newest->ns_per_tick};
    }
    push(timeline, &line);
}

int64_t timeline_ns_before(const struct timeline *timeline, uint64_t ticks)
{
    const struct timeline_line *line = &timeline->lines[0];

    for (uint32_t i = timeline->count; i-- > 0;) {
        if ((int64_t)(ticks - timeline->lines[i].ticks) >= 0) {
            line = &timeline->lines[i];
            break;
        }
    }
    double ns =
        (double)line->ns + (double)(int64_t)(ticks - line->ticks) * line->ns_per_tick;
    double limit = 2.0 * (double)TIMELINE_PAIR_MAX_NS;

    return (int64_t)(ns > limit ? limit : ns < -limit ? -limit : ns);
}
