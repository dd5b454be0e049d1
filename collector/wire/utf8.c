#include "wire/utf8.h"

#include <stdbool.h>

size_t utf8_decode(const unsigned char *bytes, size_t left, uint32_t *code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = bytes[0] < 0x80             ? 1
                    : (bytes[0] & 0xe0) == 0xc0 ? 2
                    : (bytes[0] & 0xf0) == 0xe0 ? 3
                    : (bytes[0] & 0xf8) == 0xf0 ? 4
                                                : 0;

    if (length == 0 || length > left)
        return 0;
    *code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3fu);
    }
    bool surrogate = *code >= 0xd800 && *code <= 0xdfff;

    return *code < smallest[length] || *code > 0x10ffff || surrogate ? 0 : length;
}
