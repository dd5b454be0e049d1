/* The reader of trace files: events, what stands around them, damage. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/traces.h"

/* A trace of these events. */
#define TRACE(events) "{\"schemaVersion\": 1, \"traceEvents\": [" events "]}"
#define OP(name)                                                                       \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name                           \
    "\", \"pid\": 7, \"tid\": 8, \"ts\": 10, \"dur\": 2}"

static struct traced read_text(const char *text)
{
    return traced_bytes(text, strlen(text), NULL);
}

static void assert_names(const struct traced *traced, const char *const *names,
                         uint32_t count)
{
    assert_int_equal(traced->count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(traced_text(traced, traced->events[i].name), names[i]);
}

static void an_event_has_what_the_file_says(void **state)
{
    (void)state;
    struct traced traced = read_text(
        TRACE("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,"
              "\"ts\":1.5,\"dur\":0.25,\"args\":{\"correlation\":9,\"External id\":4,"
              "\"device\":1,\"stream\":7,\"grid\":[1,2,3],\"block\": [ 4 , 5 , 6 ],"
              "\"registers per thread\":32,\"est. achieved occupancy %\":37.5}}"));
    const struct trace_event *event = traced.events;

    assert_int_equal(traced.result, 0);
    assert_int_equal(traced.count, 1);
    assert_int_equal(event->phase, 'X');
    assert_int_equal(event->category, TRACE_KERNEL);
    assert_int_equal(event->time_ns, 1500);
    assert_int_equal(event->duration_ns, 250);
    assert_int_equal(event->correlation, 9);
    assert_int_equal(event->external_id, 4);
    assert_int_equal(event->device, 1);
    assert_int_equal(event->stream, 7);
    assert_int_equal(event->grid[2], 3);
    assert_int_equal(event->block[1], 5);
    assert_int_equal(event->registers, 32);
    assert_true(event->occupancy_pct == 37.5F);
    assert_int_equal(event->has, TRACE_HAS_TIME | TRACE_HAS_DURATION |
                                     TRACE_HAS_CORRELATION | TRACE_HAS_EXTERNAL_ID |
                                     TRACE_HAS_DEVICE | TRACE_HAS_STREAM |
                                     TRACE_HAS_GRID | TRACE_HAS_BLOCK |
                                     TRACE_HAS_REGISTERS | TRACE_HAS_OCCUPANCY);
    assert_memory_equal(event->text + event->args_at, "{\"correlation\"", 14);
    assert_int_equal(event->args_at + event->args_length + 1, event->length);
    traced_free(&traced);
}

static void keys_of_both_ends_are_kept(void **state)
{
    (void)state;
    struct traced traced =
        read_text("{\"trainglass\": {\"format\": 1}, \"traceEvents\": [" OP(
            "a") "],"
                 "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, "
                 "\"world_size\": 8},"
                 "\"displayTimeUnit\": \"ns\", \"baseTimeNanoseconds\": "
                 "1751410836000000000\n}\n");
    const struct trace_head *head = trace_reader_head(traced.reader);
    const struct trace_span *span = trace_reader_span(traced.reader, "trainglass");

    assert_int_equal(head->span_count, 4);
    assert_non_null(span);
    assert_string_equal(span->value, "{\"format\": 1}");
    assert_int_equal(span->offset, 1);
    assert_true(head->has_base_time && head->has_rank && head->display_in_ns);
    assert_true(head->base_time_ns == INT64_C(1751410836000000000));
    assert_int_equal(head->rank, 3);
    assert_int_equal(head->world_size, 8);
    assert_null(trace_reader_span(traced.reader, "traceName"));
    assert_false(traced_report(&traced)->is_cut);
    assert_string_equal(traced_report(&traced)->error, "");
    traced_free(&traced);
}

static void behind_an_unescaped_quote_the_next_event_is_read(void **state)
{
    (void)state;
    struct traced traced = read_text(TRACE(OP("a") "," OP("5\" disk") ", " OP(
        "b") "," OP("\"c\"") ",\n" OP("d") "," OP("e\\") "," OP("f")));

    assert_names(&traced, (const char *[]){"a", "b", "d", "f"}, 4);
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_SYNTAX], 3);
    assert_int_equal(trace_reader_skipped(traced.reader), 3);
    assert_int_equal(traced_report(&traced)->first_offset[TRACE_SKIP_SYNTAX],
                     sizeof("{\"schemaVersion\": 1, \"traceEvents\": [" OP("a") ",") -
                         1);
    assert_false(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void what_follows_the_last_event_is_found_behind_damage(void **state)
{
    (void)state;
    struct traced traced = read_text(
        "{\"traceEvents\": [" OP("a") "," OP("\"b") "], \"baseTimeNanoseconds\": 5}");

    assert_int_equal(traced.count, 1);
    assert_int_equal(trace_reader_head(traced.reader)->base_time_ns, 5);
    assert_false(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static bool refuse(void *user, struct trace_event *events, uint32_t count)
{
    (void)events;
    *(uint32_t *)user += count;
    return false;
}

static void a_callback_can_end_the_reading(void **state)
{
    (void)state;
    struct trace_reader *reader = trace_reader_new(NULL);
    static const char text[] = TRACE(OP("a"));
    uint32_t seen = 0;

    assert_non_null(reader);
    assert_int_equal(trace_reader_open_bytes(reader, text, strlen(text)), 0);
    assert_int_equal(trace_reader_run(reader, refuse, &seen), -ECANCELED);
    assert_int_equal(seen, 1);
    trace_reader_free(reader);
}

/* 3,000 events of one file, those in the holes left out. */
static void what_a_second_reading_leaves_out_is_not_even_read(void **state)
{
    struct trace_hole holes[2];
    char path[] = "/tmp/trace-holes-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");

    (void)state;
    assert_non_null(file);
    (void)fputs("{\"traceEvents\": [\n", file);
    for (int i = 0; i < 3000; i++)
        (void)fprintf(file, "%s" OP("%d"), i > 0 ? ",\n" : "", i);
    (void)fputs("], \"distributedInfo\": {\"rank\": 3}}", file);
    assert_int_equal(fclose(file), 0);

    struct traced whole = traced_file(path, NULL);

    assert_int_equal(whole.count, 3000);
    holes[0] = (struct trace_hole){whole.events[0].offset, whole.events[10].offset};
    holes[1] = (struct trace_hole){whole.events[20].offset, whole.events[2999].offset};
    for (int one_thread = 0; one_thread < 2; one_thread++) {
        const struct trace_options options = {.one_thread = one_thread};
        struct traced part = {.reader = trace_reader_new(&options)};
        uint64_t at = 0, of = 0;

        assert_int_equal(trace_reader_open(part.reader, path), 0);
        trace_reader_leave_out(part.reader, holes, 2);
        assert_int_equal(trace_reader_run(part.reader, traced_keep, &part), 0);
        assert_int_equal(part.count, 11);
        for (uint32_t i = 0; i < 11; i++)
            assert_string_equal(part.events[i].text,
                                whole.events[i < 10 ? 10 + i : 2999].text);
        assert_int_equal(trace_reader_head(part.reader)->rank, 3);
        assert_int_equal(trace_reader_skipped(part.reader), 0);
        assert_int_equal(traced_report(&part)->text_bytes,
                         traced_report(&whole)->text_bytes -
                             (holes[0].to - holes[0].from) -
                             (holes[1].to - holes[1].from));
        trace_reader_position(part.reader, &at, &of);
        assert_int_equal(at, of); /* what was leapt over is behind */
        assert_false(traced_report(&part)->is_cut);
        traced_free(&part);
    }
    traced_free(&whole);
    unlink(path);
}

/* The last event is none that can be read, and all before it is left out. */
static void what_a_second_reading_has_left_may_be_nothing_but_damage(void **state)
{
    static const char text[] = "{\"traceEvents\": [\n" OP("a") ",\n{\"name\": \"b\"}\n]}";
    const struct trace_hole hole = {17, 17 + sizeof(OP("a") ",\n") - 1};
    char path[] = "/tmp/trace-holes-XXXXXX";
    int descriptor = mkstemp(path);

    (void)state;
    assert_int_equal(write(descriptor, text, sizeof(text) - 1), sizeof(text) - 1);
    close(descriptor);
    for (uint32_t holes = 0; holes < 2; holes++) {
        struct traced part = {.reader = trace_reader_new(NULL)};

        assert_int_equal(trace_reader_open(part.reader, path), 0);
        trace_reader_leave_out(part.reader, &hole, holes);
        assert_int_equal(trace_reader_run(part.reader, traced_keep, &part), 0);
        assert_int_equal(part.count, 1 - holes);
        assert_int_equal(trace_reader_skipped(part.reader), 1);
        assert_string_equal(traced_report(&part)->error, "");
        traced_free(&part);
    }
    unlink(path);
}

static void a_file_that_shrank_before_its_hole_says_so(void **state)
{
    static const char text[] = "{\"traceEvents\": [" OP("a") "," OP("b");
    const struct trace_hole hole = {17, 100000};
    char path[] = "/tmp/trace-holes-XXXXXX";
    int descriptor = mkstemp(path);
    struct traced part = {.reader = trace_reader_new(NULL)};

    (void)state;
    assert_int_equal(write(descriptor, text, sizeof(text) - 1), sizeof(text) - 1);
    close(descriptor);
    assert_int_equal(trace_reader_open(part.reader, path), 0);
    trace_reader_leave_out(part.reader, &hole, 1);
    assert_int_equal(trace_reader_run(part.reader, traced_keep, &part), 0);
    assert_int_equal(part.count, 0);
    assert_true(traced_report(&part)->is_cut);
    assert_string_equal(traced_report(&part)->error,
                        "the file became shorter while it was read");
    traced_free(&part);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_has_what_the_file_says),
        cmocka_unit_test(keys_of_both_ends_are_kept),
        cmocka_unit_test(behind_an_unescaped_quote_the_next_event_is_read),
        cmocka_unit_test(what_follows_the_last_event_is_found_behind_damage),
        cmocka_unit_test(a_callback_can_end_the_reading),
        cmocka_unit_test(what_a_second_reading_leaves_out_is_not_even_read),
        cmocka_unit_test(what_a_second_reading_has_left_may_be_nothing_but_damage),
        cmocka_unit_test(a_file_that_shrank_before_its_hole_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
