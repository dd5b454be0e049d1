#include "ingest/trace/scan/text.h"

#include <stdbool.h>
#include <string.h>

#include "wire/utf8.h"

#define REPLACEMENT 0xfffdu

/* The four hex digits of \uXXXX; UINT32_MAX when they are none. */
static uint32_t hex4(const char *json, size_t left)
{
    uint32_t code = 0;

    if (left < 4)
        return UINT32_MAX;
    for (size_t i = 0; i < 4; i++) {
        unsigned char byte = (unsigned char)json[i];
        uint32_t digit =
            byte >= '0' && byte <= '9' ? byte - '0' + 0u : (byte | 0x20) - 'a' + 10u;

        if (digit > 15 || (digit > 9 && (byte | 0x20) < 'a'))
            return UINT32_MAX;
        code = code << 4 | digit;
    }
    return code;
}

/* \uXXXX, or two of them that are one character; how many bytes, 0 when it is none. */
static size_t unicode_escape(const char *json, size_t left, uint32_t *code)
{
    uint32_t high = hex4(json + 2, left - 2), low;

    if (high == UINT32_MAX)
        return 0;
    *code = high;
    if (high < 0xd800 || high > 0xdfff)
        return 6;
    *code = REPLACEMENT;
    if (high > 0xdbff || left < 12 || json[6] != '\\' || json[7] != 'u')
        return 6;
    low = hex4(json + 8, left - 8);
    if (low < 0xdc00 || low > 0xdfff)
        return 6;
    *code = 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
    return 12;
}

/* The escape at `json`; 0 when the backslash begins none. */
static size_t escape(const char *json, size_t left, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

    if (left < 2 || json[1] == '\0')
        return 0;
    if (json[1] == 'u')
        return unicode_escape(json, left, code);
    const char *letter = strchr(letters, json[1]);

    if (letter == NULL)
        return 0;
    *code = (unsigned char)meant[letter - letters];
    return 2;
}

/* 1 to 4 bytes. */
static uint32_t encode(uint32_t code, char *bytes)
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;

    bytes[0] = (char)(0xff00u >> (more + 1) | code >> 6 * more);
    for (uint32_t i = 1; i <= more; i++)
        bytes[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    return more + 1;
}

uint32_t text_unescape(const char *json, size_t length, char *clean, size_t size)
{
    uint32_t out = 0;

    for (size_t in = 0; in < length;) {
        uint32_t code;
        char bytes[4];
        size_t taken = 0;

        if (json[in] == '\\')
            taken = escape(json + in, length - in, &code);
        if (taken == 0)
            taken = utf8_decode((const unsigned char *)json + in, length - in, &code);
        /* And control characters. */
        if (taken == 0 || (code < 0x20 && code != '\n' && code != '\t') ||
            (code >= 0x7f && code < 0xa0))
            code = REPLACEMENT;
        uint32_t add = encode(code, bytes);

        if (add >= size - out)
            break;
        memcpy(clean + out, bytes, add);
        out += add;
        in += taken > 0 ? taken : 1;
    }
    clean[out] = '\0';
    return out;
}
