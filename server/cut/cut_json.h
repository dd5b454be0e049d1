/* JSON as others wrote it to JSON that every reader takes.
 *
 * What is well formed goes through byte by byte. Words that are no JSON (nan, inf, N/A)
 * become null, control characters and stray backslashes in strings are escaped, bytes
 * that are no UTF-8 become U+FFFD. The rule: what comes out is valid, or nothing does.
 */
#ifndef CUT_JSON_H
#define CUT_JSON_H

#include "http/bytes.h"

/* One value appended to *out; false when it is none, or without memory (out->failed). */
MUST_CHECK bool cut_json_value(struct bytes *out, const char *text, size_t length);

/* What stands between the quotes of a string, appended with quotes. */
MUST_CHECK bool cut_json_string(struct bytes *out, const char *text, size_t length);

#endif
