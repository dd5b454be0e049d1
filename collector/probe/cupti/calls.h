/* The calls of the CUDA runtime and driver: which of them we want, and their names.
 *
 * A training loop asks for the current device a hundred times a step; only calls that
 * launch, copy, wait, allocate or free are kept (the reduced set). From CUDA 12.5 on
 * the library is told so; before, it records all and we drop the rest.
 *
 * The one rule: the whole kind is turned on, then the rest is taken out, never the kept
 * ones put in. Single calls that are put in record nothing once anybody has turned their
 * kind off, as every profiler does at its end, or where a context was there before; and
 * without a call's record its kernels have no correlation.
 */
#ifndef PROBE_CUPTI_CALLS_H
#define PROBE_CUPTI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/cupti/library.h"

#define CALLS_MAX 1280u /* ids of a domain; 13.5 has 571 and 860 */

enum call_class {
    CALL_UNKNOWN = 0, /* its id is beyond the library's last */
    CALL_OTHER = 1,   /* not kept */
    CALL_LAUNCH = 2,  /* of a kernel, a copy or a memset */
    CALL_SYNC = 3,
    CALL_MEMORY = 4, /* allocates or frees */
};

struct calls {
    uint8_t classes[2][CALLS_MAX]; /* enum call_class; of driver, runtime */
    uint32_t names[2][CALLS_MAX];  /* ids; 0: not yet asked */
    bool were_on;                  /* their records, now or until a moment ago */
};

/* Asks the library for the name of every id. */
void calls_open(struct calls *calls, const struct cupti_library *library);

/* Class of a call by its name, as the library spells it: "cudaLaunchKernel_v7000". */
enum call_class calls_classify(const char *name);

enum call_class calls_class(const struct calls *calls, uint32_t domain, uint32_t call);

/* Name id of a kept call, without its version; 0 when it has none. */
uint32_t calls_name(struct calls *calls, const struct cupti_library *library,
                    uint32_t domain, uint32_t call);

/* Turns the kept calls' records on, or all of them off. Returns the first error. */
int calls_enable(struct calls *calls, const struct cupti_library *library, bool enable);

#endif
