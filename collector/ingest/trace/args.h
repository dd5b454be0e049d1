/* Arguments of an event that are too rare for a field of their own. */
#ifndef INGEST_TRACE_ARGS_H
#define INGEST_TRACE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingest/trace/event.h"
#include "wire/attributes.h"

/* Where the value of args[key] stands, as it is written (a text with its quotes); the
 * last one when there are several. False when there is none. Only in the callback. */
bool trace_args_find(const struct trace_event *event, const char *key,
                     const char **value, size_t *length);

/* args[key] as a whole number, also when it stands in quotes. */
bool trace_args_integer(const struct trace_event *event, const char *key,
                        int64_t *value);
/* The same; 0 where it is none, or negative. */
uint64_t trace_args_count(const struct trace_event *event, const char *key);
bool trace_args_true(const struct trace_event *event, const char *key);

/* args[key] as clean UTF-8 without escapes, with NUL; "" when it is no text or has no
 * room in `size`. */
void trace_args_text(const struct trace_event *event, const char *key, char *text,
                     size_t size);

#endif
