/* The libcupti that is in this process already, and the driver it belongs to.
 *
 * The one rule: no function of CUPTI's is called before the driver has said that there
 * is a device. 13.2 without a driver calls itself until the stack is full, inside
 * cuptiGetVersion. We never link it and never ship it: exported names carry a version,
 * and two copies in one process break each other.
 */
#ifndef PROBE_CUPTI_LIBRARY_H
#define PROBE_CUPTI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/cupti/records.h"
#include "wire/attributes.h"

/* CUptiResult: what we tell apart. */
enum cupti_result {
    CUPTI_OK = 0,
    CUPTI_NOT_INITIALIZED = 15,
    CUPTI_NOT_SUPPORTED = 27,
    CUPTI_MPS = 31,
    CUPTI_VIRTUAL_DEVICE = 33,
    CUPTI_NO_PRIVILEGE = 35,
    CUPTI_OLD_PROFILER = 36,
    CUPTI_LEGACY_DEVICE = 38,
    CUPTI_TAKEN = 39, /* multiple subscribers are not supported */
    CUPTI_VIRTUAL_PRIVILEGE = 40,
    CUPTI_CONFIDENTIAL = 41,
    CUPTI_MIG = 43,
    CUPTI_WSL = 45,
    CUPTI_UNKNOWN = 999,
};

enum cupti_domain { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 };

typedef void (*cupti_request)(uint8_t **buffer, size_t *bytes, size_t *records_max);
typedef void (*cupti_complete)(void *context, uint32_t stream, uint8_t *buffer,
                               size_t bytes, size_t valid_bytes);

struct cupti_library {
    char path[512];
    unsigned copies;  /* of any version that are mapped */
    uint32_t version; /* CUPTI_API_VERSION: 18 is 11.8, 130001 is 13.0 */
    /* All return enum cupti_result. */
    int (*get_version)(uint32_t *version);
    int (*get_timestamp)(uint64_t *stamp);
    int (*register_callbacks)(cupti_request request, cupti_complete complete);
    int (*enable)(uint32_t kind);
    int (*disable)(uint32_t kind);
    int (*flush)(uint32_t flags); /* 1: forced */
    int (*get_dropped)(void *context, uint32_t stream, size_t *dropped);
    cupti_next next;
    /* These may be NULL: newer than 11.8, or not needed. */
    int (*set_attribute)(uint32_t attribute, size_t *bytes, void *value);
    int (*set_thread_ids)(uint32_t type); /* 1: as gettid() */
    int (*enable_runtime)(uint32_t call, uint8_t enable);
    int (*enable_driver)(uint32_t call, uint8_t enable);
    int (*callback_name)(uint32_t domain, uint32_t call, const char **name);
    int (*subscribe)(void **subscriber,
                     void (*callback)(void *, uint32_t, uint32_t, const void *),
                     void *user);
    int (*unsubscribe)(void *subscriber);
};

enum cupti_driver {
    CUPTI_DRIVER_ABSENT, /* no libcuda in this process */
    CUPTI_DRIVER_ASLEEP, /* cuInit was not called, or is not done */
    CUPTI_DRIVER_NO_GPU, /* and will not see one */
    CUPTI_DRIVER_READY,
};

/* Asks the driver, if it is mapped, how many devices it has. */
enum cupti_driver cupti_driver_state(void);

/* Where the devices sit on the PCI bus, in CUDA's order, with a blank between: as many as
 * have room. The driver is ready. False when it does not tell. */
MUST_CHECK bool cupti_driver_places(char *text, size_t bytes);

/* The devices' multiprocessors, as the fact of that name has them: as many as have room.
 * The driver is ready. False when it does not tell. */
MUST_CHECK bool cupti_driver_multiprocessors(char *text, size_t bytes);

/* Finds libcupti: torch's, else one that is mapped, the CUDA runtime's version first,
 * else beside that runtime, else where the loader looks, of its version. 0, or -ENOENT and
 * a sentence (static). The driver is ready. */
MUST_CHECK int cupti_library_open(struct cupti_library *library, const char **reason);

#endif
