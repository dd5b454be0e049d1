/* The texts of one trace file: interned by content, cleaned once, kept for good.
 *
 * The thread that runs the reader adds; ids never change their meaning and texts never
 * move. Bounded in number and bytes: what finds no room is TRACE_NAMES_OTHER, counted.
 */
#ifndef INGEST_TRACE_NAMES_H
#define INGEST_TRACE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define TRACE_NAMES_NONE  0u /* "": not given */
#define TRACE_NAMES_OTHER 1u /* "(other)": no room */

/* A run of 1 GB with Python frames has some 20,000; stacks and shapes come on top. */
#define TRACE_NAMES_MAX       131072u
#define TRACE_NAMES_BYTES_MAX ((size_t)24 * 1024 * 1024)
#define TRACE_NAME_BYTES_MAX  4096u /* a longer one is cut there */

struct trace_names;

struct trace_names *trace_names_new(void); /* NULL when out of memory */
void trace_names_free(struct trace_names *names);

/* Id of the text between the quotes of a JSON string: escapes are resolved, what is no
 * UTF-8 or a control character becomes U+FFFD; line ends and tabs stay. */
uint32_t trace_names_intern(struct trace_names *names, const char *json, size_t length);

/* The text, with NUL; valid as long as `names`. Ids are below trace_names_count(). */
const char *trace_names_get(const struct trace_names *names, uint32_t id,
                            uint32_t *length);
uint32_t trace_names_count(const struct trace_names *names);

/* The text as a whole number: true for "25738" and "-1", not for "stream 7". */
bool trace_names_number(const struct trace_names *names, uint32_t id, int64_t *number);

#endif
