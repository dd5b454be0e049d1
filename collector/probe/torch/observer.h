/* PyTorch's operators and named ranges, seen through its own RecordFunction observers.
 *
 *     FUNCTION, BACKWARD -- recorded steps ----> one EVENT_CPU_OP per operator
 *     USER scope ---------- recorded steps ----> user ranges
 *
 * The callbacks exist in recorded steps alone: added and removed at step boundaries. While
 * one is registered, also a disabled one, each node of every backward copies torch's list
 * of callbacks (0.3 us). Adding and removing take torch's mutex and leave what runs the
 * functions that it began with, so that they are called to its end. A thread whose
 * operator reaches the detail limit removes them itself, under that mutex.
 */
#ifndef PROBE_TORCH_OBSERVER_H
#define PROBE_TORCH_OBSERVER_H

#include <stdint.h>

#include "wire/attributes.h"

/* RecordScope::NUM_SCOPES of every torch whose callback has the layout we know. */
#define TORCH_SCOPES 10u

/* Finds torch's functions and registers an observer of named ranges for a self-test. `scopes`: what
 * torch says how many record scopes it has. Between this and
 * torch_observer_confirm() exactly one range called TORCH_SELF_TEST must be opened and
 * closed by the calling thread. Once per process, at attach; takes the loader's lock.
 * 0, or negative errno with a sentence in *reason (static). */
#define TORCH_SELF_TEST "trainglass self-test"
MUST_CHECK int torch_observer_open(uint32_t scopes, const char **reason);

/* Checks what the self-test showed; then operators and ranges are recorded when a step is.
 * Errors as above; the observer then stays silent for ever. */
MUST_CHECK int torch_observer_confirm(const char **reason);

/* Operators and ranges are recorded (or not) from now on: at a step boundary, any thread. */
void torch_observer_record(uint32_t recording);

#endif
