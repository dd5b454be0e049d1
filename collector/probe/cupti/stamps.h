/* CUPTI's stamps to raw ticks of the segment.
 *
 * Its clock is CLOCK_REALTIME until somebody registers another one, which torch's
 * Kineto does at its first session (the time stamp counter) and never takes back. So
 * the clock is looked at with every flush: a pair {stamp, ticks} of one instant, and
 * which of the machine's clocks it agrees with. While it stays the same and does not
 * jump, the pairs are one era; a stamp is converted along the line of its era.
 */
#ifndef PROBE_CUPTI_STAMPS_H
#define PROBE_CUPTI_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

#define STAMPS_PAIRS 64u /* 6 s of flushes */
#define STAMPS_ERAS  4u

enum stamps_clock {
    STAMPS_UNKNOWN = 0,
    STAMPS_REALTIME = 1,
    STAMPS_MONOTONIC = 2,
    STAMPS_TSC = 3,
};

struct stamps_pair {
    uint64_t stamp, ticks;
};

struct stamps_era {
    enum stamps_clock clock;
    uint32_t count; /* since its start; pairs wrap */
    struct stamps_pair first;
    struct stamps_pair pairs[STAMPS_PAIRS];
};

struct stamps {
    bool tsc;            /* the segment's ticks are the time stamp counter */
    double ticks_per_ns; /* about; for an era of one pair */
    uint32_t eras_seen;  /* the newest is eras[(eras_seen - 1) % STAMPS_ERAS] */
    struct stamps_era eras[STAMPS_ERAS];
};

enum stamps_change { STAMPS_SAME = 0, STAMPS_JUMPED = 1, STAMPS_OTHER_CLOCK = 2 };

void stamps_open(struct stamps *stamps, bool tsc, double ticks_per_ns);

/* One pair, of a clock read by `now` (0 on success). */
enum stamps_change stamps_take(struct stamps *stamps, int (*now)(uint64_t *stamp));
/* The same with everything given: for tests. */
enum stamps_change stamps_add(struct stamps *stamps, enum stamps_clock clock,
                              struct stamps_pair pair);

/* The ticks of `stamp`; false when it lies in no era: before the first pair by more
 * than a minute, or after the last one of its era by more than a second; or where the
 * line of its era leads out of all ticks. */
MUST_CHECK bool stamps_ticks(const struct stamps *stamps, uint64_t stamp,
                             uint64_t *ticks);

enum stamps_clock stamps_clock(const struct stamps *stamps);
const char *stamps_clock_name(enum stamps_clock clock);

#endif
