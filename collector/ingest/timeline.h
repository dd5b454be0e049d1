/* Raw ticks of one segment to ns since its session's zero: a chain of lines.
 *
 * Once a stamp was converted its line never changes, so that ranges stay nested however
 * the clocks are adjusted later: a new pair bends the line only beyond the newest stamp
 * seen. A difference of more than TIMELINE_JUMP_NS (a machine that slept) is a jump.
 */
#ifndef INGEST_TIMELINE_H
#define INGEST_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

#define TIMELINE_LINES       128u
#define TIMELINE_JUMP_NS     INT64_C(10000000)
#define TIMELINE_PAIR_MAX_NS ((int64_t)1 << 59)

struct timeline_line {
    uint64_t ticks; /* from here on */
    int64_t ns;     /* at `ticks` */
    double ns_per_tick;
};

struct timeline {
    int64_t zero_ns;                            /* CLOCK_MONOTONIC of stamp 0 */
    struct timeline_line lines[TIMELINE_LINES]; /* by ticks; the oldest are given up */
    uint32_t count;
    uint64_t newest_ticks;            /* converted or paired */
    uint64_t first_ticks, pair_ticks; /* of the first and the newest pair */
    int64_t first_ns, pair_ns;
    uint64_t jumps;
};

/* A pair: the raw clock said `ticks` when CLOCK_MONOTONIC said `monotonic_ns`. Pairs
 * that go back in ticks are ignored. */
void timeline_pair(struct timeline *timeline, uint64_t ticks, int64_t monotonic_ns);

/* A stamp was read: lines up to it are settled. Nonsense is ignored. */
ALWAYS_INLINE void timeline_seen(struct timeline *timeline, uint64_t ticks)
{
    uint64_t ahead = ticks - timeline->newest_ticks;

    if (ahead < (uint64_t)1 << 45)
        timeline->newest_ticks = ticks;
}

/* Out of line: a stamp before the newest line. */
int64_t timeline_ns_before(const struct timeline *timeline, uint64_t ticks);

/* ns since zero; 0 before the first pair. Any bits may come in: the result stays within
 * +-2^61, and any two have a difference. */
ALWAYS_INLINE int64_t timeline_ns(const struct timeline *timeline, uint64_t ticks)
{
    if (UNLIKELY(timeline->count == 0))
        return 0;
    const struct timeline_line *line = &timeline->lines[timeline->count - 1];
    int64_t delta = (int64_t)(ticks - line->ticks);

    /* 2^49 ticks are two days without a pair, and at most 2^59 ns. */
    if (UNLIKELY(delta < 0 || delta > ((int64_t)1 << 49)))
        return timeline_ns_before(timeline, ticks);
    return line->ns + (int64_t)((double)delta * line->ns_per_tick);
}

/* A length in ns, at the newest line's rate; at most 2^47 (39 h). */
ALWAYS_INLINE int64_t timeline_length_ns(const struct timeline *timeline,
                                         uint64_t ticks)
{
    double ns = timeline->count == 0
                    ? 0
                    : (double)ticks * timeline->lines[timeline->count - 1].ns_per_tick;

    return ns < 0x1p47 ? (int64_t)ns : (int64_t)1 << 47;
}

/* The same of a range that began at `ticks`, which is `start_ns`: its end is converted as
 * the stamp that it is, so that what touches in ticks touches in ns; at most
 * 2^47. */
ALWAYS_INLINE int64_t timeline_range_ns(const struct timeline *timeline, uint64_t ticks,
                                        int64_t start_ns, uint64_t length)
{
    if (UNLIKELY(length >= (uint64_t)1 << 45))
        return timeline_length_ns(timeline, length);
    /* Of any bits: wraps where a difference would overflow. */
    int64_t ns =
        (int64_t)((uint64_t)timeline_ns(timeline, ticks + length) - (uint64_t)start_ns);

    return ns < 0 ? 0 : ns < (int64_t)1 << 47 ? ns : (int64_t)1 << 47;
}

#endif
