/* Which update ends a step, when several optimizers take turns.
 *
 * The anchor's update does: the slowest optimizer that runs at least once in
 * CADENCE_PERIOD updates and, among equals, the last of the cycle. A GAN's is its
 * generator, whether the critic ran once before it or five times. Until the cycle is
 * known the newest update is held: it may have been the end. So is the first update of
 * an optimizer that comes after one that ran alone: a new one in its place, or beside it.
 *
 * Pure and bounded: what it remembers is the last 32 updates.
 */
#ifndef PROBE_CADENCE_H
#define PROBE_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

#define CADENCE_HISTORY 32u
#define CADENCE_PERIOD  16u

enum cadence_answer {
    CADENCE_INSIDE, /* not the end */
    CADENCE_HELD,   /* perhaps: keep its time, and forget the one held before */
    CADENCE_END,    /* ends a step */
    CADENCE_BEFORE, /* the held one was an end, this one is not */
    CADENCE_BOTH,   /* the held one was an end, and this is another */
};

struct cadence {
    uint32_t history[CADENCE_HISTORY]; /* ids of the newest updates, a ring */
    uint64_t count;                    /* updates since the start */
    uint64_t anchor_at;                /* `count` at its newest update */
    uint32_t anchor;
    bool known; /* the anchor is */
    bool held;  /* the newest update is, though it is */
    bool moved; /* by the newest update: a new stretch begins */
};

/* An update of `id` ended. */
enum cadence_answer cadence_update(struct cadence *cadence, uint32_t id);

/* Is an update of `id` among those that are remembered? */
bool cadence_remembers(const struct cadence *cadence, uint32_t id);

/* Something says that the held update was the end: the next batch is fetched. True
 * when there was one. */
bool cadence_confirm(struct cadence *cadence);

#endif
