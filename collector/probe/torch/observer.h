/* PyTorch's operators and named ranges, seen through its own RecordFunction observers.
 *
 *     USER scope ------ always ----------------> user ranges, step and phase marks
 *     FUNCTION, BACKWARD -- recorded steps ----> one EVENT_CPU_OP per operator
 *
 * Whether they are recorded is switched at step boundaries alone, by taking the
 * callbacks out of torch's lists: a step without them costs what it costs without us.
 * Callbacks are added once and never removed: torch may be inside one at any time.
 */
#ifndef PROBE_TORCH_OBSERVER_H
#define PROBE_TORCH_OBSERVER_H

#include <stdint.h>

#include "wire/attributes.h"

/* RecordScope::NUM_SCOPES of every torch whose callback has the layout we know. */
#define TORCH_SCOPES 10u

/* Finds torch's functions and registers the observer of named ranges. `scopes`: what
 * torch says how many record scopes it has. Between this and
 * torch_observer_confirm() exactly one range called TORCH_SELF_TEST must be opened and
 * closed by the calling thread. Once per process, at attach; takes the loader's lock.
 * 0, or negative errno with a sentence in *reason (static). */
#define TORCH_SELF_TEST "trainglass self-test"
MUST_CHECK int torch_observer_open(uint32_t scopes, const char **reason);

/* Checks what the self-test showed; then operators are recorded when a step is.
 * Errors as above; the observer then stays silent for ever. */
MUST_CHECK int torch_observer_confirm(const char **reason);

/* Operators are recorded (or not) from now on: at a step boundary, any thread. */
void torch_observer_record(uint32_t recording);

/* Somebody else sees these by better means: the observer sends no marks for them. */
enum torch_observer_marks {
    TORCH_MARKS_FETCH = 1, /* while torch_observer_fetching(1) of the same thread */
};
void torch_observer_fetching(int begins);

/* The optimizer whose step() the calling thread is in, as a number; 0 unknown. Told
 * from inside the step, by whoever knows the instance. */
void torch_observer_optimizer(uint32_t id);

#endif
