/* Op tables of a process's accelerators: those of ops.h, a little behind.
 *
 *     step 7 ended | 8 ended | 9 ended | 10 runs         told by the host
 *     k k k k k k k k k k k k k k | (not told yet)       kernels, up to 200 ms later
 *                  ^ 7 is closed: on every device work that began after it was told
 *
 * A step waits until its work is known: before that it is in no table, and not among the
 * steps that sums are divided by. Which step a kernel is of, its start alone says, while
 * that step waits or is one of the OPS_OPEN that were closed last. One that runs beside
 * more steps than these, on a stream of its own, comes when it ends and counts in the
 * oldest of them: `ops.late_events` says how many did. A device of which nothing comes any
 * more is not waited for. A source that tells up to when all work was told is believed
 * instead; what comes for an earlier time it has told lost. A step that such a source has
 * not told of and that can wait no longer is given up: closed as one without work.
 *
 * Collector's thread only.
 */
#ifndef AGGREGATE_DEVICE_OPS_H
#define AGGREGATE_DEVICE_OPS_H

#include "aggregate/ops.h"

#define DEVICE_OPS_DEVICES 32u        /* each with a clock of its own; others have none */
#define DEVICE_OPS_WAITING 4096u      /* steps, 0.3 MB; beyond them the oldest is closed */
#define DEVICE_OPS_AHEAD   (1u << 16) /* work of devices that are ahead of others: 2 MB */

/* Buffers of all devices are asked for together, every 100 ms. */
#define DEVICE_OPS_PATIENCE_NS INT64_C(1000000000)

struct device_clock {
    uint16_t device;
    int64_t newest_ns; /* start of its newest work */
};

struct device_ops {
    struct ops ops;
    struct step *waiting; /* ring: ended, and their work is not known */
    uint32_t first, count, capacity;
    int64_t begins_ns; /* start of the step that runs; INT64_MAX not known */
    bool begun;        /* the host has said so */
    struct device_clock clocks[DEVICE_OPS_DEVICES];
    uint32_t clock_count;
    int64_t told_ns; /* the source: all that began before has come; INT64_MIN: it is silent */
    uint64_t late_events; /* came after they were told lost: counted nowhere */
    uint64_t given_up;    /* steps that were closed before they were told */
    /* Of those that nobody has taken yet: first start, last end; INT64_MAX none. */
    int64_t given_up_from_ns, given_up_to_ns;
    struct ops_held *ahead; /* began after the first step that waits; by start */
    uint32_t ahead_first, ahead_count, ahead_capacity;
};

MUST_CHECK bool device_ops_init(struct device_ops *device, const struct texts *texts,
                                size_t digest_bytes);
void device_ops_free(struct device_ops *device);

/* As ops_begin() and ops_end(), by the host. Until work was recorded steps pass by. */
void device_ops_begin(struct device_ops *device, int64_t start_ns);
void device_ops_end(struct device_ops *device, const struct step *step);

/* Does a step wait in the whole of which work was recorded? */
bool device_ops_awaits(const struct device_ops *device);

/* Work of a device. */
void device_ops_add(struct device_ops *device, uint16_t of, const struct ops_held *work);

/* Work of [since_ns, until_ns] was lost: steps that wait and reach into it were not
 * recorded. Those that are closed stay as they are: a loss is told before what came
 * beside it. How many were looked at. */
uint32_t device_ops_lose(struct device_ops *device, int64_t since_ns, int64_t until_ns);

/* The same of work that began then, in the first step that waits. */
void device_ops_lose_first(struct device_ops *device, int64_t at_ns);

/* Steps were given up since this was last asked: those of [range[0], range[1]). */
bool device_ops_take_given_up(struct device_ops *device, int64_t range[2]);

/* All work that began before `until_ns` has come, or comes no more: what a source that
 * tells has not told of is given up. */
void device_ops_known(struct device_ops *device, int64_t until_ns);
/* The first, by the source, which will tell again: nothing else makes work known from now
 * on. */
void device_ops_told(struct device_ops *device, int64_t until_ns);

#endif
