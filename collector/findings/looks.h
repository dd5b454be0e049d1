/* What looks at the training thread between its ops say (query/bottlenecks_query.h), put
 * together for the rules. All times are ns per step. */
#ifndef FINDINGS_LOOKS_H
#define FINDINGS_LOOKS_H

#include "findings/rules.h"

/* A look sees no phase before forward has begun, and in loops without a loader none in it.
 * How much of what was seen in no phase lies there: all that other gaps cannot hold. */
double looks_forward_unknown(const struct rule_context *context, double share);

/* Of forward; its error is that of the larger of both. */
struct between_ops_share looks_in_forward(const struct rule_context *context,
                                          const struct between_ops_share *forward,
                                          const struct between_ops_share *nowhere);

/* The waits of the training thread for the interpreter's lock, by phase; EVENT_PHASES:
 * in none. All 0 where what was seen is no such wait, and beside a device. */
struct looks_lock {
    double ns[EVENT_PHASES + 1];
    double sum_ns, error_ns; /* half of the 95 % interval of the sum */
};

/* A thread that waits for another's result does so at one place of its step; for the lock
 * it waits wherever it comes back from an op: in two phases at least. */
struct looks_lock looks_lock(const struct rule_context *context);

/* What the kernel's own function says of a wait: what it is ("" where that does not tell),
 * and what to look for. */
struct looks_wait {
    const char *place, *what, *advice;
};

const struct looks_wait *looks_wait(const char *place);

/* The collective or message of torch.distributed that takes most of the steps, where ranks
 * exchange more than DDP does in backward; NULL none. Its call returns at once, and a thread
 * that waits for it (Work.wait()) sleeps with no op open. */
const struct op_row *looks_exchange(const struct rule_context *context);

#endif
