/* How long training waits for data, and how much of that faster loading would end. */
#ifndef FINDINGS_LOADING_WAIT_H
#define FINDINGS_LOADING_WAIT_H

#include "findings/rules.h"

/* More loader processes than that seldom help, and each costs memory. */
#define LOADING_WORKERS_MAX 16.0

struct loading_wait {
    /* ns per step */
    double waited_ns;      /* in all */
    double avoidable_ns;   /* of it, what faster loading would end */
    double compute_ns;     /* the step but for the wait */
    double remaining_ns;   /* of what is avoidable, with as many workers as wanted */
    double taking_over_ns; /* what taking batches over costs; 0: the job tells itself */
    double workers, workers_wanted;
};

struct loading_wait loading_wait(const struct rule_context *context);

/* A trace file says that there are workers, but not how many. */
bool loading_is_uncounted(const struct rule_context *context);

/* All workers together use most of the cores beside the trainer. */
bool loading_takes_all_cores(const struct rule_context *context);

/* Its workers wait for a disk or a network. Of a loader that has some: others idle beside a
 * trainer that loads by itself. */
bool loading_waits_for_storage(const struct rule_context *context);

/* How many workers the machine has cores for, beside the trainer, which may be none; those
 * that wait for their storage need none of their own. */
double loading_workers_possible(const struct rule_context *context);

/* What it costs the training thread to take batches over from workers, ns per step: nothing
 * where the thread that pins does it, as advised beside a device, or where a thread of a native
 * program hands over a pointer. */
double loading_taking_over_ns(const struct rule_context *context);

/* While the host waits, a device still works off what is queued: no more can be won than
 * it idles for data. */
double loading_most_to_win(const struct rule_context *context, double savings_ns);

/* How much of the wait for data loading faster would end, ns per step: beside a device no
 * more than that idles for it. */
double rule_loading_ns(const struct rule_context *context);

/* All of data, where the trainer loads by itself: ops in it make and join samples. Else 0. */
double rule_own_loading_ns(const struct rule_context *context);

#endif
