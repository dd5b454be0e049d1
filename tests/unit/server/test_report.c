/* The report as Markdown: what it says is read as it is meant. */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/members.h"
#include "report/report.h"

/* A report of one finding with that title, evidence and advice, as Markdown: to be freed. */
static char *written(const char *title, const char *sentence, const char *advice)
{
    cJSON *report = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(cJSON_AddObjectToObject(report, "bottlenecks"),
                                         "findings");
    cJSON *finding = cJSON_CreateObject();
    cJSON *list_of_advice = cJSON_AddArrayToObject(finding, "advice");
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    cJSON_AddItemToArray(list, finding);
    cJSON_AddStringToObject(finding, "title", title);
    cJSON_AddStringToObject(finding, "formula", "1 + 1");
    cJSON_AddStringToObject(finding, "wrong_if", advice);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(finding, "evidence"), "sentence",
                            sentence);
    cJSON_AddItemToArray(list_of_advice, cJSON_CreateString(advice));
    assert_int_equal(report_write_markdown(report, out), 0);
    assert_int_equal(fclose(out), 0);
    cJSON_Delete(report);
    return text;
}

/* True when the evidence `sentence` stands in the report as `told`. */
static bool reads(const char *sentence, const char *told)
{
    char *text = written("A title", sentence, "None"), line[200];

    (void)snprintf(line, sizeof(line), "\n%s (1 + 1).\n", told);
    bool found = strstr(text, line) != NULL;

    free(text);
    return found;
}

static void what_was_lost_is_said_in_a_sentence(void **state)
{
    (void)state;
    char losses[MEMBERS_LOSSES_BYTES];
    cJSON *session = cJSON_CreateObject();

    assert_string_equal(members_losses(losses, session), "");
    assert_string_equal(members_losses(losses, NULL), "");
    cJSON_AddNumberToObject(session, "lost_events", 1200);
    cJSON_AddNumberToObject(session, "threads_refused", 0);
    cJSON_AddNumberToObject(session, "late_events", 1);
    assert_string_equal(members_losses(losses, session),
                        "1200 events were lost: they are missing from ops and traces. "
                        "1 event came after its step was closed.");
    cJSON_Delete(session);
}

static void code_in_a_sentence_stays_code(void **state)
{
    (void)state;
    assert_true(
        reads("metrics, `zero_grad` and `a[0]`", "metrics, `zero_grad` and `a[0]`"));
}

static void names_between_the_words_are_no_markup(void **state)
{
    (void)state;
    assert_true(reads("the op my_own_op*", "the op my\\_own\\_op\\*"));
    assert_true(reads("`![x](y) and no end", "`!\\[x\\](y) and no end"));
    assert_true(reads("```![x](y)`", "```!\\[x\\](y)`"));
    assert_true(reads("`<img>`", "`&lt;img>`"));
}

static void figures_of_the_evidence_have_their_units(void **state)
{
    (void)state;
    static const struct finding_evidence shown[] = {
        {.key = "worst_extra_ms", .number = 40.71},
        {.key = "compile_ms", .number = 2400},
        {.key = "call_ms", .number = 0.0412},
        {.key = "mean_us", .number = 12.4},
        {.key = "left_ms", .number = 0.631},
        {.key = "limit_bytes", .number = 1956.0 * (1u << 30)},
        {.key = "small_bytes", .number = 1023},
        {.key = "used_bytes", .number = 3.0 * (1u << 30)},
        {.key = "share_pct", .number = 17.04},
        {.key = "workers", .number = 2},
        {.key = "kernels_per_step", .number = 1184},
        {.key = "allocated_bytes_per_step", .number = 2u << 20},
        {.key = "bytes_per_s", .number = 1u << 20},
        {.key = "per_step_ms", .number = 7},
        {.key = "full_in_h", .number = 1.5},
        {.key = "batch", .number = 3},
        {.key = "op", .text = "aten::mm_per_step"}};
    static const char *const told[] = {"worst extra 40.7 ms",
                                       "compile 2.4 s",
                                       "call 41.2 us",
                                       "mean 12.4 us",
                                       "left 631 us",
                                       "limit 1956 GiB",
                                       "small 1023 bytes",
                                       "used 3 GiB",
                                       "share 17 %",
                                       "workers 2",
                                       "kernels 1184 per step",
                                       "allocated 2 MiB per step",
                                       "size 1 MiB per s",
                                       "per step 7 ms",
                                       "full in 1.5 h",
                                       "batch 3",
                                       "op aten::mm_per_step"};

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        struct figure figure;
        char text[200];

        figure_of(&shown[i], &figure);
        (void)snprintf(text, sizeof(text), "%s %s", figure.name, figure.value);
        assert_string_equal(text, told[i]);
    }
}

static void evidence_of_a_finding_is_cut_and_no_markup(void **state)
{
    (void)state;
    char name[600];
    cJSON *report = cJSON_CreateObject(), *finding = cJSON_CreateObject(), *evidence;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    memset(name, 'n', sizeof(name));
    memcpy(name + 156, "\xc3\xa4\xc3\xa4\xc3\xa4", 6);
    name[sizeof(name) - 1] = '\0';
    assert_non_null(out);
    cJSON_AddItemToArray(
        cJSON_AddArrayToObject(cJSON_AddObjectToObject(report, "bottlenecks"),
                               "findings"),
        finding);
    cJSON_AddStringToObject(finding, "title", "A title");
    cJSON_AddNumberToObject(finding, "ms_per_step", 12);
    cJSON_AddNumberToObject(finding, "share", 12.5);
    evidence = cJSON_AddObjectToObject(finding, "evidence");
    cJSON_AddStringToObject(evidence, "kernel", name);
    cJSON_AddStringToObject(evidence, "op", "`<b>|");
    cJSON_AddNumberToObject(evidence, "kernel_ms", 7);
    cJSON_AddNullToObject(evidence, "idle_ms");
    cJSON_AddNumberToObject(evidence, "worst_step", 41);
    cJSON_AddStringToObject(evidence, "trace", "/api/trace?step=41");
    assert_int_equal(report_write_markdown(report, out), 0);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "12 ms per step, 1250 % of it"));
    assert_non_null(strstr(text,
                           "n\xc3\xa4\xc3\xa4…; op \\`&lt;b>\\|; kernel 7 ms; the "
                           "worst step is 41, its trace `/api/trace?step=41` while"));
    assert_null(strstr(text, "idle"));
    free(text);
    cJSON_Delete(report);
}

/* free() is owed. */
static char *report_by(const cJSON *report, int (*write)(const cJSON *, FILE *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(write(report, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void of_too_few_steps_nobody_says_that_nothing_stands_out(void **state)
{
    (void)state;
    cJSON *report = cJSON_CreateObject();
    cJSON *bottlenecks = cJSON_AddObjectToObject(report, "bottlenecks");

    assert_non_null(cJSON_AddNumberToObject(bottlenecks, "steps", 3));
    assert_non_null(cJSON_AddNumberToObject(bottlenecks, "steps_needed", 10));
    for (uint32_t html = 0; html < 2; html++) {
        char *text =
            report_by(report, html == 1 ? report_write_html : report_write_markdown);

        assert_non_null(
            strstr(text, "Too few steps to tell: 3 of the 10 that it takes."));
        assert_null(strstr(text, "Nothing stands out"));
        free(text);
    }
    cJSON_Delete(report);
}

static void a_verdict_stands_before_what_is_found(void **state)
{
    (void)state;
    cJSON *report = cJSON_CreateObject();
    cJSON *bottlenecks = cJSON_AddObjectToObject(report, "bottlenecks");

    assert_non_null(cJSON_AddStringToObject(bottlenecks, "verdict", "Bound by `<b>`."));
    for (uint32_t html = 0; html < 2; html++) {
        char *text =
            report_by(report, html == 1 ? report_write_html : report_write_markdown);

        assert_non_null(strstr(text, html == 1
                                         ? "<p>Bound by <code>&lt;b&gt;</code>.</p>"
                                         : "\nBound by"));
        assert_null(strstr(text, "Nothing stands out"));
        free(text);
    }
    cJSON_Delete(report);
}

static void names_in_titles_and_advice_are_no_markup_either(void **state)
{
    char *text =
        written("`a`[b](c)`` makes steps | longer\n# no", "", "Make `<b>`[x](y) 8*8");

    (void)state;
    assert_non_null(
        strstr(text, "\n### `a`\\[b\\](c)`` makes steps \\| longer \\# no\n"));
    assert_non_null(strstr(text, "\n- Make `&lt;b>`\\[x\\](y) 8\\*8\n"));
    assert_non_null(strstr(text, "\nWrong if: Make `&lt;b>`\\[x\\](y) 8\\*8\n"));
    free(text);
}

static char *written_as(int (*write)(const cJSON *, FILE *), const cJSON *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(write(report, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void a_risk_that_is_gone_has_cost_no_0_ms(void **state)
{
    static const char was[] =
        "{\"bottlenecks\":{\"findings\":[],"
        "\"fixed\":[{\"title\":\"A risk\",\"ms_per_step\":0,\"fixed_step\":12},"
        "{\"title\":\"A cost\",\"ms_per_step\":3,\"fixed_step\":13}],"
        "\"dismissed\":[{\"title\":\"Another\",\"ms_per_step\":0,\"reason\":\"Known\"}]"
        "}}";
    cJSON *report = cJSON_Parse(was);

    (void)state;
    assert_non_null(report);
    char *markdown = written_as(report_write_markdown, report);
    char *html = written_as(report_write_html, report);

    assert_non_null(strstr(markdown, "Fixed since step 12: A risk.\n"));
    assert_non_null(
        strstr(markdown, "Fixed since step 13: A cost, it cost 3 ms per step.\n"));
    assert_non_null(strstr(markdown, "Dismissed: Another. Known\n"));
    assert_non_null(strstr(html, "Fixed since step 12: A risk</p>"));
    assert_non_null(strstr(html, "Dismissed: Another. Known</p>"));
    free(markdown);
    free(html);
    cJSON_Delete(report);
}

static void what_a_step_would_take_is_in_both_reports(void **state)
{
    static const char asked[] =
        "{\"bottlenecks\":{\"findings\":[],\"what_if\":[{\"title\":\"With data loading "
        "hidden\",\"step_ms_low\":158,\"step_ms_high\":162}]}}";
    static const char told[] =
        "With data loading hidden, a step would take 158 ms to 162 ms.";
    cJSON *report = cJSON_Parse(asked);

    (void)state;
    char *markdown = written_as(report_write_markdown, report);
    char *html = written_as(report_write_html, report);

    assert_non_null(strstr(markdown, told));
    assert_non_null(strstr(html, told));
    free(markdown);
    free(html);
    cJSON_Delete(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_in_a_sentence_stays_code),
        cmocka_unit_test(what_was_lost_is_said_in_a_sentence),
        cmocka_unit_test(names_between_the_words_are_no_markup),
        cmocka_unit_test(figures_of_the_evidence_have_their_units),
        cmocka_unit_test(evidence_of_a_finding_is_cut_and_no_markup),
        cmocka_unit_test(of_too_few_steps_nobody_says_that_nothing_stands_out),
        cmocka_unit_test(a_verdict_stands_before_what_is_found),
        cmocka_unit_test(names_in_titles_and_advice_are_no_markup_either),
        cmocka_unit_test(a_risk_that_is_gone_has_cost_no_0_ms),
        cmocka_unit_test(what_a_step_would_take_is_in_both_reports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
