/* Activity buffers of any bytes, walked as strides of any version would walk them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/cupti/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *strides; /* of the kinds, in words; from the input */

static int next(uint8_t *bytes, size_t valid, void **record)
{
    size_t from = 0;
    uint32_t kind;

    if (*record != NULL) {
        from = (size_t)((uint8_t *)*record - bytes);
        memcpy(&kind, bytes + from, sizeof(kind));
        from += 8u * strides[kind % CUPTI_KINDS];
    }
    if (from > valid)
        return CUPTI_ENDED;
    *record = bytes + from; /* perhaps no step forward, perhaps the very end */
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cupti_layout layout;
    struct cupti_reader reader;
    struct cupti_record record;

    if (size < CUPTI_KINDS)
        return 0;
    strides = data;
    (void)cupti_layout_learn(&layout, next);
    size -= CUPTI_KINDS;
    /* To the byte, so that a step too far is seen. */
    uint8_t *buffer = malloc(size > 0 ? size : 1);
    uint64_t records = 0;

    if (buffer == NULL)
        return 0;
    memcpy(buffer, data + CUPTI_KINDS, size);
    cupti_reader_open(&reader, &layout, next, buffer, size);
    while (cupti_read(&reader, &record))
        if (++records > size / 8 || record.kind >= CUPTI_KINDS)
            abort();
    free(buffer);
    return 0;
}
