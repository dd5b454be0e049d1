/* Which steps show best what is told of a window: its longest, as far as a trace of them can
 * still be had. */
#ifndef QUERY_SHOWN_STEPS_H
#define QUERY_SHOWN_STEPS_H

#include <stdint.h>

/* Numbers of steps; NOT_KNOWN: none. */
struct shown_steps {
    int64_t first;    /* events of earlier ones are forgotten, or soon will be */
    int64_t longest;  /* of all */
    int64_t recorded; /* of those recorded as fully as any of them */
    int64_t waited;   /* for data */
};

#endif
