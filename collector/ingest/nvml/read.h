/* One look at all devices through NVML, and what must be remembered between two. */
#ifndef INGEST_NVML_READ_H
#define INGEST_NVML_READ_H

#include "aggregate/hardware.h"
#include "ingest/nvml/library.h"

struct nvml_reader {
    struct nvml_library nvml;
    int64_t retry_ns; /* not opened before */
    /* Looks in a row in which no device told anything: a driver that was loaded again, and
     * a GPU that was reset, answer only to a session that was opened since. */
    uint32_t failed_looks;
    struct hardware_reading before; /* the last of the session before this one */
    struct nvml_device *handles[HARDWARE_DEVICES];
    struct nvml_events *events;               /* NULL: Xids are not told */
    uint64_t link_bytes[HARDWARE_DEVICES][2]; /* NVLink's counters: sent, received */
    int64_t link_ns[HARDWARE_DEVICES][2];     /* when; 0 never */
};

/* Fills `reading`, whose last content is what the look before it left there. May last
 * for ever: the driver is asked. */
void nvml_read(struct nvml_reader *reader, struct hardware_reading *reading);

#endif
