/* Pauses: single steps that take many times as long as the others, too seldom to be a
 * period within a window. Looked for in all steps that are remembered, where the window
 * reaches to the newest of a running job; else in the window. */
#ifndef QUERY_PAUSES_H
#define QUERY_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

#include "query/pick.h"

#define PAUSES_MAX 64u /* the newest are looked at; more are not seldom */

struct pauses {
    const struct step *steps[PAUSES_MAX]; /* of one distance, newest first; the store's */
    uint32_t places[PAUSES_MAX]; /* of them: steps before the newest step */
    uint32_t count;
    uint32_t gap; /* steps from one to the next, where none is missing */
    bool rough;   /* their distance is one of time, so `gap` is a mean */
};

/* How much longer than the median a step is, without collections. */
double pauses_extra_ns(const struct step *step, double median_ns);

/* `median_ns` of the window's steps. False: none that come at one distance. */
bool pauses_find(const struct pick *pick, double median_ns, struct pauses *pauses);

#endif
