/* GPU work through CUPTI's activity API: a thread of our own that does everything.
 *
 *     CUDA's cuInit ──▶ cupti_start ──▶ thread: driver, libcupti, kinds on and off,
 *                                         flush ──▶ buffers ──▶ records ──▶ events
 *     step boundary ──▶ a word and a wake-up ──▶ ▲
 *     torch.profiler ──▶ cupti_yield ────────────┘
 *
 * The one rule: no function of CUPTI's runs on a thread of the application. It may take
 * locks, and it may never return: then our thread is gone and the job is not. What is
 * on and what is not, and why, is the capability WIRE_SOURCE_CUPTI.
 *
 * No subscription is held and no clock is registered, for both would be torch's loss.
 */
#ifndef PROBE_CUPTI_SESSION_H
#define PROBE_CUPTI_SESSION_H

#include <stdbool.h>

/* The driver is being initialised: starts the thread, once a process; in a forked child
 * too, where CUDA was not up before. Any thread; returns at once. */
void cupti_start(void);

/* The same where the driver may have been initialised before us, or will be without
 * telling: nothing on a machine without one. */
void cupti_attach(void);

/* Another profiler of this process begins (true) or has ended. Counted: they may
 * overlap. At the first one waits until CUPTI is let go, a third of a second at most, and
 * 2.3 s more while we register for its buffers; the caller is about to start a profiler,
 * not to train. Any thread. */
void cupti_yield(bool begins);
/* Likewise one that begins and never says that it has ended. */
void cupti_yield_for_good(void);

/* While CUDA is alive: what is in its buffers is told, at most half a second long; then
 * no call of ours is in CUPTI any more. Twice is fine; at exit it comes by itself. */
void cupti_leave(void);

/* The thread: host.c starts it. Not NULL: CUDA graphs as a whole are wanted. */
void *session_run(void *whole_graphs);

#endif
