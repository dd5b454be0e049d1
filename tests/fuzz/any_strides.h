/* A CUPTI that walks its buffers by strides of the input's own. */
#ifndef FUZZ_ANY_STRIDES_H
#define FUZZ_ANY_STRIDES_H

#include <stdint.h>
#include <string.h>

#include "probe/cupti/records.h"

static const uint8_t *any_strides; /* of the kinds, in words; from the input */

static int any_strides_next(uint8_t *bytes, size_t valid, void **record)
{
    size_t from = 0;
    uint32_t kind;

    if (*record != NULL) {
        from = (size_t)((uint8_t *)*record - bytes);
        memcpy(&kind, bytes + from, sizeof(kind));
        from += 8u * any_strides[kind % CUPTI_KINDS];
    }
    if (from > valid)
        return CUPTI_ENDED;
    *record = bytes + from; /* perhaps no step forward, perhaps the very end */
    return 0;
}

#endif
