/* What the files behind hardware_query.c share: the samples of a device in a window, which GPUs
 * of the machine are the process's, and who holds their memory. */
#ifndef QUERY_HARDWARE_INSIDE_H
#define QUERY_HARDWARE_INSIDE_H

#include "query/hardware_query.h"
#include "query/pick.h"

struct stretch {
    const struct hardware *hardware;
    const struct hardware_device *device;
    uint32_t first, last; /* points of the window: [first, last) */
    int64_t zero_ns;      /* of the session */
};

struct stretch stretch_of_window(const struct pick *pick,
                                 const struct hardware_device *device);

/* One of its samples, and that one's time on the session's axis. */
const struct hardware_sample *stretch_at(const struct stretch *stretch, uint32_t i);
int64_t stretch_ns(const struct stretch *stretch, uint32_t i);

/* energy_j to samples_per_joule of the row, over the time in which energy is told. After
 * whose_devices(). */
void stretch_sum_energy(const struct stretch *stretch, const struct pick *pick,
                        struct hardware_row *row);

/* device, works and works_known of all rows. A job sees more devices than it works on:
 * what was recorded tells which. Where nothing was, of several nobody knows. */
void whose_devices(const struct pick *pick, struct hardware_answer *answer);

/* job_bytes, other_bytes and processes_reason of all rows; after whose_devices(). A device
 * that lists none of our processes is all others' where another one lists some. */
void whose_memory(const struct pick *pick, struct hardware_answer *answer);

/* Bytes of the process's device that it cannot have, of which it holds `own_bytes`: other
 * processes', the driver's, its own outside of the allocator. NaN: nobody knows now. */
double whose_else(const struct pick *pick, const char *device, double own_bytes);

#endif
