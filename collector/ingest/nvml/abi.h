/* The part of NVML's binary interface that is used here, declared anew: no header of
 * NVIDIA's is needed to build. Values, layouts and signatures as in nvml.h of CUDA 12.9
 * and 13.5, which agree in all of this; the functions' names are in library.c.
 *
 * The one rule: no call may be trusted to return. All are made on the thread of
 * ingest/nvml/nvml.c.
 */
#ifndef INGEST_NVML_ABI_H
#define INGEST_NVML_ABI_H

#include <stdint.h>

struct nvml_device; /* opaque: nvmlDevice_t is a pointer to it */
struct nvml_events; /* nvmlEventSet_t */

/* nvmlReturn_t */
enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_TOO_SMALL = 7, /* INSUFFICIENT_SIZE */
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_LOST = 15, /* GPU_IS_LOST */
    NVML_RESET_REQUIRED = 16,
    NVML_VERSIONS_DIFFER = 18, /* LIB_RM_VERSION_MISMATCH */
};

#define NVML_CLOCK_SM      1 /* nvmlClockType_t */
#define NVML_CLOCK_MEMORY  2
#define NVML_DIE           0 /* nvmlTemperatureSensors_t: NVML_TEMPERATURE_GPU */
#define NVML_PCIE_SENT     0 /* nvmlPcieUtilCounter_t: KB/s over 20 ms */
#define NVML_PCIE_RECEIVED 1
#define NVML_CORRECTED     0 /* nvmlMemoryErrorType_t */
#define NVML_UNCORRECTED   1
#define NVML_VOLATILE      0 /* nvmlEccCounterType_t: since the driver was loaded */
#define NVML_EVENT_XID     UINT64_C(8) /* nvmlEventTypeXidCriticalError */
#define NVML_ALL_LINKS     UINT32_MAX  /* scope of the two fields: sum over links */

/* NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_*: KiB since the driver was loaded */
#define NVML_FIELD_NVLINK_SENT     138u
#define NVML_FIELD_NVLINK_RECEIVED 139u

struct nvml_utilization { /* nvmlUtilization_t: percent */
    uint32_t gpu, memory;
};

struct nvml_memory { /* nvmlMemory_t: bytes */
    uint64_t total, free, used;
};

struct nvml_pci { /* nvmlPciInfo_t */
    char legacy_id[16];
    uint32_t domain, bus, device, id, subsystem_id;
    char bus_id[32];
};

/* nvmlProcessInfo_v2_t. Drivers 535.43 to 535.86 wrote longer ones through the _v3
 * function: the _v2 function is asked first, and room is left for the longer ones. */
struct nvml_process {
    uint32_t pid;
    uint64_t bytes; /* UINT64_MAX: not told */
    uint32_t gpu_instance, compute_instance;
};
#define NVML_PROCESS_LONGEST 32u

union nvml_value {
    double as_double;
    int32_t as_int;
    uint32_t as_uint;
    uint64_t as_u64;
    int64_t as_i64;
    uint16_t as_u16;
};

struct nvml_field { /* nvmlFieldValue_t */
    uint32_t id, scope;
    int64_t timestamp_us, latency_us;
    int32_t type; /* nvmlValueType_t: a member of nvml_value, in nvml_number() */
    int32_t error;
    union nvml_value value;
};

struct nvml_event { /* nvmlEventData_t */
    struct nvml_device *device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
};

_Static_assert(sizeof(struct nvml_pci) == 68, "as nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_process) == 24, "as nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_field) == 40, "as nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_event) == 32, "as nvmlEventData_t");

#endif
