/* What the thread of session.h knows, between its files: recording.c turns CUPTI's kinds on and
 * off, collecting.c takes what comes back, session.c says whose turn it is. All of it is that
 * thread's alone but for what is atomic. */
#ifndef PROBE_CUPTI_SESSION_INSIDE_H
#define PROBE_CUPTI_SESSION_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/cupti/drain.h"
#include "probe/cupti/library.h"
#include "probe/cupti/stamps.h"
#include "wire/segment.h"

#define RETRY_NS UINT64_C(60000000000) /* a window of another tool is shorter */

struct session {
    /* Ticks since when all of it is recorded; 0. Relaxed: the training thread compares it. */
    _Atomic uint64_t on_since;
    struct cupti_library cupti;
    struct drain drain;
    enum wire_source_state state;
    const char *why; /* it is so, as the page has it but for what hangs or fails */
    char detail[256];
    enum stamps_clock detail_clock;
    const char *graphs, *detail_graphs; /* what the detail says of them */
    bool wants_graphs;                  /* as a whole */
    bool on, graphs_on, suspicious, worked;
    /* When the last buffer came, or its kinds were turned on. Up to alive_ticks CUPTI was
     * ours: that is when the flush began which brought it. */
    uint64_t alive_ns, alive_ticks, alive_buffers, alive_steps, flush_ticks;
    uint64_t begun_ns;   /* when a step was first seen to be over; 0 */
    uint64_t on_buffers; /* had come when kinds were turned on */
    uint64_t off_ns, off_ticks, retry_ns, retry_wait_ns;
    uint64_t reclaim_ns;     /* 0: there is nothing to reclaim */
    uint64_t longest_gap_ns; /* without a buffer, though all was well */
    unsigned straggler_ms;
};

extern struct session session;

/* ---- recording.c ---- */

uint64_t session_now_ns(void);
/* Rests, whatever is wished meanwhile. */
void session_pause(unsigned ms);
/* The state that the page has, and why. */
void session_become(enum wire_source_state next, const char *reason);
/* Around each call of CUPTI, which may hang: `call` says what it was for. Static. */
void session_call_begins(const char *call);
void session_call_ends(void);
/* In the step that runs now nobody waited for work while a call hung. */
void session_recover(void);
/* Pairs our clock with CUPTI's. */
enum stamps_change session_take_stamp(void);
/* CUPTI was ours up to `ticks`, when so many steps had ended. */
void session_note_alive(uint64_t ticks, uint64_t steps);
/* Nothing has come since it last did: so far that may be a job without GPU work. */
bool session_is_silent(void);
/* Whose the kinds are that are on: perhaps they are another profiler's by now. */
bool session_is_unsure(void);
/* Names the clock and how graphs are recorded in the detail, where that changed. */
void session_say_clock(void);
/* Another clock is another profiler's, who has begun: true. What came before it says
 * nothing of now. */
bool session_look_at_clock(void);
/* Records CUDA graphs as a whole from now on, where that is wanted and safe. */
void session_whole_graphs_on(void);
void session_whole_graphs_off(void);
/* Also where another profiler has begun: his trace has the nodes. */
void session_whole_graphs_give_up(void);
/* Later each time. */
void session_retry_later(void);
/* Turns our kinds on; says so where CUPTI refuses. */
void session_switch_on(void);
/* Turns our kinds off; false: they are another profiler's by now, and on. */
bool session_switch_off(void);
/* That buffers are zeroed: of all that CUPTI is given, whoever gives them. */
void session_promise_zeroes(size_t zeroed);

/* ---- collecting.c ---- */

/* What has come back says that CUPTI was ours when it did, however long it is read. */
void session_look_for_life(void);
/* Has CUPTI give back what it holds; `flags`: 1 unfinished buffers too. */
void session_collect(uint32_t flags);
/* Reads what it gave back. */
void session_read_collected(void);
/* Both. */
void session_flush(uint32_t flags);
/* What was done since the last buffer came is lost. */
void session_lose_silence(void);
/* What is on may be his, and stays on; of what was done since the last buffer came
 * nothing will come. */
void session_keep_off(void);
/* Steps end and nothing comes: somebody has registered callbacks of his own. */
void session_watch(void);

#endif
