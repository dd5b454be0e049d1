#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/query.h"

static struct query query;

static void values_are_decoded(void **state)
{
    (void)state;
    query_parse(&query, "q=a%20b%2Bc+d&session=t-1");
    assert_string_equal(query_text(&query, "q"), "a b+c d");
    assert_string_equal(query_text(&query, "session"), "t-1");
    assert_true(query_done(&query));
}

static void nothing_is_a_query_too(void **state)
{
    (void)state;
    query_parse(&query, NULL);
    assert_true(query_done(&query));
    query_parse(&query, "&&");
    assert_true(query_done(&query));
    assert_null(query_text(&query, "q"));
}

static void a_parameter_that_nobody_asked_for_is_refused_by_name(void **state)
{
    (void)state;
    query_parse(&query, "k=5&limit=3");
    int64_t k = 0;

    assert_true(query_number(&query, "k", 1, 10, &k));
    assert_false(query_done(&query));
    assert_string_equal(query.field, "limit");
}

static void numbers_out_of_range_or_form_are_refused(void **state)
{
    static const char *const wrong[] = {
        "k=-1",   "k=1e9", "k=abc",  "k=",  "k",     "k=0x10",
        "k=1001", "k= 5",  "k=5%00", "k=0", "k=1.5", "k=99999999999999999999",
        "k=--5",  "k=%",   "k=%zz"};
    (void)state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int64_t k = 7;

        query_parse(&query, wrong[i]);
        assert_false(query_number(&query, "k", 1, 1000, &k));
        assert_int_equal(k, 7);
        assert_false(query_done(&query));
        assert_string_equal(query.field, "k");
    }
}

static void the_bounds_themselves_are_allowed(void **state)
{
    int64_t k;

    (void)state;
    query_parse(&query, "k=1&points=1000");
    assert_true(query_number(&query, "k", 1, 1000, &k));
    assert_int_equal(k, 1);
    assert_true(query_number(&query, "points", 1, 1000, &k));
    assert_int_equal(k, 1000);
    assert_true(query_done(&query));
}

static void a_key_given_twice_is_refused(void **state)
{
    (void)state;
    query_parse(&query, "k=1&k=2");
    assert_false(query_done(&query));
    assert_string_equal(query.field, "k");
}

static void the_first_error_is_kept(void **state)
{
    int64_t k;

    (void)state;
    query_parse(&query, "k=x&points=y");
    (void)query_number(&query, "k", 1, 5, &k);
    (void)query_number(&query, "points", 1, 5, &k);
    assert_string_equal(query.field, "k");
}

static void a_hostile_key_is_shown_only_as_far_as_it_is_harmless(void **state)
{
    (void)state;
    query_parse(&query, "ab%22%3E%0d%0aX=1");
    assert_false(query_done(&query));
    assert_string_equal(query.field, "ab");
}

static void a_choice_names_what_it_takes(void **state)
{
    static const char *const choices[] = {"cpu", "cuda", NULL};

    (void)state;
    query_parse(&query, "device=tpu");
    assert_int_equal(query_choice(&query, "device", choices, 0), 0);
    assert_false(query_done(&query));
    assert_non_null(strstr(query.error, "cpu, cuda"));
}

static void too_much_is_refused_and_leaves_a_usable_query(void **state)
{
    static char text[QUERY_BYTES_MAX + 100];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    query_parse(&query, text);
    assert_null(query_text(&query, "a"));
    assert_false(query_done(&query));
    query_parse(&query, "a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1&l=1&m=1&n=1&o=1&p="
                        "1&q=1");
    assert_string_equal(query.field, "q");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_decoded),
        cmocka_unit_test(nothing_is_a_query_too),
        cmocka_unit_test(a_parameter_that_nobody_asked_for_is_refused_by_name),
        cmocka_unit_test(numbers_out_of_range_or_form_are_refused),
        cmocka_unit_test(the_bounds_themselves_are_allowed),
        cmocka_unit_test(a_key_given_twice_is_refused),
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(a_hostile_key_is_shown_only_as_far_as_it_is_harmless),
        cmocka_unit_test(a_choice_names_what_it_takes),
        cmocka_unit_test(too_much_is_refused_and_leaves_a_usable_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
