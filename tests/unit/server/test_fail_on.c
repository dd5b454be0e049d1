#include <cjson/cJSON.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/fail_on.h"

static struct fail_on expression;
static struct fail_on_error wrong;
static struct fail_on_measure measure;
static char reason[200];

static int parse(const char *text)
{
    return fail_on_parse(text, FAIL_ON_ONE_RUN, &expression, &wrong);
}

static void names_comparisons_numbers_and_units_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse("step > 250 ms"), 0);
    assert_int_equal(expression.name, FAIL_ON_STEP);
    assert_true(expression.above);
    assert_float_equal(expression.limit, 250, 0);
    assert_int_equal(parse("step.p95<12.5ms"), 0);
    assert_int_equal(expression.name, FAIL_ON_STEP_P95);
    assert_false(expression.above);
    assert_float_equal(expression.limit, 12.5, 0);
    assert_int_equal(parse("  data>20%  "), 0);
    assert_int_equal(expression.unit, FAIL_ON_PERCENT);
    assert_int_equal(parse("memory > 1.5 GiB"), 0);
    assert_float_equal(expression.limit, 1610612736.0, 0);
    assert_int_equal(parse("overhead > 1 %"), 0);
}

static void every_name_is_read(void **state)
{
    static const char *const all[] = {"step>1ms",      "step.p95>1ms",  "data>1ms",
                                      "forward>1%",    "backward>1%",   "optimizer>1%",
                                      "other>1ms",     "idle>1%",       "idle.data>1ms",
                                      "idle.sync>1ms", "memory>1bytes", "overhead>1%"};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_int_equal(parse(all[i]), 0);
}

static void a_finding_is_named_by_its_rule_or_its_rule_and_subject(void **state)
{
    (void)state;
    assert_int_equal(parse("finding.data-loading>5%"), 0);
    assert_string_equal(expression.subject, "data-loading");
    assert_int_equal(parse("finding.memory-growth-0a1b2c3d>0ms"), 0);
    assert_int_equal(parse("finding.slow-coffee>5%"), -EINVAL);
    assert_int_equal(wrong.at, 8);
    assert_int_equal(parse("finding>5%"), -EINVAL);
    assert_int_equal(parse("finding.memory-growth-xyz>0ms"), -EINVAL);
}

static void a_wrong_expression_says_where(void **state)
{
    static const struct {
        const char *text;
        size_t at;
    } all[] = {
        {"", 0},
        {"stpe > 3 ms", 0},
        {"step 3 ms", 5},
        {"step > ms", 7},
        {"step > 3", 8},
        {"step > 3 GiB", 9},
        {"memory > 3 ms", 11},
        {"step > 3 ms!", 9},
        {"step>3 ms x", 10},
        {"idle.tea > 1 ms", 5},
        {"idle. > 1 ms", 5},
        {"step > 1e3 ms", 8},
        {"step > 0x3 ms", 8},
        {"step > nan ms", 7},
        {"step > 5 %", 7},
        {"data > -5 %", 7},
        {"data >= 5 %", 6},
        {"step > 3. ms", 7},
        {"step > 9999999999999999 ms", 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(parse(all[i].text), -EINVAL);
        assert_int_equal(wrong.at, all[i].at);
        assert_true(wrong.reason[0] != '\0');
    }
}

static void an_expression_that_is_too_long_is_refused(void **state)
{
    char text[400];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(parse(text), -EINVAL);
    memcpy(text, "finding.", 8);
    text[100] = '\0';
    assert_int_equal(parse(text), -EINVAL);
}

static void a_change_may_be_in_per_cent_of_a_step_and_below_zero(void **state)
{
    (void)state;
    assert_int_equal(fail_on_parse("step>5%", FAIL_ON_CHANGE, &expression, &wrong), 0);
    assert_int_equal(fail_on_parse("step < -5 %", FAIL_ON_CHANGE, &expression, &wrong),
                     0);
    assert_float_equal(expression.limit, -5, 0);
    assert_int_equal(fail_on_parse("step < -5 ms", FAIL_ON_CHANGE, &expression, &wrong),
                     -EINVAL);
}

static void only_an_interval_that_lies_beyond_whole_counts(void **state)
{
    (void)state;
    assert_int_equal(parse("step > 100 ms"), 0);
    measure = (struct fail_on_measure){120, 101, 139, false};
    assert_true(fail_on_found(&expression, &measure));
    measure = (struct fail_on_measure){120, 99, 141, false};
    assert_false(fail_on_found(&expression, &measure));
    assert_int_equal(parse("step < 100 ms"), 0);
    assert_false(fail_on_found(&expression, &measure));
    measure = (struct fail_on_measure){80, 70, 90, false};
    assert_true(fail_on_found(&expression, &measure));
    measure = (struct fail_on_measure){100, 100, 100, false};
    assert_false(fail_on_found(&expression, &measure));
}

static const char document[] =
    "{\"steps\":{\"summary\":{\"train\":{\"count\":50,\"mean_ms\":200,\"p95_ms\":260,"
    "\"data_ms\":50,\"other_ms\":null,\"ci95_ms\":{\"step\":[190,210],"
    "\"step.p95\":[null,null],\"data\":[40,60],\"other\":[null,null]}}}},"
    "\"bottlenecks\":{\"steps_needed\":10,\"findings\":[{\"id\":\"data-loading\",\"ms_"
    "per_step\":30,"
    "\"ms_per_step_low\":20,\"ms_per_step_high\":40},{\"id\":\"memory-growth-"
    "12345678\",\"ms_per_step\":0}],"
    "\"dismissed\":[{\"id\":\"tiny-ops\",\"ms_per_step\":20,\"ms_per_step_low\":"
    "null,\"ms_per_step_high\":null}]},"
    "\"memory\":{\"devices\":[{\"device\":\"cpu\",\"peak_bytes\":9e9,\"total_bytes\":"
    "1e10},"
    "{\"device\":\"cuda:0\",\"peak_bytes\":4e9,\"total_bytes\":8e9}]},"
    /* A stray copy on the first, the training on the second. */
    "\"gpu\":{\"busiest\":\"cuda:1\",\"devices\":["
    "{\"device\":\"cuda:0\",\"per_step_ms\":{\"idle\":{\"data\":150,\"sync\":40,"
    "\"unknown\":null}}},"
    "{\"device\":\"cuda:1\",\"per_step_ms\":{\"idle\":{\"data\":5,\"sync\":20,"
    "\"unknown\":null}}}]},"
    "\"overhead\":{\"measured_pct\":0.8,\"ci95_pct\":[0.5,1.1]}}";

static double steps = 50;

static int look_up(const char *text)
{
    cJSON *report = cJSON_Parse(document);

    assert_non_null(report);
    cJSON_SetNumberValue(
        cJSON_GetObjectItem(
            cJSON_GetObjectItem(
                cJSON_GetObjectItem(cJSON_GetObjectItem(report, "steps"), "summary"),
                "train"),
            "count"),
        steps);
    assert_int_equal(parse(text), 0);
    int error = fail_on_look_up(&expression, report, &measure, reason, sizeof(reason));

    cJSON_Delete(report);
    return error;
}

static void numbers_come_with_their_interval_and_in_the_unit_asked_for(void **state)
{
    (void)state;
    assert_int_equal(look_up("step > 1 ms"), 0);
    assert_float_equal(measure.value, 200, 0);
    assert_float_equal(measure.low, 190, 0);
    assert_int_equal(look_up("data > 1 %"), 0);
    assert_float_equal(measure.value, 25, 1e-9);
    assert_float_equal(measure.high, 30, 1e-9);
    assert_int_equal(look_up("overhead > 1 %"), 0);
    assert_float_equal(measure.high, 1.1, 1e-9);
}

static void the_fullest_accelerator_and_the_gpu_that_works_answer(void **state)
{
    (void)state;
    assert_int_equal(look_up("memory > 1 GiB"), 0);
    assert_float_equal(measure.value, 4e9, 0);
    assert_int_equal(look_up("memory > 1 %"), 0);
    assert_float_equal(measure.value, 50, 1e-9);
    assert_int_equal(look_up("idle > 1 ms"), 0);
    assert_float_equal(measure.value, 25, 0);
    assert_int_equal(look_up("idle.sync > 1 %"), 0);
    assert_float_equal(measure.value, 10, 1e-9);
}

static void a_finding_is_as_sure_as_its_own_interval(void **state)
{
    (void)state;
    assert_int_equal(look_up("finding.data-loading > 1 ms"), 0);
    assert_float_equal(measure.value, 30, 0);
    assert_float_equal(measure.low, 20, 0);
    assert_int_equal(look_up("finding.tiny-ops > 1 ms"), 0);
    assert_float_equal(measure.value, 20, 0); /* sent away from the page, still there */
    assert_float_equal(measure.low, 0, 0);
    assert_int_equal(look_up("finding.optimizer-loop > 0 ms"), 0);
    assert_float_equal(measure.value, 0, 0); /* looked for, not found */
    assert_false(fail_on_found(&expression, &measure));
}

static void a_finding_without_a_price_is_above_nothing_and_no_more(void **state)
{
    char text[64];

    (void)state;
    assert_int_equal(look_up("finding.memory-growth > 0 ms"), 0);
    assert_true(fail_on_found(&expression, &measure));
    fail_on_describe(&expression, &measure, text, sizeof(text));
    assert_string_equal(text, "it stands, without a price");
    assert_int_equal(look_up("finding.memory-growth > 1 ms"), 0);
    assert_false(fail_on_found(&expression, &measure));
}

static void
findings_are_judged_of_as_many_steps_as_they_were_looked_for_in(void **state)
{
    (void)state;
    steps = 10;
    assert_int_equal(look_up("finding.data-loading > 1 ms"), 0);
    steps = 9;
    assert_int_equal(look_up("finding.data-loading > 1 ms"), -ENODATA);
    steps = 50;
}

static void what_was_not_seen_is_no_data(void **state)
{
    (void)state;
    assert_int_equal(look_up("other > 1 ms"), -ENODATA);
    assert_int_equal(look_up("forward > 1 ms"), -ENODATA);
    assert_int_equal(look_up("step.p95 > 1 ms"), -ENODATA);
    assert_true(strstr(reason, "50 steps are too few") != NULL);
    for (int i = 0; i < 2; i++) {
        cJSON *report = i == 0 ? NULL : cJSON_Parse("{\"steps\":[],\"gpu\":3}");

        for (int name = 0; name < FAIL_ON_NAMES; name++) {
            expression = (struct fail_on){.name = (enum fail_on_name)name};
            assert_int_equal(
                fail_on_look_up(&expression, report, &measure, reason, sizeof(reason)),
                -ENODATA);
        }
        cJSON_Delete(report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_comparisons_numbers_and_units_are_read),
        cmocka_unit_test(every_name_is_read),
        cmocka_unit_test(a_finding_is_named_by_its_rule_or_its_rule_and_subject),
        cmocka_unit_test(a_wrong_expression_says_where),
        cmocka_unit_test(an_expression_that_is_too_long_is_refused),
        cmocka_unit_test(a_change_may_be_in_per_cent_of_a_step_and_below_zero),
        cmocka_unit_test(only_an_interval_that_lies_beyond_whole_counts),
        cmocka_unit_test(numbers_come_with_their_interval_and_in_the_unit_asked_for),
        cmocka_unit_test(the_fullest_accelerator_and_the_gpu_that_works_answer),
        cmocka_unit_test(a_finding_is_as_sure_as_its_own_interval),
        cmocka_unit_test(a_finding_without_a_price_is_above_nothing_and_no_more),
        cmocka_unit_test(
            findings_are_judged_of_as_many_steps_as_they_were_looked_for_in),
        cmocka_unit_test(what_was_not_seen_is_no_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
