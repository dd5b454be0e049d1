/* Two documents of `analyze --json` side by side. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/compare.h"
#include "report/members.h"

/* Steps of 100 ms +- 2, an op of `op` ms +- `half` in each, of which no end is below 0;
 * `more` are further rows. */
static cJSON *document(double step, double op, double half, const char *more)
{
    char text[4096];

    snprintf(
        text, sizeof(text),
        "{\"name\":\"x\",\"steps\":50,\"summary\":{\"train\":{\"count\":50,"
        "\"mean_ms\":%f,\"data_ms\":10,\"ci95_ms\":{\"step\":[%f,%f],"
        "\"data\":[9.5,10.5]}}},\"memory_peaks\":[{\"device\":\"cuda:0\","
        "\"bytes\":%f}],\"gpu\":[{\"device\":\"cuda:0\",\"per_step_ms\":{"
        "\"compute\":50,\"idle\":{\"data\":%f,\"sync\":1}}},"
        /* which a stray copy has touched */
        "{\"device\":\"cuda:1\",\"per_step_ms\":{\"compute\":0,\"copy\":0.1,"
        "\"idle\":{\"data\":%f,\"sync\":0}}}],"
        "\"ops\":{\"total\":{\"cpu\":1,\"cuda\":0},\"cpu\":[{\"name\":\"aten::mm\","
        "\"kind\":\"op\",\"per_step_ms\":%f,\"per_step_count\":4,"
        "\"per_step_ci95_ms\":[%f,%f]}],\"cuda\":[%s]}}",
        step, step - 2, step + 2, step * 1e7, step / 10, 2 * step - 80, op,
        op > half ? op - half : 0, op + half, more);
    return cJSON_Parse(text);
}

static cJSON *compare(cJSON *base, cJSON *other)
{
    const cJSON *others[1] = {other};
    cJSON *made;

    assert_non_null(base);
    assert_non_null(other);
    made = compare_documents(base, others, 1);
    cJSON_Delete(base);
    cJSON_Delete(other);
    assert_non_null(made);
    return made;
}

static const cJSON *op_of(const cJSON *comparison, const char *name)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, MEMBER(comparison, "ops"))
    {
        if (strcmp(TEXT(row, "name"), name) == 0)
            return row;
    }
    return NULL;
}

static void a_change_beyond_the_spread_of_the_steps_is_one(void **state)
{
    (void)state;
    cJSON *made = compare(document(100, 20, 1, ""), document(110, 24, 1, ""));

    assert_true(cJSON_IsTrue(MEMBER(made, "step_ms", "changed")));
    assert_float_equal(NUMBER(made, "step_ms", "diff_ms"), 10, 1e-9);
    assert_float_equal(NUMBER(made, "step_ms", "diff_pct"), 10, 1e-9);
    assert_true(cJSON_IsTrue(MEMBER(op_of(made, "aten::mm"), "changed")));
    assert_false(cJSON_IsTrue(MEMBER(made, "phases", "data", "changed")));
    cJSON_Delete(made);
}

static void a_change_inside_the_spread_is_none_and_keeps_its_interval(void **state)
{
    (void)state;
    cJSON *made = compare(document(100, 20, 3, ""), document(102, 24, 3, ""));
    const cJSON *ends = MEMBER(made, "step_ms", "ci95_ms");

    assert_false(cJSON_IsTrue(MEMBER(made, "step_ms", "changed")));
    assert_true(cJSON_GetArrayItem(ends, 0)->valuedouble < 0);
    assert_true(cJSON_GetArrayItem(ends, 1)->valuedouble > 2);
    assert_false(cJSON_IsTrue(MEMBER(op_of(made, "aten::mm"), "changed")));
    cJSON_Delete(made);
}

static void
an_interval_that_stops_at_zero_is_as_wide_as_its_upper_end_says(void **state)
{
    (void)state;
    /* 4.5 apart: within 5 and 1 together, beyond 3.5 and 1. */
    cJSON *made = compare(document(100, 2, 5, ""), document(100, 6.5, 1, ""));

    assert_false(cJSON_IsTrue(MEMBER(op_of(made, "aten::mm"), "changed")));
    cJSON_Delete(made);
}

#define KERNEL(name, ms, count)                                                        \
    "{\"name\":\"" name "\",\"kind\":\"kernel\",\"per_step_ms\":" #ms                  \
    ",\"per_step_count\":" #count ",\"per_step_ci95_ms\":[" #ms "," #ms "]}"

static void a_kernel_whose_name_a_driver_changed_is_the_same_kernel(void **state)
{
    (void)state;
    cJSON *made = compare(document(100, 20, 1, KERNEL("volta_sgemm_64x64_nt", 5, 12)),
                          document(100, 20, 1, KERNEL("volta_sgemm_128x64_nt", 6, 12)));
    const cJSON *row = op_of(made, "volta_sgemm_128x64_nt");

    assert_string_equal(TEXT(row, "state"), "renamed");
    assert_string_equal(TEXT(row, "base_name"), "volta_sgemm_64x64_nt");
    assert_float_equal(NUMBER(row, "diff_ms"), 1, 1e-9);
    cJSON_Delete(made);
}

static void two_candidates_for_a_name_are_new_and_gone(void **state)
{
    (void)state;
    cJSON *made = compare(document(100, 20, 1, KERNEL("volta_sgemm_64x64_nt", 5, 12)),
                          document(100, 20, 1,
                                   KERNEL("volta_sgemm_128x64_nt", 3, 12) "," KERNEL(
                                       "volta_sgemm_256x64_nt", 3, 12)));

    assert_string_equal(TEXT(op_of(made, "volta_sgemm_64x64_nt"), "state"), "gone");
    assert_string_equal(TEXT(op_of(made, "volta_sgemm_128x64_nt"), "state"), "new");
    cJSON_Delete(made);
}

static void a_document_without_anything_compares_to_nulls(void **state)
{
    (void)state;
    cJSON *made = compare(cJSON_Parse("{}"), document(100, 20, 1, ""));

    assert_true(cJSON_IsNull(MEMBER(made, "step_ms", "diff_ms")));
    assert_false(cJSON_IsTrue(MEMBER(made, "step_ms", "changed")));
    assert_string_equal(TEXT(made, "per"), "run");
    cJSON_Delete(made);
}

/* A document with these findings. */
static cJSON *with_findings(const char *list)
{
    cJSON *made = document(100, 20, 1, "");

    cJSON_AddItemToObject(made, "findings", cJSON_Parse(list));
    return made;
}

#define FINDING(id, ms, high) BETWEEN(id, 0, ms, high)
#define BETWEEN(id, low, ms, high)                                                     \
    "{\"id\":\"" id "\",\"title\":\"" id "!\",\"ms_per_step\":" #ms                    \
    ",\"ms_per_step_low\":" #low ",\"ms_per_step_high\":" #high                        \
    ",\"advice\":[\"Cure " id "\",\"Or not\"]}"

static const cJSON *finding_of(const cJSON *comparison, const char *id)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, MEMBER(comparison, "findings"))
    {
        if (strcmp(TEXT(row, "id"), id) == 0)
            return row;
    }
    return NULL;
}

static double change(const char *text)
{
    struct fail_on expression;
    struct fail_on_error wrong;
    struct fail_on_measure measure;
    char reason[200];
    cJSON *made = compare(document(100, 20, 1, ""), document(110, 24, 1, ""));
    double value = (double)NAN;

    assert_int_equal(fail_on_parse(text, FAIL_ON_CHANGE, &expression, &wrong), 0);
    if (compare_look_up(&expression, MEMBER(made, "others")->child, &measure, reason,
                        sizeof(reason)) == 0)
        value = measure.value;
    cJSON_Delete(made);
    return value;
}

static void a_gate_looks_at_changes_in_per_cent_and_else_at_the_other(void **state)
{
    (void)state;
    assert_float_equal(change("step>5%"), 10, 1e-9);
    assert_float_equal(change("step>5ms"), 110, 1e-9);
    assert_float_equal(change("data<-5%"), 0, 1e-9);
    assert_float_equal(change("idle.data>1ms"), 11, 1e-9);
    assert_float_equal(change("idle.data>1%"), 10, 1e-9);
    assert_float_equal(change("memory>1%"), 10, 1e-9);
    assert_true(isnan(change("forward>1%")));
    assert_true(isnan(change("overhead>1%")));
}

static void a_gate_on_idle_time_asks_the_device_that_works(void **state)
{
    (void)state;
    assert_float_equal(change("idle>1ms"), 12, 1e-9);
    assert_float_equal(change("idle.data>1%"), 10, 1e-9);  /* the other: 17 % */
    assert_float_equal(change("idle.launch>1%"), 0, 1e-9); /* none on both sides */
}

static void what_is_kept_of_a_document_compares_as_the_whole_of_it(void **state)
{
    (void)state;
    cJSON *base = document(100, 20, 1, KERNEL("volta_sgemm_64x64_nt", 5, 12));
    cJSON *kept, *other = document(110, 24, 1, ""), *whole, *less;
    static const char *const parts[] = {"step_ms", "phases",   "memory",
                                        "gpu",     "findings", "ops"};

    cJSON_AddItemToObject(base, "findings", cJSON_Parse("[" FINDING("sync", 5, 6) "]"));
    cJSON_AddArrayToObject(other, "findings");
    kept = compare_extract(base);
    whole = compare(base, cJSON_Duplicate(other, true));
    less = compare(kept, other);
    assert_non_null(finding_of(less, "sync"));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_true(
            cJSON_Compare(MEMBER(whole, parts[i]), MEMBER(less, parts[i]), true));
    cJSON_Delete(whole);
    cJSON_Delete(less);
}

static void what_one_side_did_not_keep_is_neither_new_nor_gone(void **state)
{
    (void)state;
    cJSON *base = document(100, 20, 1, ""), *made;

    cJSON_DeleteItemFromObject(base, "ops");
    cJSON_DeleteItemFromObject(base, "memory_peaks");
    cJSON_DeleteItemFromObject(base, "gpu");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(base, "lacks"),
                         cJSON_CreateString("no ops"));
    made = compare(base, document(110, 24, 1, ""));
    assert_float_equal(NUMBER(made, "step_ms", "diff_ms"), 10, 1e-9);
    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "ops")), 0);
    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "memory")), 0);
    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "gpu")), 0);
    assert_true(NUMBER(made->child->next->child, "new_ops") == 0);
    assert_string_equal(members_text(MEMBER(made, "base", "lacks")->child), "no ops");
    cJSON_Delete(made);
}

static void findings_are_gone_or_new_or_have_another_price_dearest_first(void **state)
{
    (void)state;
    cJSON *made = compare(with_findings("[" FINDING("data-loading", 30, 32) "," FINDING(
                              "sync", 5, 6) "," FINDING("copies", 5, 6) "]"),
                          with_findings("[" FINDING("sync", 15, 16) "," FINDING(
                              "copies", 5.5, 7) "," FINDING("gc-pause", 4, 4.5) "]"));
    const cJSON *first = MEMBER(made, "findings")->child, *row;

    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "findings")), 4);
    assert_string_equal(TEXT(first, "id"), "data-loading");
    assert_string_equal(TEXT(first, "title"), "data-loading!");
    assert_string_equal(TEXT(first, "state"), "gone");
    assert_string_equal(TEXT(first, "advice"), "");
    assert_true(cJSON_IsNull(MEMBER(first, "ms_per_step")));
    assert_float_equal(NUMBER(first, "diff_ms"), -30, 1e-9);
    row = first->next;
    assert_string_equal(TEXT(row, "state"), "same");
    assert_float_equal(NUMBER(row, "diff_ms"), 10, 1e-9);
    assert_true(cJSON_IsTrue(MEMBER(row, "changed")));
    row = row->next;
    assert_string_equal(TEXT(row, "state"), "new");
    assert_string_equal(TEXT(row, "advice"), "Cure gc-pause");
    assert_true(cJSON_IsNull(MEMBER(row, "base_ms_per_step")));
    assert_float_equal(NUMBER(row, "diff_ms"), 4, 1e-9);
    assert_false(cJSON_IsTrue(MEMBER(finding_of(made, "copies"), "changed")));
    assert_null(MEMBER(made, "findings_reason"));
    cJSON_Delete(made);
}

static void what_is_not_told_may_take_as_much_as_its_rule_begins_at(void **state)
{
    (void)state;
    cJSON *made = compare(with_findings("[" BETWEEN("gc-pauses", 3.1, 3.2, 3.3) "]"),
                          with_findings("[" BETWEEN("epoch-start", 8.5, 9, 9.5) "]"));
    const cJSON *gone = finding_of(made, "gc-pauses");
    const cJSON *new = finding_of(made, "epoch-start");

    /* Both begin at 3 % of steps of 100 ms. */
    assert_true(cJSON_IsTrue(MEMBER(gone, "changed")));
    assert_float_equal(NUMBER(gone, "diff_ms"), -3.2, 1e-9);
    assert_true(cJSON_IsTrue(MEMBER(new, "changed")));
    cJSON_Delete(made);
    /* Nor may it lie further below than it was sure of. */
    made = compare(with_findings("[" BETWEEN("gc-pauses", 2.5, 3.2, 3.3) "]"),
                   with_findings("[]"));
    assert_string_equal(TEXT(finding_of(made, "gc-pauses"), "state"), "gone");
    assert_false(cJSON_IsTrue(MEMBER(finding_of(made, "gc-pauses"), "changed")));
    cJSON_Delete(made);
}

static void where_nobody_looked_for_findings_none_is_new_or_gone(void **state)
{
    (void)state;
    cJSON *few = with_findings("[]"), *made;

    made = compare(document(100, 20, 1, ""), with_findings("[]"));
    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "findings")), 0);
    assert_non_null(strstr(TEXT(made, "findings_reason"), "of the base"));
    cJSON_Delete(made);
    cJSON_AddStringToObject(few, "findings_reason", "they want more steps");
    made = compare(with_findings("[" FINDING("sync", 5, 6) "]"), few);
    assert_int_equal(cJSON_GetArraySize(MEMBER(made, "findings")), 0);
    assert_non_null(strstr(TEXT(made, "findings_reason"), "more steps"));
    cJSON_Delete(made);
}

static void of_more_findings_than_a_run_can_have_the_rest_is_left_out(void **state)
{
    (void)state;
    cJSON *sides[2], *made;

    for (int i = 0; i < 2; i++) {
        sides[i] = with_findings("[" FINDING("", 1, 1) ",{\"id\":\"none\"},7]");
        for (int j = 0; j < 100; j++) {
            cJSON *one = cJSON_Parse(FINDING("x", 1, 1));
            char id[32];

            snprintf(id, sizeof(id), "rule-%d-%d", i, j);
            cJSON_SetValuestring(cJSON_GetObjectItem(one, "id"), id);
            cJSON_AddItemToArray(cJSON_GetObjectItem(sides[i], "findings"), one);
        }
    }
    made = compare(sides[0], sides[1]);
    assert_in_range(cJSON_GetArraySize(MEMBER(made, "findings")), 50,
                    COMPARE_FINDINGS_MAX);
    assert_null(finding_of(made, "none"));
    cJSON_Delete(made);
}

static double price(const char *text, const char *base, const char *other)
{
    struct fail_on expression;
    struct fail_on_error wrong;
    struct fail_on_measure measure = {0};
    char reason[200];
    cJSON *made = compare(with_findings(base), with_findings(other));
    int error;

    assert_int_equal(fail_on_parse(text, FAIL_ON_CHANGE, &expression, &wrong), 0);
    error = compare_look_up(&expression, MEMBER(made, "others")->child, &measure,
                            reason, sizeof(reason));
    cJSON_Delete(made);
    return error == 0 ? measure.value : (double)NAN;
}

static void
a_gate_on_a_finding_asks_for_its_price_or_what_it_grew_of_a_step(void **state)
{
    static const char five[] = "[" FINDING("data-loading", 5, 6) "]";
    static const char nine[] = "[" FINDING("data-loading", 9, 10) "]";

    (void)state;
    assert_float_equal(price("finding.data-loading>1ms", five, nine), 9, 1e-9);
    assert_float_equal(price("finding.data-loading>1%", five, nine), 4, 1e-9);
    assert_float_equal(price("finding.data-loading>1%", "[]", nine), 9, 1e-9);
    assert_float_equal(price("finding.data-loading<-1%", nine, "[]"), -9, 1e-9);
    assert_float_equal(price("finding.data-loading>1ms", nine, "[]"), 0, 1e-9);
    assert_true(isnan(price("finding.data-loading>1ms", five, "{}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_beyond_the_spread_of_the_steps_is_one),
        cmocka_unit_test(a_change_inside_the_spread_is_none_and_keeps_its_interval),
        cmocka_unit_test(
            an_interval_that_stops_at_zero_is_as_wide_as_its_upper_end_says),
        cmocka_unit_test(a_kernel_whose_name_a_driver_changed_is_the_same_kernel),
        cmocka_unit_test(two_candidates_for_a_name_are_new_and_gone),
        cmocka_unit_test(a_document_without_anything_compares_to_nulls),
        cmocka_unit_test(a_gate_looks_at_changes_in_per_cent_and_else_at_the_other),
        cmocka_unit_test(a_gate_on_idle_time_asks_the_device_that_works),
        cmocka_unit_test(what_is_kept_of_a_document_compares_as_the_whole_of_it),
        cmocka_unit_test(findings_are_gone_or_new_or_have_another_price_dearest_first),
        cmocka_unit_test(what_is_not_told_may_take_as_much_as_its_rule_begins_at),
        cmocka_unit_test(where_nobody_looked_for_findings_none_is_new_or_gone),
        cmocka_unit_test(of_more_findings_than_a_run_can_have_the_rest_is_left_out),
        cmocka_unit_test(
            a_gate_on_a_finding_asks_for_its_price_or_what_it_grew_of_a_step),
        cmocka_unit_test(what_one_side_did_not_keep_is_neither_new_nor_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
