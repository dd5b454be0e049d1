/* Reads a trace in a test and keeps what came of it. */
#ifndef TESTS_UNIT_TRACES_H
#define TESTS_UNIT_TRACES_H

#include <stdlib.h>
#include <string.h>

#include "ingest/trace/args.h"
#include "ingest/trace/reader.h"

struct traced {
    struct trace_reader *reader;
    struct trace_event *events; /* their `text` is a copy, at `texts` */
    uint32_t count, room;
    int result;
};

static inline bool traced_keep(void *user, struct trace_event *events, uint32_t count)
{
    struct traced *traced = user;

    for (uint32_t i = 0; i < count; i++) {
        if (traced->count == traced->room) {
            traced->room = traced->room * 2 + 64;
            traced->events =
                realloc(traced->events, traced->room * sizeof(*traced->events));
            assert_non_null(traced->events);
        }
        struct trace_event *kept = &traced->events[traced->count++];

        *kept = events[i];
        char *copy = malloc(kept->length + 1u); /* damage may have put a NUL in it */

        assert_non_null(copy);
        memcpy(copy, kept->text, kept->length);
        copy[kept->length] = '\0';
        kept->text = copy;
    }
    return true;
}

static inline struct traced traced_bytes(const void *bytes, size_t size,
                                         const struct trace_options *options)
{
    struct traced traced = {.reader = trace_reader_new(options)};

    assert_non_null(traced.reader);
    assert_int_equal(trace_reader_open_bytes(traced.reader, bytes, size), 0);
    traced.result = trace_reader_run(traced.reader, traced_keep, &traced);
    return traced;
}

static inline struct traced traced_file(const char *path,
                                        const struct trace_options *options)
{
    struct traced traced = {.reader = trace_reader_new(options)};

    assert_non_null(traced.reader);
    traced.result = trace_reader_open(traced.reader, path);
    if (traced.result == 0)
        traced.result = trace_reader_run(traced.reader, traced_keep, &traced);
    return traced;
}

static inline void traced_free(struct traced *traced)
{
    for (uint32_t i = 0; i < traced->count; i++)
        free((char *)(uintptr_t)traced->events[i].text);
    free(traced->events);
    trace_reader_free(traced->reader);
}

static inline const char *traced_text(const struct traced *traced, uint32_t id)
{
    return trace_names_get(trace_reader_names(traced->reader), id, NULL);
}

static inline const struct trace_report *traced_report(const struct traced *traced)
{
    return trace_reader_report(traced->reader);
}

#endif
