/* Deep windows: a request of the control file on its way to Python, which alone can run
 * torch.profiler, and what of it the steps show.
 *
 *     read_control() ──▶ window_request() ──▶ window_boundary() ──▶ schedule(call)
 *     Python, on the training thread: window_word(), window_state()
 *
 * The one rule: nothing of this runs between two boundaries, and none of it outside of a
 * window. schedule() is Py_AddPendingCall or what the extension has in its place: it
 * needs no GIL and waits for nothing but its own short lock.
 */
#ifndef PROBE_WINDOW_H
#define PROBE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/probe.h"
#include "wire/control.h"

/* What window_word() tells. */
enum window_word {
    WINDOW_ID, /* of the newest request; 0 none */
    WINDOW_STEPS,
    WINDOW_SECONDS,
    WINDOW_FLAGS, /* enum control_window_flags */
    WINDOW_BYTES,
    WINDOW_FIRST_STEP,
    WINDOW_UNTIL_UNIX_MS,
    WINDOW_RUNNING_STEP, /* number of the step that runs since the last boundary */
    WINDOW_VALIDATION,   /* 1: what ended there was a validation batch */
    WINDOW_THREAD,       /* tid of the thread whose boundary it was */
    WINDOW_WORDS,
};

enum window_state {
    WINDOW_WATCH = 1, /* call at every boundary, not only when there is a request */
    WINDOW_FLAG = 2,  /* steps that end from now on are EVENT_STEP_WINDOW */
    WINDOW_OURS = 4, /* torch.profiler's step() is called by a window, not by the job */
};

/* at(what, NULL) is to be called at boundaries; NULL: nobody listens. */
void window_listen(int (*at)(int (*call)(void *), void *), int (*what)(void *));

uint64_t window_word(uint32_t which); /* 0 beyond WINDOW_WORDS */
void window_state(uint32_t wanted);   /* any thread */

/* boundary.c, on the training thread. */
void window_open(void); /* a new segment: nothing was asked */
void window_request(const struct control *control);
bool window_is_ours(void);
uint8_t window_flag(void); /* EVENT_STEP_WINDOW or 0, of the step that ends */
void window_boundary(const struct probe_step *ended, uint64_t running_step);

#endif
