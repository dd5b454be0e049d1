/* From cuInit to a libcupti that answers: what our thread waits for, one after another. */
#ifndef PROBE_CUPTI_ARRIVE_H
#define PROBE_CUPTI_ARRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/cupti/library.h"

struct arrival {
    bool (*rest)(unsigned ms);       /* false: the process ends */
    bool (*hurry)(unsigned ms);      /* the same, shorter while cuInit is running */
    void (*say)(const char *reason); /* why nothing is recorded so far */
};

/* The segment is open, the driver has a device, `library` is found and answers. False
 * when that will not be; the last reason was said. */
bool arrive(struct cupti_library *library, const struct arrival *arrival);

/* After arrive(): CLOCK_MONOTONIC when CUDA was surely not up yet, ns; 0: nobody knows. */
uint64_t arrive_down_ns(void);

/* Does nobody else hold CUPTI? Asked by a subscription of a microsecond, where `ask`
 * allows it. */
bool arrive_is_free(const struct cupti_library *library, bool ask,
                    const struct arrival *arrival);

#endif
