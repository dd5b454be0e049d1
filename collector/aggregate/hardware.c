#include "aggregate/hardware.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hardware_free(struct hardware *hardware)
{
    for (uint32_t i = 0; i < hardware->ring_count; i++)
        free(hardware->points[i]);
    *hardware = (struct hardware){0};
}

bool hardware_same_place(const struct hardware_place *a, const struct hardware_place *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* The ring of a device; HARDWARE_DEVICES when it has none. */
static uint32_t ring_of(const struct hardware *hardware,
                        const struct hardware_device *device)
{
    for (uint32_t i = 0; i < hardware->ring_count; i++)
        if (hardware_same_place(&hardware->places[i], &device->place))
            return i;
    return HARDWARE_DEVICES;
}

static uint32_t ring_new(struct hardware *hardware,
                         const struct hardware_device *device)
{
    uint32_t at = hardware->ring_count;

    if (at == HARDWARE_DEVICES)
        return at;
    hardware->points[at] = calloc(HARDWARE_POINTS, sizeof(struct hardware_sample));
    if (hardware->points[at] == NULL)
        return HARDWARE_DEVICES;
    hardware->places[at] = device->place;
    hardware->counts[at] = 0;
    hardware->idle_w[at] = NAN;
    return hardware->ring_count++;
}

static void keep(struct hardware *hardware, uint32_t ring,
                 const struct hardware_sample *sample)
{
    hardware->points[ring][hardware->counts[ring]++ % HARDWARE_POINTS] = *sample;
    if (sample->busy_share <= 0) /* NaN is not */
        hardware->idle_w[ring] = fminf(hardware->idle_w[ring], sample->power_w);
}

void hardware_take(struct hardware *hardware, const struct hardware_reading *reading)
{
    hardware->now = *reading;
    for (uint32_t i = 0; i < reading->device_count; i++) {
        const struct hardware_device *device = &reading->devices[i];
        uint32_t ring = ring_of(hardware, device);

        if (device->reason[0] != '\0')
            continue;
        if (ring == HARDWARE_DEVICES)
            ring = ring_new(hardware, device);
        if (ring < HARDWARE_DEVICES)
            keep(hardware, ring, &device->sample);
    }
}

void hardware_silent(struct hardware *hardware, const char *reason)
{
    hardware->now.state = WIRE_STATE_UNAVAILABLE;
    (void)snprintf(hardware->now.reason, sizeof(hardware->now.reason), "%s", reason);
}

double hardware_idle_w(const struct hardware *hardware,
                       const struct hardware_device *device)
{
    uint32_t ring = ring_of(hardware, device);

    return ring < HARDWARE_DEVICES ? (double)hardware->idle_w[ring] : (double)NAN;
}

uint32_t hardware_points(const struct hardware *hardware,
                         const struct hardware_device *device)
{
    uint32_t ring = ring_of(hardware, device);

    if (ring == HARDWARE_DEVICES)
        return 0;
    return hardware->counts[ring] < HARDWARE_POINTS ? (uint32_t)hardware->counts[ring]
                                                    : HARDWARE_POINTS;
}

const struct hardware_sample *hardware_point(const struct hardware *hardware,
                                             const struct hardware_device *device,
                                             uint32_t i)
{
    uint32_t ring = ring_of(hardware, device);
    uint64_t oldest = hardware->counts[ring] - hardware_points(hardware, device);

    return &hardware->points[ring][(oldest + i) % HARDWARE_POINTS];
}
