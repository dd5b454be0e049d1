/* UTF-8 as RFC 3629 has it: texts of other processes and of files may be anything. */
#ifndef WIRE_UTF8_H
#define WIRE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the character at `bytes`, of which `left` (at least one) are there, and its
 * code; 0 when there is no valid one. */
size_t utf8_decode(const unsigned char *bytes, size_t left, uint32_t *code);

#endif
