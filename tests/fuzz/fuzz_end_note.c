/* The note of how a command ended: any bytes of any length. */
#include <string.h>

#include "fuzz.h"
#include "wire/end_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct end_note note, again;
    char text[END_NOTE_BYTES_MAX];

    if (!end_note_parse((const char *)data, size, &note))
        return 0;
    size_t length = end_note_format(&note, text, sizeof(text));

    if (!end_note_parse(text, length, &again) ||
        memcmp(&note, &again, sizeof(note)) != 0)
        abort();
    return 0;
}
