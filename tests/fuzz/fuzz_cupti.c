/* Activity buffers of any bytes, walked as strides of any version would walk them. */
#include <string.h>

#include "any_strides.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cupti_layout layout;
    struct cupti_reader reader;
    struct cupti_record record;

    if (size < CUPTI_KINDS)
        return 0;
    any_strides = data;
    (void)cupti_layout_learn(&layout, any_strides_next);
    size -= CUPTI_KINDS;
    /* To the byte, so that a step too far is seen. */
    uint8_t *buffer = malloc(size > 0 ? size : 1);
    uint64_t records = 0;

    if (buffer == NULL)
        return 0;
    memcpy(buffer, data + CUPTI_KINDS, size);
    cupti_reader_open(&reader, &layout, any_strides_next, buffer, size);
    while (cupti_read(&reader, &record))
        if (++records > size / 8 || record.kind >= CUPTI_KINDS)
            abort();
    free(buffer);
    return 0;
}
