/* One device's memory, what stays allocated between steps, and where it leads:
 * memory_query's own.
 *
 * The trend of a whole window says so where memory grows all the time. What began lately
 * is seen in the newest seconds of a job that runs: where they hold only steps of
 * training, rise by themselves, and end higher than all of the window before. So what an
 * epoch or a validation gathers and gives back is told once at most.
 */
#ifndef QUERY_MEMORY_INSIDE_H
#define QUERY_MEMORY_INSIDE_H

#include "query/memory_query.h"
#include "query/pick.h"

#define ENVELOPE_PARTS 24u

/* The lowest value of each part of a time, from the first part on that has one. */
struct envelope {
    double times[ENVELOPE_PARTS], lows[ENVELOPE_PARTS];
    uint32_t count;
    int64_t from_ns, to_ns;
};

struct memory_envelopes {
    bool resident;         /* pages of a process, not what an allocator says */
    int64_t settled_ns;    /* until then it touches them for the first time */
    struct envelope whole; /* the window, or what is known of it */
    struct envelope
        newest;    /* its last seconds; without a width where they say nothing */
    double before; /* the highest value until then */
};

/* Of a process's pages nothing is told before the end of its first step: until then it
 * loads libraries and data, and makes its model. */
void memory_envelopes_open(struct memory_envelopes *envelopes, const struct pick *pick,
                           int64_t from_ns, int64_t to_ns, bool resident);

/* In the order of time; what lies before the envelopes is passed over. */
void memory_envelopes_add(struct memory_envelopes *envelopes, int64_t time_ns,
                          double value);

/* `left` bytes are free; NaN unknown. */
struct memory_growth memory_envelopes_growth(const struct memory_envelopes *envelopes,
                                             double left);

/* All of `device` in the window that was picked, with at most so many points. */
MUST_CHECK int memory_fill_device(const struct pick *pick,
                                  const struct memory_table *table, uint32_t points,
                                  struct memory_device *device);

#endif
