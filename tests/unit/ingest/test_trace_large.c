/* Events, values and lists of names in a trace that are too long are skipped and
 * counted, and what follows is read. */
#include <stdio.h>

#include "ingest/trace/feed/feed.h"
#include "unit/damaged_trace.h"

/* A text of `begin`, `times` the byte `fill`, `end`. */
static struct traced read_filled(const char *begin, char fill, size_t times,
                                 const char *end)
{
    size_t length = strlen(begin) + times + strlen(end);
    char *text = malloc(length);

    assert_non_null(text);
    memcpy(text, begin, strlen(begin));
    memset(text + strlen(begin), fill, times);
    memcpy(text + strlen(begin) + times, end, strlen(end));
    struct traced traced = traced_bytes(text, length, &options);

    free(text);
    return traced;
}

#define BEGIN "{\"traceEvents\": [" OP("a", "1") ", "
#define END   ", " OP("b", "2") "], \"baseTimeNanoseconds\": 12}"

static void assert_one_skipped(struct traced traced, enum trace_skip reason)
{
    assert_int_equal(traced.count, 2);
    assert_int_equal(trace_reader_skipped(traced.reader), 1);
    assert_int_equal(traced_report(&traced)->skipped[reason], 1);
    assert_int_equal(traced_report(&traced)->first_offset[reason], sizeof(BEGIN) - 1);
    assert_int_equal(trace_reader_head(traced.reader)->base_time_ns, 12);
    assert_false(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void an_event_that_is_too_long_is_skipped_and_the_next_read(void **state)
{
    (void)state;
    assert_one_skipped(read_filled(BEGIN "{\"ph\": \"X\", \"name\": \"", 'x',
                                   (size_t)100 << 20, "\", \"ts\": 1, \"dur\": 1}" END),
                       TRACE_SKIP_LONG);
    assert_one_skipped(read_filled(BEGIN "{\"ph\": \"X\", \"args\": {\"a\": ", '[',
                                   (size_t)2 << 20, "}}" END),
                       TRACE_SKIP_LONG);
}

static void a_depth_of_a_million_is_only_a_long_event(void **state)
{
    (void)state;
    size_t depth = 500000;
    char *text = malloc(3 * depth);
    size_t length = (size_t)snprintf(
        text, 3 * depth, BEGIN "{\"ph\": \"X\", \"ts\": 5, \"dur\": 1, \"a\": ");

    memset(text + length, '[', depth);
    memset(text + length + depth, ']', depth);
    length += 2 * depth;
    memcpy(text + length, "}" END, sizeof("}" END));
    struct traced traced = traced_bytes(text, strlen(text), &options);

    assert_int_equal(traced.count, 3); /* 1 MB: just short enough */
    assert_int_equal(traced.events[1].time_ns, 5000);
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_LONG], 0);
    traced_free(&traced);
    free(text);
}

static void a_long_event_that_fits_is_read_across_blocks(void **state)
{
    (void)state;
    struct traced traced =
        read_filled(BEGIN "{\"ph\": \"X\", \"ts\": 5, \"name\": \"", 'x', 1000000,
                    "\", \"dur\": 1, \"args\": {\"bytes\": 8}}" END);

    assert_int_equal(traced.count, 3);
    assert_int_equal(traced.events[1].bytes, 8);
    assert_int_equal(strlen(traced_text(&traced, traced.events[1].name)),
                     TRACE_NAME_BYTES_MAX);
    assert_string_equal(traced_text(&traced, traced.events[2].name), "b");
    traced_free(&traced);
}

static void a_number_of_400_digits_costs_its_event(void **state)
{
    (void)state;
    assert_one_skipped(
        read_filled(BEGIN "{\"ph\": \"X\", \"dur\": 1, \"ts\": ", '7', 400, "}" END),
        TRACE_SKIP_TIME);
}

static void a_long_value_of_the_top_level_is_kept_in_part(void **state)
{
    (void)state;
    struct traced traced = read_filled("{\"metadata\": [{\"x\": \"", 'y', 5000000,
                                       "\"}], \"traceEvents\": [" OP("a", "1") "]}");
    const struct trace_span *span = trace_reader_span(traced.reader, "metadata");

    assert_int_equal(traced.count, 1);
    assert_non_null(span);
    assert_true(span->cut);
    assert_int_equal(span->length, TRACE_SPAN_BYTES_MAX);
    assert_string_equal(traced_report(&traced)->error, "");
    traced_free(&traced);
}

static void many_names_end_in_one_that_says_so(void **state)
{
    (void)state;
    uint32_t events = TRACE_NAMES_MAX + 1000;
    char *text = malloc((size_t)events * 64), *at = text;

    at += snprintf(at, 64, "[");
    for (uint32_t i = 0; i < events; i++)
        at += snprintf(at, 64, "{\"ph\":\"i\",\"name\":\"n%u\",\"ts\":%u},", i, i);
    struct traced traced = traced_bytes(text, (size_t)(at - text), &options);

    assert_int_equal(traced.count, events);
    assert_int_equal(trace_names_count(trace_reader_names(traced.reader)),
                     TRACE_NAMES_MAX);
    assert_int_equal(traced.events[events - 1].name, TRACE_NAMES_OTHER);
    assert_int_equal(traced_report(&traced)->names_refused,
                     events - (TRACE_NAMES_MAX - 2));
    assert_string_equal(traced_text(&traced, traced.events[0].name), "n0");
    traced_free(&traced);
    free(text);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_that_is_too_long_is_skipped_and_the_next_read),
        cmocka_unit_test(a_depth_of_a_million_is_only_a_long_event),
        cmocka_unit_test(a_long_event_that_fits_is_read_across_blocks),
        cmocka_unit_test(a_number_of_400_digits_costs_its_event),
        cmocka_unit_test(a_long_value_of_the_top_level_is_kept_in_part),
        cmocka_unit_test(many_names_end_in_one_that_says_so),
    };

    options.one_thread = count > 1 && strcmp(words[1], "alone") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
