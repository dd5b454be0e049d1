/* What one recorded step waited for, and how long it would take if something in it were
 * gone: its tasks with what each had to wait for, replayed.
 *
 * The method is that of Daydream (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020): tasks of
 * a recorded iteration become nodes of a graph, what is asked changes their lengths, and
 * the graph is run again, each task as soon as all that it depends on has ended. The
 * critical path is the longest path in that graph, found backwards from the step's end.
 *
 *     nodes   the host's pieces: what the training thread was in, innermost; where it was
 *             in nothing and another thread was in an op or call (autograd's), that; else
 *             the code between. They fill the step: one piece at a time has the baton.
 *             The devices' works: kernels, copies, memsets.
 *     edges   a piece follows the piece before it; a work follows the start of the call
 *             that launched it and the work before it on its stream; a call that waited
 *             for a device (it ended just after a work did) follows that work.
 *     delays  what a work began later than all of these told is kept: up to
 *             GPU_LATENCY_NS it is the device's own; more, if a work of another stream
 *             ended just before, it waited for that one (inferred: events between streams
 *             are not recorded), else it is unknown and stays in every answer.
 *
 * Replayed with nothing changed, a step takes what was recorded, to the nanosecond. Work
 * that was launched before the step is ready at its start. No answer is shorter than what
 * a device is busy with: a job whose queue is full gains nothing from a faster host.
 *
 * Pure: no lock, no clock; one thread at a time. Memory is bounded by REPLAY_EVENTS_MAX;
 * time is that of sorting. What replay_add() gets must outlive the answers.
 */
#ifndef AGGREGATE_REPLAY_H
#define AGGREGATE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"
#include "wire/event.h"

#define REPLAY_EVENTS_MAX                                                              \
    (1u << 18)                  /* of one step; 15 MB for the host, 21 for devices */
#define REPLAY_STREAMS_MAX 256u /* of all devices; those beyond share the last */
#define REPLAY_PHASES_MAX  256u /* stretches of data loading in a step */

enum replay_kind {
    /* The host: */
    REPLAY_DATA,       /* waits for the next batch */
    REPLAY_OP,         /* in an operator */
    REPLAY_LAUNCH,     /* in a call that launches */
    REPLAY_RUNTIME,    /* in another call of the runtime */
    REPLAY_SYNC,       /* in a call that waits for the device: its own time */
    REPLAY_COLLECTIVE, /* in a collective, where no device works */
    REPLAY_PYTHON,     /* in nothing that is recorded */
    /* A device: */
    REPLAY_COMPUTE,
    REPLAY_COMMUNICATION,
    REPLAY_COPY,    /* and memset */
    REPLAY_LATENCY, /* from queue to device */
    REPLAY_UNKNOWN, /* waited for something that is not recorded */
    REPLAY_KINDS,
};

enum replay_what_if {
    REPLAY_DATA_HIDDEN,
    REPLAY_SYNC_FREE,     /* the host never waits for a device */
    REPLAY_LAUNCH_FREE,   /* ops and calls take the host no time: a CUDA graph */
    REPLAY_COPIES_HIDDEN, /* beside compute */
    REPLAY_COMMUNICATION_HIDDEN,
    REPLAY_COMPUTE_HALVED, /* each kernel takes half as long: a device twice as fast */
    REPLAY_WHAT_IFS,
};

/* Eighths of their length that all kernels lose, to see how much of that a step gains: the
 * first are on its longest path, and the more of them are gone the more of what is left
 * waits for something else. */
#define REPLAY_CUTS    4u
#define REPLAY_EIGHTHS 8

extern const uint8_t replay_cuts[REPLAY_CUTS]; /* ascending; the last is all of it */

struct replay_piece { /* of the critical path */
    int64_t start_ns, end_ns;
    const struct event *event; /* what ran; NULL: nothing recorded */
    uint32_t thread;           /* of the host; meaningless on a device */
    uint32_t stream;           /* likewise the other way round */
    uint16_t device;           /* EVENT_DEVICE(); 0 the host */
    uint8_t kind;              /* enum replay_kind */
};

struct replay_result {
    int64_t step_ns;
    const struct replay_piece *path; /* by time; fills the step; the replay's own */
    uint32_t path_count;
    int64_t kind_ns[REPLAY_KINDS]; /* of the path */
    int64_t unknown_ns;            /* delays of all works that nothing explains */
    uint32_t host_events, works;   /* that the graph was made of */
    /* Pieces of the host in which it waits for works, if only for such as have ended; 0:
     * nobody knows when it does. */
    uint32_t waits;
    int64_t compute_ns; /* of the device with the most; works at once count once */
    /* What the step would take with kernels so much shorter. */
    int64_t cut_ns[REPLAY_CUTS];
    /* What the step would take; meaningful where `asked`: there is such a thing in it. */
    int64_t what_if_ns[REPLAY_WHAT_IFS];
    bool asked[REPLAY_WHAT_IFS];
};

struct replay_step {
    int64_t start_ns, end_ns;
    uint32_t trainer; /* thread */
};

struct texts;
struct replay;

/* Borrows `texts`. NULL when out of memory. */
struct replay *replay_new(const struct texts *texts);
void replay_free(struct replay *replay);

/* Forgets the step before. */
void replay_begin(struct replay *replay, const struct replay_step *step);

/* One event in ns with what stands behind it: `more` is NULL or its first EVENT_MORE.
 * `thread` is who published it. In any order; what does not touch the step is passed over.
 * False when the step is too large or memory short: replay_run() then fails. */
bool replay_add(struct replay *replay, uint32_t thread, const struct event *event,
                const struct event *more);

/* -E2BIG, -ENOMEM, or -EINVAL: the step has no length, or nothing was recorded in it. */
MUST_CHECK int replay_run(struct replay *replay, struct replay_result *result);

/* "data", "op" ...; "data-hidden" ... */
const char *replay_kind_name(enum replay_kind kind);
const char *replay_what_if_name(enum replay_what_if what_if);

#endif
