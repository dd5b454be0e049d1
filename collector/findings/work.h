/* What a step gains where the device of the rank has less to do.
 *
 * Steps that were replayed (query/replay_query.h) tell it: of work that they wait for all,
 * beside a host that is slower nothing. Where none was, or too few; where nothing is seen to
 * wait for a device that hardly rests, or that the host is far ahead of: there the device's
 * busy share stands for it. So it does for fewer kernels, where it is more, beside a device
 * that is busy for half of a step: a replay knows nothing of their launches, which go with
 * them.
 *
 * What steps gain too little by now is a risk beside such a device: it costs its time as soon
 * as what else they wait for is faster. All times are ns per step.
 */
#ifndef FINDINGS_WORK_H
#define FINDINGS_WORK_H

#include <stdbool.h>

#include "findings/rules.h"

/* For the rules' formulas. */
#define WAITED_ELSE_BUSY "share that steps wait for; not known: that it is busy"
#define WAITED_AT_LEAST_BUSY                                                           \
    "share that steps wait for, where it is busy for half of them at least that"
#define WAITED_ELSE_ALL "share that steps wait for; not known: all"

/* What it would do less of, and at least, and at most. Of copies and communication time for
 * which it does nothing else. */
struct work {
    double ns, low_ns, high_ns;
    enum gpu_use use;
    bool fewer; /* kernels, not faster ones */
};

/* Half of what takes so long, for want of knowing better: from a quarter to three quarters. */
static inline struct work work_half(double whole_ns)
{
    return (struct work){
        .ns = whole_ns / 2, .low_ns = whole_ns / 4, .high_ns = whole_ns * 3 / 4};
}

/* A finding of that with its price, its claim and the share that steps gain in the evidence,
 * or a risk. NULL below the threshold, which a risk reaches by what it would cost. */
struct finding *work_find(struct rule_context *context, const char *subject,
                          const char *colour, const struct work *work);

/* Its formula; `what` is the one of work->ns, "20 ms of such kernels / 2". */
const char *work_formula(struct rule_context *context, const struct finding *finding,
                         const char *what, const struct work *work);

/* All of it for kernels of one family, half of whose time can be saved, by `fewer` of them
 * or by faster ones. */
struct finding *work_find_family(struct rule_context *context,
                                 enum kernel_family family, bool fewer);

/* How long the rank's device does nothing but copy, or communicate, and what part of that
 * steps wait for; all of it where no replayed step tells. 0 and 1 without a device. */
struct work_alone {
    double ns, share;
    bool replayed;
};

struct work_alone work_alone(const struct rule_context *context, enum gpu_use use);

/* For a formula behind that time: " * 30 % that replayed steps wait for"; "" where none
 * tells. In the evidence as well. */
const char *work_alone_share(struct rule_context *context, struct finding *finding,
                             const struct work_alone *alone);

#endif
