#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/bytes.h"
#include "trace/trace_writer.h"

static const char *const names[] = {"", "aten::mm", "</script>\"\x01", "x"};

/* The tables' own looks a name up in the session; here there is none. */
const char *trace_name(const struct trace_process *process, uint32_t id)
{
    (void)process;
    return id < 4 ? names[id] : "";
}

static bool collect(void *context, const void *data, size_t size)
{
    bytes_append(context, data, size);
    return true;
}

static bool refuse(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return false;
}

static const struct event events[] = {
    {1234567, 1001, EVENT_META(1, EVENT_CPU_OP, 0, 0), 77},
    {2000000, 5000, EVENT_META(2, EVENT_USER_RANGE, 0, 0), 0},
    {3000000, 999, EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_FORWARD), 12},
    {4000000, (uint64_t)-64, EVENT_META(0, EVENT_ALLOC, 0, 0), 4096},
    {5000000, 100, EVENT_META(3, EVENT_KERNEL, 0, EVENT_DEVICE(1, 2)), 9},
    {7, 0, EVENT_META(0, EVENT_MORE, 0, 1), 0},
    {6000000, 10, EVENT_META(3, 200, 0, 0), 0},
    {7000000, 1000, EVENT_META(0, EVENT_MEMORY, 0, 0), 2000},
};

static struct trace_thread threads[] = {{.tid = 100, .name = "main"}};
static struct trace_block blocks[] = {
    {NULL, events, sizeof(events) / sizeof(events[0]), 0}};
static struct step_row steps[] = {
    {.number = 12,
     .epoch = 2,
     .flags = EVENT_STEP_OPS | EVENT_STEP_TAGGED,
     .start_ns = 1000000,
     .duration_ns = 9000000,
     .phase_ns = {1e6, 2e6, 3e6, (double)NAN}},
    {.number = NOT_KNOWN, .flags = EVENT_STEP_VALIDATION, .start_ns = 10000000},
};
static struct trace_process process = {.pid = 100,
                                       .rank = 1,
                                       .role = 1,
                                       .threads = threads,
                                       .thread_count = 1,
                                       .blocks = blocks,
                                       .block_count = 1,
                                       .steps = steps,
                                       .step_count = 2,
                                       .lost_events = 3};

static struct trace_answer answer_of_one(void)
{
    return (struct trace_answer){
        .head = {.session = "s-1",
                 .rank = 1,
                 .start_unix_ns = INT64_C(1763725000123456789)},
        .processes = &process,
        .process_count = 1};
}

static const struct trace_limits everything = {.to_ns = INT64_MAX};

static cJSON *written(const struct trace_limits *limits, struct trace_totals *totals,
                      struct bytes *text)
{
    struct trace_answer answer = answer_of_one();
    struct trace_sink sink = {collect, text};
    cJSON *parsed;

    *totals = trace_write(&answer, limits, "{\"dataloader.workers\":0}", &sink);
    assert_false(text->failed);
    assert_int_equal(totals->bytes, text->size);
    bytes_append(text, "", 1); /* for strstr() */
    text->size--;
    parsed = cJSON_ParseWithLength(text->data, text->size);
    assert_non_null(parsed);
    bytes_append(text, "", 1); /* for strstr() */
    return parsed;
}

/* The event of that name in traceEvents. */
static const cJSON *find(const cJSON *trace, const char *name)
{
    const cJSON *event;

    cJSON_ArrayForEach(event, cJSON_GetObjectItem(trace, "traceEvents"))
    {
        if (strcmp(cJSON_GetObjectItem(event, "name")->valuestring, name) == 0)
            return event;
    }
    fail_msg("no event %s", name);
    return NULL;
}

static void text_is(const cJSON *object, const char *key, const char *expected)
{
    assert_string_equal(cJSON_GetObjectItem(object, key)->valuestring, expected);
}

static void the_first_key_says_whose_trace_it_is(void **state)
{
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);

    (void)state;
    assert_string_equal(trace->child->string, "trainglass");
    text_is(trace->child, "session", "s-1");
    assert_non_null(strstr(text.data, "\"start_unix_ns\":1763725000123456789}"));
    assert_non_null(strstr(text.data, "\"lost_events\":3"));
    assert_non_null(strstr(text.data, "\"facts\":{\"dataloader.workers\":0}"));
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void times_are_microseconds_to_the_nanosecond(void **state)
{
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);

    (void)state;
    assert_non_null(strstr(text.data, "\"name\":\"aten::mm\",\"pid\":100,\"tid\":100,"
                                      "\"ts\":1234.567,\"dur\":0.999," /* of 1.001 */
                                      "\"args\":{\"Sequence number\":77}}"));
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void kinds_have_the_categories_of_kineto(void **state)
{
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);
    const cJSON *kernel = find(trace, "x"), *memory = find(trace, "[memory]");

    (void)state;
    text_is(find(trace, "aten::mm"), "cat", "cpu_op");
    text_is(kernel, "cat", "kernel");
    assert_int_equal(cJSON_GetObjectItem(kernel, "pid")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(kernel, "tid")->valueint, 7);
    text_is(find(trace, "ac2g"), "ph", "f");
    text_is(memory, "cat", "cpu_instant_event");
    assert_int_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(memory, "args"), "Bytes")->valueint,
        -64);
    text_is(find(trace, "forward"), "cat", "user_annotation");
    text_is(cJSON_GetObjectItem(find(trace, "forward"), "args"), "trainglass", "phase");
    assert_int_not_equal(cJSON_GetObjectItem(find(trace, "forward"), "tid")->valueint,
                         cJSON_GetObjectItem(find(trace, "aten::mm"), "tid")->valueint);
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void every_step_stands_with_its_phases_and_what_is_unknown_is_null(void **state)
{
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);
    const cJSON *args = cJSON_GetObjectItem(find(trace, "ProfilerStep#12"), "args");

    (void)state;
    assert_int_equal(cJSON_GetObjectItem(args, "epoch")->valueint, 2);
    text_is(args, "recorded", "ops");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(args, "tagged")));
    assert_int_equal(cJSON_GetObjectItem(args, "backward_ns")->valueint, 3000000);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(args, "optimizer_ns")));
    text_is(find(trace, "ValidationStep"), "ph", "X");
    assert_int_equal(totals.steps, 1);
    assert_int_equal(totals.recorded_steps, 1);
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void hostile_names_stay_inside_their_quotes(void **state)
{
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);

    (void)state;
    assert_null(strstr(text.data, "</script"));
    text_is(find(trace, names[2]), "cat", "user_annotation");
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void unknown_kinds_are_left_out(void **state)
{
    struct trace_totals totals;
    struct trace_answer answer = answer_of_one();
    struct bytes text = {0};
    cJSON *trace = written(&everything, &totals, &text);

    (void)state;
    assert_int_equal(totals.events, 6);
    assert_int_equal(trace_count(&answer, &everything), 6);
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void only_what_touches_the_window_is_written(void **state)
{
    struct trace_limits limits = {.from_ns = 1235000, .to_ns = 3000000};
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&limits, &totals, &text);

    (void)state;
    assert_int_equal(totals.events, 2); /* the op reaches into it, the phase begins at
                                           its end */
    (void)find(trace, "aten::mm");
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void what_would_end_beyond_all_time_reaches_to_its_end(void **state)
{
    static const struct event late = {INT64_MAX - 10, 100,
                                      EVENT_META(1, EVENT_CPU_OP, 0, 0), 0};
    const struct trace_limits limits = {.from_ns = INT64_MAX - 5, .to_ns = INT64_MAX};
    struct trace_block block = {NULL, &late, 1, 0};
    struct trace_process one = {.blocks = &block, .block_count = 1};
    const struct trace_answer answer = {.processes = &one, .process_count = 1};

    (void)state;
    assert_int_equal(trace_count(&answer, &limits), 1);
}

static void a_limit_keeps_the_trace_valid_and_says_what_is_missing(void **state)
{
    struct trace_limits limits = {.to_ns = INT64_MAX, .max_bytes = 1};
    struct trace_totals totals;
    struct bytes text = {0};
    cJSON *trace = written(&limits, &totals, &text);

    (void)state;
    assert_int_equal(totals.events, 0);
    assert_int_equal(totals.skipped, 6);
    assert_int_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(trace, "trainglassEnd"), "skipped")
            ->valueint,
        6);
    cJSON_Delete(trace);
    bytes_close(&text);
}

static void a_reader_that_leaves_ends_the_writing(void **state)
{
    struct trace_answer answer = answer_of_one();
    struct trace_sink sink = {refuse, NULL};

    (void)state;
    assert_false(trace_write(&answer, &everything, "{}", &sink).whole);
}

static void what_is_marked_critical_says_so_and_nothing_else_does(void **state)
{
    const struct event *marked[] = {&events[0], &events[4]};
    const struct replay_marks marks = {marked, 2, 1};
    struct trace_limits limits = everything;
    struct trace_totals totals;
    struct bytes text = {0};

    (void)state;
    limits.critical = &marks;
    cJSON *trace = written(&limits, &totals, &text);
    const cJSON *op = cJSON_GetObjectItem(find(trace, "aten::mm"), "args");
    const cJSON *kernel = cJSON_GetObjectItem(find(trace, "x"), "args");
    const cJSON *about = cJSON_GetObjectItem(trace, "trainglass");

    assert_int_equal(cJSON_GetObjectItem(op, "critical")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(op, "Sequence number")->valueint, 77);
    assert_int_equal(cJSON_GetObjectItem(kernel, "critical")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(about, "critical_steps")->valueint, 1);
    uint32_t count = 0;

    for (const char *at = text.data; (at = strstr(at, "\"critical\":")) != NULL; at++)
        count++;
    assert_int_equal(count, 2);
    cJSON_Delete(trace);
    bytes_close(&text);
    trace = written(&everything, &totals, &text);
    assert_null(strstr(text.data, "critical"));
    cJSON_Delete(trace);
    bytes_close(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_key_says_whose_trace_it_is),
        cmocka_unit_test(times_are_microseconds_to_the_nanosecond),
        cmocka_unit_test(kinds_have_the_categories_of_kineto),
        cmocka_unit_test(every_step_stands_with_its_phases_and_what_is_unknown_is_null),
        cmocka_unit_test(hostile_names_stay_inside_their_quotes),
        cmocka_unit_test(unknown_kinds_are_left_out),
        cmocka_unit_test(only_what_touches_the_window_is_written),
        cmocka_unit_test(what_would_end_beyond_all_time_reaches_to_its_end),
        cmocka_unit_test(a_limit_keeps_the_trace_valid_and_says_what_is_missing),
        cmocka_unit_test(what_is_marked_critical_says_so_and_nothing_else_does),
        cmocka_unit_test(a_reader_that_leaves_ends_the_writing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
