/* Any bytes: every scan gives the entries of the scalar one, in pieces of any size. */
#include <string.h>

#include "fuzz.h"
#include "ingest/trace/scan/scan.h"

static uint32_t scan_in_pieces(enum trace_scan_kind kind, const char *text,
                               uint32_t length, uint32_t *index)
{
    struct trace_scan_state state = {0, 0};
    uint32_t count = 0, from = 0;

    while (from < length) {
        uint32_t piece = 1 + (unsigned char)text[from] * 3u;
        uint32_t to = piece < length - from ? from + piece : length;

        count += trace_scan_choose(kind)(text, from, to, &state, index + count);
        from = to;
    }
    index[count] = (uint32_t)state.in_string;
    index[count + 1] = (uint32_t)state.escaped;
    return count + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum trace_scan_kind kinds[] = {TRACE_SCAN_AVX2, TRACE_SCAN_AVX512};
    uint32_t length = (uint32_t)size;
    size_t room = (size_t)length + 2 * TRACE_SCAN_SLACK;
    char *text = malloc(room);
    uint32_t *wanted = malloc(room * sizeof(*wanted)),
             *got = malloc(room * sizeof(*got));

    if (text != NULL && wanted != NULL && got != NULL) {
        memcpy(text, data, size);
        memset(text + size, '"', room - size); /* what stands behind does not count */
        uint32_t count = scan_in_pieces(TRACE_SCAN_SCALAR, text, length, wanted);

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            if (scan_in_pieces(kinds[i], text, length, got) != count ||
                memcmp(got, wanted, count * sizeof(*got)) != 0)
                abort();
    }
    free(text);
    free(wanted);
    free(got);
    return 0;
}
