/* Bytes of JSON to the positions that matter: every unescaped quote, and every brace and
 * bracket outside of strings.
 *
 *     {"name":"a[0]","ts":7}      Between two entries that are quotes nothing has to be
 *     ^^    ^ ^    ^ ^  ^  ^      looked at: strings and numbers are jumped over.
 *
 * All implementations give the same entries on every input, also on what is no JSON.
 */
#ifndef INGEST_TRACE_SCAN_SCAN_H
#define INGEST_TRACE_SCAN_SCAN_H

#include <stdint.h>

#include "ingest/trace/reader.h"

/* Behind `length` bytes of text as many must be readable, and there must be room for as
 * many entries: whole vectors are read and written. */
#define TRACE_SCAN_SLACK 64u

/* Carried from one piece of text to the next; all 0 outside of strings. */
struct trace_scan_state {
    uint64_t in_string; /* all bits set inside of a string, else none */
    uint64_t escaped;   /* 1 when the next byte stands behind a backslash */
};

/* Appends entries of text[from .. to) to `index`; their number is returned. */
typedef uint32_t trace_scan(const char *text, uint32_t from, uint32_t to,
                            struct trace_scan_state *state, uint32_t *index);

/* The one asked for when this machine has it, else its best. */
trace_scan *trace_scan_choose(enum trace_scan_kind kind);
enum trace_scan_kind trace_scan_best(void);

trace_scan trace_scan_scalar, trace_scan_avx2, trace_scan_avx512;

#endif
