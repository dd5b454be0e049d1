/* A segment written by a hostile training process: any bytes, no crash, no endless loop. */
#include <string.h>

#include "fuzz.h"
#include "wire/segment.h"

static void look_at_names(const struct wire_view *view)
{
    volatile unsigned char sum = 0;

    for (uint32_t id = 0; id < 300; id++) {
        const char *bytes;
        uint32_t length = names_lookup(&view->names, id, &bytes);

        for (uint32_t i = 0; i < length; i++)
            sum = (unsigned char)(sum + bytes[i]);
    }
}

static void drain(const struct wire_view *view, uint32_t slot)
{
    struct ring_reader reader;
    struct event events[64];

    if (wire_view_ring(view, slot, &reader, 1) != 1)
        return;
    for (int i = 0; i < 64 && ring_read(&reader, events, 64) > 0; i++)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t room = (size + 4095) / 4096 * 4096 + 4096;
    void *memory = aligned_alloc(4096, room); /* heap, so that ASan guards both ends */
    struct wire_view view;
    const char *reason;

    memcpy(memory, data, size);
    if (wire_view_open(&view, memory, size, &reason) == 0) {
        look_at_names(&view);
        for (uint32_t slot = 0; slot < view.layout.thread_count; slot++)
            drain(&view, slot);
    }
    free(memory);
    return 0;
}
