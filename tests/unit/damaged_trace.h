/* Small traces, which a test damages, packs or makes large, and how they are read. */
#ifndef TESTS_UNIT_DAMAGED_TRACE_H
#define TESTS_UNIT_DAMAGED_TRACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/traces.h"

#define OP(name, ts)                                                                   \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name                           \
    "\", \"pid\": 7, \"tid\": \"8\", \"ts\": " ts ", \"dur\": 2.5, "                   \
    "\"args\": {\"Input Dims\": [[2, \"x\"], []], \"External id\": 5}}"

/* With a thread that reads ahead; with the argument `alone`: without. */
static struct trace_options options;

static const char small[] =
    "\xef\xbb\xbf{\"schemaVersion\": 1,\r\n \"deviceProperties\": [{\"id\": 0}],\r\n"
    "\"traceEvents\": [" OP("a\\\"[b\\\\", "10") ",\r\n " OP(
        "{c}", "11.125") ","
                         "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"args\":{"
                         "\"name\":\"py\"}}"
                         "],\r\n\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": "
                         "12345}\r\n";

static inline struct traced read_text(const char *text)
{
    return traced_bytes(text, strlen(text), &options);
}

#endif
