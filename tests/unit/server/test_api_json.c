/* Answers of the tables as documents: what is not known is null, what is hostile is
 * harmless, what is sampled says so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "document/document.h"
#include "document/json.h"
#include "judge/judge.h"
#include "query/memory_query.h"
#include "query/ops_query.h"
#include "query/status_query.h"
#include "query/steps_query.h"
#include "stream/stream_json.h"
#include "wire/words.h"

#define UNKNOWN ((double)NAN)

static const cJSON *at(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (item == NULL)
        fail_msg("no member %s", key);
    return item;
}

static struct step_row step_of(int64_t number, double ms)
{
    return (struct step_row){.number = number,
                             .epoch = 1,
                             .start_ns = number == NOT_KNOWN ? 0 : number * 1000000,
                             .duration_ns = ms * 1e6,
                             .phase_ns = {1e6, UNKNOWN, 0, 2e6},
                             .other_ns = UNKNOWN};
}

static void an_unknown_phase_is_null_and_a_known_empty_one_is_zero(void **state)
{
    struct step_row row = step_of(7, 5.5);

    (void)state;
    row.flags |= RECORDING_PHASES;
    cJSON *step = step_json(&row);

    assert_true(cJSON_IsNull(at(step, "forward_ms")));
    assert_true(cJSON_IsNull(at(step, "other_ms")));
    assert_true(at(step, "backward_ms")->valuedouble == 0);
    assert_true(at(step, "duration_ms")->valuedouble == 5.5);
    assert_string_equal(at(step, "recorded")->valuestring, "phases");
    cJSON_Delete(step);
}

static void the_interval_of_a_duration_never_reaches_below_zero(void **state)
{
    struct steps_summary summary = {.mean_ns = 1e6,
                                    .error_pct = 300,
                                    .p95_low_ns = UNKNOWN,
                                    .p95_high_ns = UNKNOWN,
                                    .phase_ns = {2e6, 5e6, 0, UNKNOWN},
                                    .phase_error_ns = {3e6, 1e6, 0, UNKNOWN},
                                    .other_ns = 1e6,
                                    .other_error_ns = 4e6};
    static const char *const wide[] = {"step", "data", "other"};
    cJSON *part = steps_summary_json(&summary);
    const cJSON *intervals = at(part, "ci95_ms");

    (void)state;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        const cJSON *low = cJSON_GetArrayItem(at(intervals, wide[i]), 0);

        assert_true(cJSON_IsNumber(low) && low->valuedouble == 0);
    }
    assert_true(cJSON_GetArrayItem(at(intervals, "forward"), 0)->valuedouble == 4);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(at(intervals, "step.p95"), 0)));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(at(intervals, "optimizer"), 0)));
    cJSON_Delete(part);
}

static void a_validation_batch_has_no_number(void **state)
{
    struct step_row row = step_of(NOT_KNOWN, 1);
    cJSON *step;

    (void)state;
    row.start_ns = 0;
    row.flags = EVENT_STEP_VALIDATION | EVENT_STEP_OPS | EVENT_STEP_KERNELS;
    step = step_json(&row);
    assert_true(cJSON_IsNull(at(step, "number")));
    assert_true(cJSON_IsTrue(at(step, "validation")));
    assert_string_equal(at(step, "recorded")->valuestring, "all");
    cJSON_Delete(step);
}

static void times_keep_their_nanoseconds(void **state)
{
    cJSON *object = cJSON_CreateObject();
    char *text;

    (void)state;
    json_stamp(object, "a", INT64_C(86400000000001));
    json_ms(object, "b", 1234567.0);
    json_stamp(object, "c", NOT_KNOWN);
    json_ms(object, "d", (double)INFINITY);
    text = cJSON_PrintUnformatted(object);
    assert_string_equal(text,
                        "{\"a\":86400000.000001,\"b\":1.234567,\"c\":null,\"d\":null}");
    cJSON_free(text);
    cJSON_Delete(object);
}

static void hostile_names_are_valid_json_and_cut(void **state)
{
    static char name[70000];
    struct op_row rows[] = {
        {.name = "</script><img onerror=x>\"\\\n\xe2\x80\xa8\xff", .kind = "op"},
        {.name = name, .kind = "op"}};
    struct ops_answer answer = {.rows = rows, .row_count = 2};
    cJSON *body, *again;
    char *text;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    body = ops_json(&answer, "self", "cpu");
    text = cJSON_PrintUnformatted(body);
    assert_null(strstr(text, "</script"));
    assert_null(strchr(text, '\n'));
    assert_true(strlen(text) < 8000);
    again = cJSON_Parse(text);
    assert_non_null(again);
    assert_int_equal(cJSON_GetArraySize(at(again, "ops")), 2);
    cJSON_free(text);
    cJSON_Delete(body);
    cJSON_Delete(again);
}

static void
a_finding_says_what_is_not_sure_and_a_dismissed_one_stands_apart(void **state)
{
    static const struct finding_rule rule = {.id = "rule", .owner = 1, .sampled = true};
    static struct judgement judgement;
    static struct finding list[2];
    struct bottlenecks_answer answer = {.head = {.lost_events = 3}};
    struct finding *away = &list[1];
    const cJSON *open, *dismissed, *fixed;
    cJSON *body, *again;
    char *text;

    (void)state;
    judgement.findings.list = list;
    judgement.findings.count = 2;
    list[0] = (struct finding){.id = "first",
                               .rule = &rule,
                               .ns_per_step = 5e6,
                               .low_ns = UNKNOWN,
                               .high_ns = UNKNOWN,
                               .reason = "",
                               .worst_step = NOT_KNOWN,
                               .since_step = NOT_KNOWN};
    *away = list[0];
    away->id = "second";
    away->dismissed = true;
    away->reason = "</script>\xff";
    away->since_step = 7;
    judgement.fixed_count = 1;
    judgement.fixed[0] = (struct standing_entry){
        .id = "third", .title = "\xc3", .fixed_step = 12, .ns_per_step = UNKNOWN};
    body = bottlenecks_judged_json(&answer, &judgement);
    text = cJSON_PrintUnformatted(body);
    assert_null(strstr(text, "</script"));
    again = cJSON_Parse(text);
    assert_non_null(again);
    open = cJSON_GetArrayItem(at(again, "findings"), 0);
    dismissed = cJSON_GetArrayItem(at(again, "dismissed"), 0);
    fixed = cJSON_GetArrayItem(at(again, "fixed"), 0);
    assert_true(cJSON_IsNull(at(open, "ms_per_step_low")));
    assert_false(cJSON_HasObjectItem(open, "reason"));
    assert_true(at(at(open, "evidence"), "lost_events")->valuedouble == 3);
    assert_string_equal(at(dismissed, "id")->valuestring, "second");
    assert_true(at(dismissed, "since_step")->valuedouble == 7);
    assert_true(at(fixed, "fixed_step")->valuedouble == 12);
    assert_true(cJSON_IsNull(at(fixed, "ms_per_step")));
    cJSON_free(text);
    cJSON_Delete(body);
    cJSON_Delete(again);
}

static void without_a_session_what_has_a_unit_is_null_and_counts_are_zero(void **state)
{
    struct steps_answer answer = {
        .head = {.rank = -1, .reason = "no run was seen yet"}};
    cJSON *body = api_finish(NULL, -2, &answer.head, steps_json(&answer));
    const cJSON *train = at(at(body, "summary"), "train");

    (void)state;
    assert_true(cJSON_IsNull(at(body, "session")));
    assert_true(cJSON_IsNull(at(train, "mean_ms")));
    assert_true(cJSON_IsNull(at(train, "steps_per_s")));
    assert_int_equal(at(train, "count")->valueint, 0);
    assert_string_equal(at(body, "reason")->valuestring, "no run was seen yet");
    cJSON_Delete(body);
}

static void an_event_of_many_steps_keeps_the_spike(void **state)
{
    struct step_row rows[400];
    struct steps_answer answer = {.rows = rows, .row_count = 400};
    double longest = 0;
    const cJSON *step;
    cJSON *body;

    (void)state;
    for (int i = 0; i < 400; i++)
        rows[i] = step_of(i, 5);
    rows[217].duration_ns = 99e6;
    body = stream_steps_json(&answer);
    assert_true(cJSON_IsTrue(at(body, "decimated")));
    assert_true(cJSON_GetArraySize(at(body, "steps")) <= (int)STREAM_STEPS_MAX);
    cJSON_ArrayForEach(step, at(body, "steps"))
    {
        if (at(step, "duration_ms")->valuedouble > longest)
            longest = at(step, "duration_ms")->valuedouble;
    }
    assert_true(longest == 99);
    cJSON_Delete(body);
}

static void thinned_memory_keeps_its_peak(void **state)
{
    struct memory_point points[100];
    struct memory_device device = {
        .device = "cuda:0", .points = points, .point_count = 100};
    struct memory_answer answer = {.devices = &device, .device_count = 1};
    double highest = 0;
    const cJSON *list, *point;
    cJSON *body;

    (void)state;
    for (int i = 0; i < 100; i++)
        points[i] = (struct memory_point){i * 1000000, 10, UNKNOWN};
    points[42].allocated = 77;
    body = memory_points_json(&answer, 8);
    list = at(cJSON_GetArrayItem(at(body, "devices"), 0), "points");
    assert_int_equal(cJSON_GetArraySize(list), 8);
    cJSON_ArrayForEach(point, list)
    {
        if (cJSON_GetArrayItem(point, 1)->valuedouble > highest)
            highest = cJSON_GetArrayItem(point, 1)->valuedouble;
        assert_true(cJSON_IsNull(cJSON_GetArrayItem(point, 2)));
    }
    assert_true(highest == 77);
    cJSON_Delete(body);
}

static void numbers_beyond_the_known_names_are_unknown_not_a_crash(void **state)
{
    (void)state;
    assert_string_equal(status_state_word(99), "unknown");
    assert_string_equal(wire_role_word(UINT32_MAX), "unknown");
    assert_string_equal(status_source_word(15), "unknown");
    assert_string_equal(wire_level_word(WIRE_LEVELS), "unknown");
}

static void a_kernel_in_the_stream_has_its_short_name_and_an_op_has_none(void **state)
{
    char name[300], longest[300];
    struct op_row kernels[STREAM_OPS], ops[STREAM_OPS];
    struct ops_answer cpu = {.rows = ops, .row_count = STREAM_OPS};
    struct ops_answer cuda = {.rows = kernels, .row_count = STREAM_OPS};

    (void)state;
    memset(name, 'n', sizeof(name));
    memset(longest, 's', sizeof(longest));
    name[sizeof(name) - 1] = longest[sizeof(longest) - 1] = '\0';
    for (uint32_t i = 0; i < STREAM_OPS; i++) {
        ops[i] = (struct op_row){.name = name,
                                 .kind = "runtime",
                                 .count = 12345678,
                                 .self_ns = 98765432123,
                                 .per_step_ns = 87654321.1,
                                 .per_step_count = 1234.567,
                                 .mean_ns = 7654321.1,
                                 .p95_ns = 9654321.1,
                                 .max_ns = 19654321.1,
                                 .share = 0.123456789,
                                 .error_pct = 12.3456789};
        kernels[i] = ops[i];
        kernels[i].kind = "kernel";
        kernels[i].short_name = longest;
    }
    kernels[1].short_name = "MulFunctor (elementwise)";
    kernels[2].short_name = "";

    cJSON *body = stream_ops_json(&cpu, &cuda);
    const cJSON *rows = at(body, "cuda");
    char *text = cJSON_PrintUnformatted(body);

    assert_null(
        cJSON_GetObjectItem(cJSON_GetArrayItem(at(body, "cpu"), 0), "short_name"));
    assert_string_equal(at(cJSON_GetArrayItem(rows, 1), "short_name")->valuestring,
                        "MulFunctor (elementwise)");
    assert_true(cJSON_IsNull(at(cJSON_GetArrayItem(rows, 2), "short_name")));
    assert_true(strlen(text) <= 8192);
    cJSON_free(text);
    cJSON_Delete(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_phase_is_null_and_a_known_empty_one_is_zero),
        cmocka_unit_test(the_interval_of_a_duration_never_reaches_below_zero),
        cmocka_unit_test(a_validation_batch_has_no_number),
        cmocka_unit_test(times_keep_their_nanoseconds),
        cmocka_unit_test(hostile_names_are_valid_json_and_cut),
        cmocka_unit_test(
            a_finding_says_what_is_not_sure_and_a_dismissed_one_stands_apart),
        cmocka_unit_test(without_a_session_what_has_a_unit_is_null_and_counts_are_zero),
        cmocka_unit_test(an_event_of_many_steps_keeps_the_spike),
        cmocka_unit_test(thinned_memory_keeps_its_peak),
        cmocka_unit_test(numbers_beyond_the_known_names_are_unknown_not_a_crash),
        cmocka_unit_test(a_kernel_in_the_stream_has_its_short_name_and_an_op_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
