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

#include "report/report.h"

/* True when the evidence `sentence` stands in the report as `told`. */
static bool reads(const char *sentence, const char *told)
{
    cJSON *report = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(cJSON_AddObjectToObject(report, "bottlenecks"),
                                         "findings");
    cJSON *finding = cJSON_CreateObject();
    char *text = NULL, line[200];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    cJSON_AddItemToArray(list, finding);
    cJSON_AddStringToObject(finding, "title", "A title");
    cJSON_AddStringToObject(finding, "formula", "1 + 1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(finding, "evidence"), "sentence",
                            sentence);
    report_write_markdown(report, out);
    assert_int_equal(fclose(out), 0);
    (void)snprintf(line, sizeof(line), "\n%s (1 + 1).\n", told);
    bool found = strstr(text, line) != NULL;

    free(text);
    cJSON_Delete(report);
    return found;
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

static void a_verdict_stands_before_what_is_found(void **state)
{
    (void)state;
    cJSON *report = cJSON_CreateObject();
    cJSON *bottlenecks = cJSON_AddObjectToObject(report, "bottlenecks");

    assert_non_null(cJSON_AddStringToObject(bottlenecks, "verdict", "Bound by `<b>`."));
    for (uint32_t html = 0; html < 2; html++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        if (html == 1)
            report_write_html(report, out);
        else
            report_write_markdown(report, out);
        assert_int_equal(fclose(out), 0);
        assert_non_null(
            strstr(text, html == 1 ? "<p>Bound by `&lt;b&gt;`.</p>" : "\nBound by"));
        assert_null(strstr(text, "Nothing stands out"));
        free(text);
    }
    cJSON_Delete(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_in_a_sentence_stays_code),
        cmocka_unit_test(names_between_the_words_are_no_markup),
        cmocka_unit_test(a_verdict_stands_before_what_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
