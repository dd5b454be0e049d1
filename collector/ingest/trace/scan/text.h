/* Texts of JSON to clean UTF-8. */
#ifndef INGEST_TRACE_SCAN_TEXT_H
#define INGEST_TRACE_SCAN_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* What stands between the quotes, without escapes, with NUL, into `clean` (size >= 1):
 * bytes that are no UTF-8, control characters and halves of surrogates become U+FFFD;
 * line ends and tabs stay; a backslash that begins no escape is one. Returns its length;
 * what has no room is cut between characters. */
uint32_t text_unescape(const char *json, size_t length, char *clean, size_t size);

#endif
