/* The probe's inside: what its sources (PyTorch, NVTX, the C verbs, CUPTI) build on.
 *
 *     source --> probe_range_begin/end, probe_event --> ring of the calling thread
 *            --> probe_step_mark --> steps.h --> step and phase events, boundary hooks
 *            --> probe_fact_*, probe_capability --> the page's "what is seen, why not"
 *
 * The one rule: we are a guest. Every call may be made at any time, before
 * probe_start(), after a failed one, in a forked child, in a signal handler: it then
 * does nothing, or counts. Nothing here waits, prints, exits or needs the GIL.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/steps/steps.h"
#include "probe/thread.h"
#include "wire/control.h"
#include "wire/segment.h"

/* Opens this process's segment, once; later calls are cheap and change nothing. Any
 * thread; a thread that comes while another starts gets -EAGAIN and goes on quietly.
 * `role`: enum wire_role; 0 decides by itself (a forked child is a worker).
 * Returns 0, or negative errno with probe_reason(). Allocates, makes system calls. */
int probe_start(uint32_t role);

/* One sentence why there is no segment; "" when there is one. Static. */
const char *probe_reason(void);

/* Is there a segment to write to? False in a forked child until it opens its own. */
bool probe_is_open(void);

/* Session id and path of the segment; "" without one. Static, for the process's life.
 */
const char *probe_session(void);
const char *probe_path(void);

/* A launcher begins to train, or the like: shown from now on. */
void probe_role(uint32_t role);

/* Which of how many the process is, where its environment did not say so when it
 * began; below 0: not known, as it was. */
void probe_rank(int32_t rank, int32_t local_rank, int32_t world_size);

/* Whose child the next segment's process is, where that is not who forked it: a fork
 * server's children are their trainer's. 0: who forked it. */
void probe_parent(uint32_t pid);

/* Says good-bye: the process ends on its own accord. `code` below 0: not known. */
void probe_end(int code);

/* Now, in raw ticks of the segment; 0 without one. Any thread. */
uint64_t probe_ticks(void);
/* Raw ticks in a microsecond, about; for thresholds, not for results. */
uint64_t probe_ticks_per_us(void);

/* ---- names ------------------------------------------------------------------- */

/* Id of a NUL-terminated text, added if it is new; 0 when empty or the table is full.
 */
uint32_t probe_name(const char *text);
uint32_t probe_name_bytes(const char *bytes, size_t length);
/* probe_name_cached() of thread.h: the same through the thread's cache. */

/* ---- events ------------------------------------------------------------------ */

/* Ranges of the calling thread; `owner` = PROBE_RANGE_OWNER(meta) of what was opened.
 * Ends match their begins per owner, so sources need not nest in each other. */
void probe_range_begin(uint64_t meta);
void probe_range_end(uint16_t owner, uint64_t aux);

/* Whole events of the calling thread; several are one head and its EVENT_MOREs. */
void probe_event(struct event event);
void probe_events(const struct event *events, uint32_t count);

/* An instant now. */
void probe_instant(uint64_t meta, uint64_t value, uint64_t aux);

/* Names the calling thread on the page (its system name is taken by itself). */
void probe_thread_name(const char *name);

/* Events of one kind that this process wrote so far, all threads; ranges without those of
 * NVTX. Racy by a few. */
uint64_t probe_events_written(enum event_kind kind);

/* ---- what the running step records --------------------------------------------- */

/* EVENT_STEP_OPS, EVENT_STEP_KERNELS, EVENT_STEP_TAGGED, EVENT_STEP_CONTROL, RECORDING_*
 * of the running step; 0 without a segment and in a forked child. Changes only at step
 * boundaries, on the training thread. The first load of every op callback. */
ALWAYS_INLINE uint32_t probe_recording(void);

/* ---- steps --------------------------------------------------------------------- */

/* Asks for another level (enum wire_level), budget (parts per million of the training's
 * time) or a burst of steps to be recorded in full, from the next step on; below 0, or
 * no steps: as it is. Any thread; several requests before a boundary add up. */
void probe_ask(int32_t level, int32_t budget_ppm, uint32_t burst_steps);

/* A mark of the training thread, now. The thread of the first backward, update or
 * step() is it; marks of other threads are ignored until it falls silent. */
void probe_step_mark(enum steps_mark_kind kind, uint32_t id);

/* Raw ticks of the newest STEPS_OPTIMIZER_END. Relaxed: only its own thread compares. */
extern _Atomic uint64_t probe_update_ended __attribute__((visibility("hidden")));

/* The graph that the training thread builds. Written by it alone. */
struct probe_graph {
    const void *_Atomic thread; /* &probe_current of the training thread */
    uint32_t nodes;             /* since the last backward */
    bool awaited;               /* the next node is STEPS_GRAPH_BEGIN */
    bool needed;                /* nodes and backwards tell what a step is */
};
extern struct probe_graph probe_graph __attribute__((visibility("hidden")));

/* Is the caller the training thread? Relaxed: it asks only for itself. */
ALWAYS_INLINE bool probe_graph_is_ours(void)
{
    return atomic_load_explicit(&probe_graph.thread, memory_order_relaxed) ==
           (const void *)&probe_current;
}

/* Number of the running step. Any thread; 0 without a segment. */
uint64_t probe_step_number(void);

/* What hooks learn about a step or validation batch that ended. */
struct probe_step {
    uint64_t number; /* STEPS_NO_NUMBER: a validation batch */
    uint64_t start, end;
    uint8_t flags;      /* EVENT_STEP_*, as in its event */
    uint32_t recording; /* probe_recording() while it ran */
};

/* All run on the training thread, inside the mark that ended the step; they may write
 * events, must not wait, and cost is on the training. NULL members are skipped. */
struct probe_hooks {
    /* Before the step's event is written: totals of memory go here. */
    void (*step_ending)(const struct probe_step *step);
    /* After a boundary whose probe_recording() differs from before. */
    void (*recording_changed)(uint32_t recording);
    /* probe_graph.needed has changed. */
    void (*graph_needed)(void);
    /* A request was read; obeyed parts (level, budget) are done by the core. */
    void (*requested)(const struct control *control);
};

/* In step_ending: this step was not recorded whole for these of its EVENT_STEP_* flags,
 * whatever was decided. They are taken out of its event. */
void probe_step_missed(uint32_t flags);

/* `hooks` lives for ever. At most 8; false beyond. Any thread, at attach. */
bool probe_hooks_add(const struct probe_hooks *hooks);

/* ---- facts and capabilities ------------------------------------------------------ */

/* Facts of the job; a key keeps its slot. No-op when the table is full. */
void probe_fact_text(const char *key, const char *value);
void probe_fact_number(const char *key, int64_t value);
void probe_fact_real(const char *key, double value);
void probe_fact_bool(const char *key, bool value);

/* `reason` and `detail` may be NULL: they keep what was said before, but what is active
 * has no reason any more. */
void probe_capability(enum wire_source source, enum wire_source_state state,
                      const char *reason, const char *detail);
bool probe_capability_is(enum wire_source source, enum wire_source_state state);
void probe_capability_events(enum wire_source source, uint64_t events,
                             uint64_t last_ticks);
void probe_capability_lost(enum wire_source source, uint64_t more);

/* ---- the core's own state ---------------------------------------------------------
 */

/* Private memory that a forked child finds zeroed (MADV_WIPEONFORK). */
struct probe_private {
    _Atomic uint32_t open; /* 1: all below holds. Release; pairs with acquire loads */
    _Atomic uint32_t recording;
    bool tsc;
    uint32_t pid;
    uint32_t thread_count;
    _Atomic uint32_t threads_used; /* slots that were ever claimed: all below this */
    _Atomic uint64_t pool_used;    /* offset in the segment of the next ring */
    uint64_t main_ring_offset;     /* set aside for the main thread */
    uint64_t main_ring_capacity;
    uint64_t ticks_per_us;
    unsigned char *base; /* the segment, writable */
    struct wire_header *header;
    struct wire_fact *facts;
    struct wire_capability *sources;
    struct thread_slot *slots;
    struct names names;
    struct wire_layout layout;
    _Atomic uint32_t *name_index;
    struct probe_thread *threads; /* [thread_count] */
};

/* Never NULL; a closed one before the start. */
extern struct probe_private *probe __attribute__((visibility("hidden")));

ALWAYS_INLINE uint32_t probe_recording(void)
{
    return atomic_load_explicit(&probe->recording, memory_order_relaxed);
}

#endif
