/* Samples of a device in a window, and what it took in them; a part of hardware_query.c. */
#ifndef QUERY_HARDWARE_STRETCH_H
#define QUERY_HARDWARE_STRETCH_H

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

/* On the session's axis. */
int64_t stretch_ns(const struct stretch *stretch, uint32_t i);

/* energy_j to samples_per_joule of the row, over the time in which energy is told. After
 * whose_devices(). */
void stretch_sum_energy(const struct stretch *stretch, const struct pick *pick,
                        struct hardware_row *row);

#endif
