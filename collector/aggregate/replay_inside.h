/* The graph of one step: replay.c builds the host's part of it, replay_works.c the
 * devices', and replay_run.c runs it. */
#ifndef AGGREGATE_REPLAY_INSIDE_H
#define AGGREGATE_REPLAY_INSIDE_H

#include "aggregate/replay.h"

/* A call that waits returns within this after what it waited for. */
#define REPLAY_RETURN_NS INT64_C(10000)

/* Clocks of host and device agree to about this. */
#define REPLAY_CLOCK_NS 1000

struct replay_range { /* a range of the host as it came, or a piece of one */
    int64_t start_ns, end_ns;
    const struct event *event;
    uint32_t thread;
    uint8_t kind;
};

struct replay_link { /* a piece of the host's chain */
    int64_t start_ns, end_ns;
    const struct event *event;
    uint32_t thread;
    uint32_t waits; /* work + 1 whose end it waited for; 0 none */
    uint8_t kind;
};

struct replay_work {
    int64_t start_ns, end_ns; /* cut at the step and at the next work of its stream */
    int64_t late_ns;          /* began later than all that it waited for had ended */
    const struct event *event;
    uint32_t stream;     /* as recorded */
    uint32_t chain;      /* place of device and stream */
    uint32_t before;     /* work + 1 on its stream; 0 none */
    uint32_t after;      /* work + 1 of another stream that it waited for; 0 none */
    uint32_t launcher;   /* link + 1; 0: launched before the step, or not recorded */
    int64_t launched_ns; /* within that link */
    uint16_t device;
    uint8_t kind;
};

struct replay_call {
    uint64_t correlation;
    int64_t start_ns;
    int64_t
        moved_ns; /* when the copy that it started had ended; INT64_MIN: none here */
};

struct replay_list { /* an array that grows */
    void *items;
    uint32_t count, capacity;
};

struct replay {
    const struct texts *texts;
    uint8_t *uses; /* by text: what the name says, 0 not looked at */
    uint32_t use_count;
    struct replay_step step;
    int error;
    struct replay_list ranges, pieces, fillers, calls; /* the host as it came, cut up */
    struct replay_list links; /* its chain: struct replay_link */
    struct replay_list works; /* by start: struct replay_work */
    struct replay_list path;  /* struct replay_piece */
    struct {
        int64_t start_ns, end_ns;
    } data[REPLAY_PHASES_MAX];
    uint32_t data_count;
};

/* The host's chain from its ranges; then what the works and the waiting calls depended
 * on. Failures are noted in `error`. */
void replay_build_host(struct replay *replay);
void replay_build_works(struct replay *replay);

/* qsort(), for what mostly stands in order; of nothing too. */
void replay_sort(void *items, uint32_t count, size_t size,
                 int (*compare)(const void *, const void *));

/* The next item, zeroed; NULL notes -ENOMEM. */
void *replay_list_add(struct replay *replay, struct replay_list *list, size_t size);

ALWAYS_INLINE struct replay_link *replay_links(const struct replay *replay)
{
    return replay->links.items;
}

ALWAYS_INLINE struct replay_work *replay_works(const struct replay *replay)
{
    return replay->works.items;
}

#endif
