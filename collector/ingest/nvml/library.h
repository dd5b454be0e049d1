/* libnvidia-ml.so.1 of the driver, by dlopen: functions that this driver lacks are NULL. */
#ifndef INGEST_NVML_LIBRARY_H
#define INGEST_NVML_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "ingest/nvml/abi.h"
#include "wire/attributes.h"

struct nvml_library {
    bool open;
    /* Always there. */
    int (*init)(void);
    int (*count)(uint32_t *count);
    int (*handle)(uint32_t index, struct nvml_device **device);
    /* NULL where absent. */
    int (*shutdown)(void);
    int (*driver_version)(char *text, uint32_t bytes);
    int (*name)(struct nvml_device *, char *text, uint32_t bytes);
    int (*uuid)(struct nvml_device *, char *text, uint32_t bytes);
    int (*pci)(struct nvml_device *, struct nvml_pci *pci);
    int (*mig_mode)(struct nvml_device *, uint32_t *current, uint32_t *pending);
    int (*instances)(struct nvml_device *, uint32_t *most);
    int (*instance)(struct nvml_device *, uint32_t index,
                    struct nvml_device **instance);
    int (*utilization)(struct nvml_device *, struct nvml_utilization *percent);
    int (*memory)(struct nvml_device *, struct nvml_memory *bytes);
    int (*processes)(struct nvml_device *, uint32_t *count, void *processes);
    int (*power_mw)(struct nvml_device *, uint32_t *power);
    int (*power_limit_mw)(struct nvml_device *, uint32_t *power);
    int (*energy_mj)(struct nvml_device *, uint64_t *energy);
    int (*clock_mhz)(struct nvml_device *, int type, uint32_t *clock);
    int (*max_clock_mhz)(struct nvml_device *, int type, uint32_t *clock);
    int (*slowed)(struct nvml_device *, uint64_t *reasons);
    int (*temperature)(struct nvml_device *, int sensor, uint32_t *celsius);
    int (*pcie_kb_per_s)(struct nvml_device *, int counter, uint32_t *rate);
    int (*pcie_generation)(struct nvml_device *, uint32_t *generation);
    int (*pcie_width)(struct nvml_device *, uint32_t *lanes);
    int (*fields)(struct nvml_device *, int count, struct nvml_field *fields);
    int (*ecc)(struct nvml_device *, int error, int counter, uint64_t *count);
    int (*events_new)(struct nvml_events **events);
    int (*events_register)(struct nvml_device *, uint64_t types, struct nvml_events *);
    int (*events_wait)(struct nvml_events *, struct nvml_event *event, uint32_t ms);
};

/* Loads and initialises it: 0, or -ENOENT or -ENODEV and a sentence. The library stays
 * loaded for ever. */
MUST_CHECK int nvml_library_open(struct nvml_library *library, char *reason,
                                 size_t bytes);

/* Is there anything of an NVIDIA driver on this machine or in this container? */
bool nvml_driver_is_here(void);

/* Ends NVML's session; open again to go on. */
void nvml_library_close(struct nvml_library *library);

#endif
