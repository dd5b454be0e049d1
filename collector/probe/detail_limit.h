/* How much of one step is recorded in detail. A step is recorded whole or not at all, but
 * one that never ends (a loop whose steps nobody can tell, an evaluation of an hour) would
 * be recorded without end: beyond an allowance the cost of its operators must fit the
 * budget, as a share of the time since it began, else the rest of it is not recorded. */
#ifndef PROBE_DETAIL_LIMIT_H
#define PROBE_DETAIL_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/thread.h"
#include "wire/attributes.h"

/* At a boundary: the step that begins records this. */
void detail_limit_begin(uint32_t recording);

/* Was the limit reached in the step that ends? Its detail is not whole then. */
bool detail_limit_was_reached(void);

NEVER_INLINE bool detail_limit_check(void);

/* Any thread, before an operator: true once a step, when its operators are not recorded
 * any more. A look at the clock in 4,096 operators. */
ALWAYS_INLINE bool detail_limit_reached(const struct probe_thread *self)
{
    uint64_t ops =
        atomic_load_explicit(&self->counts[EVENT_CPU_OP], memory_order_relaxed);

    return UNLIKELY((ops & 4095) == 4095) && detail_limit_check();
}

#endif
