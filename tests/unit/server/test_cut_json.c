/* JSON made valid: what comes out, or that nothing does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cut/cut_json.h"

static void becomes(const char *text, const char *wanted)
{
    struct bytes out = {0};
    bool valid = cut_json_value(&out, text, strlen(text));

    assert_int_equal(valid, wanted != NULL);
    assert_int_equal(out.size, wanted != NULL ? strlen(wanted) : 0);
    if (wanted != NULL)
        assert_memory_equal(out.data, wanted, out.size);
    bytes_close(&out);
}

static void what_is_valid_goes_through_byte_by_byte(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "0",
        "-1.5e+10",
        "true",
        "\"\"",
        "[ 1 ,\t2\n]",
        "[[],{},[{}]]",
        "{\"a\" : {\"b\":[1,\"c\\u00e4\\n\\\"\",null]},\"d\":false}",
        "\"\xc3\xa4\xe2\x82\xac\""};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        becomes(texts[i], texts[i]);
}

static void words_and_what_is_no_number_become_null(void **state)
{
    (void)state;
    becomes("[nan,-inf,N/A,1e,None,-,+,.,1.2.3,--1,0x1f,1e+]",
            "[null,null,null,null,null,null,null,null,null,null,null,null]");
}

static void numbers_that_the_reader_takes_are_written_as_json_has_them(void **state)
{
    (void)state;
    becomes("[+1,01,-007.50,1.,.5,-.5e3,00,+0.e2]", "[1,1,-7.50,1,0.5,-0.5e3,0,0e2]");
}

static void bytes_that_no_string_may_have_are_escaped_or_replaced(void **state)
{
    (void)state;
    becomes("\"C:\\dir\\x\"", "\"C:\\\\dir\\\\x\"");
    becomes("\"a\nb\x1f\"", "\"a\\u000ab\\u001f\"");
    becomes("\"\\u12g4\"", "\"\\\\u12g4\"");
    becomes("\"\xff\xc3\"", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    becomes("\"\xed\xa0\x80\"", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void what_has_another_grammar_comes_to_nothing(void **state)
{
    static const char *const texts[] = {
        "",      "{",         "[1,]",     "{\"a\"}", "{a:1}",
        "[1 2]", "{\"a\" 1}", "[1]]",     "\"a",     "{\"a\":1,}",
        "[}",    "\"a\\\"",   "{\"a\":}", "1 2",     "[1}"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        becomes(texts[i], NULL);
}

static void depth_is_bounded(void **state)
{
    char text[2 * 4096 + 1];

    (void)state;
    memset(text, '[', 4096);
    memset(text + 4096, ']', 4096);
    text[sizeof(text) - 1] = '\0';
    becomes(text, NULL);
    becomes(text + 4096 - 512, NULL); /* more ends than beginnings */
    text[4096 + 512] = '\0';
    becomes(text + 4096 - 512, text + 4096 - 512);
}

static void no_prefix_of_a_value_is_read_beyond_its_end(void **state)
{
    static const char text[] =
        "{\"a\\u00e4\\\\\xc3\xa4\":[1.5e-3,{\"b\":\"\\\"c\"}],\"d\":nan}";

    (void)state;
    for (size_t length = 0; length < sizeof(text) - 1; length++) {
        char *copy = test_malloc(length + 1); /* the end is guarded */
        struct bytes out = {0};

        memcpy(copy, text, length);
        assert_false(cut_json_value(&out, copy, length));
        bytes_close(&out);
        test_free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_valid_goes_through_byte_by_byte),
        cmocka_unit_test(words_and_what_is_no_number_become_null),
        cmocka_unit_test(numbers_that_the_reader_takes_are_written_as_json_has_them),
        cmocka_unit_test(bytes_that_no_string_may_have_are_escaped_or_replaced),
        cmocka_unit_test(what_has_another_grammar_comes_to_nothing),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(no_prefix_of_a_value_is_read_beyond_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
