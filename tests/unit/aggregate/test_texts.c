#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/texts.h"

static void equal_names_get_one_id_and_keep_their_text(void **state)
{
    (void)state;
    struct texts *texts = texts_new();
    char name[32];

    for (uint32_t i = 0; i < 10000; i++) {
        int length = snprintf(name, sizeof(name), "aten::op_%u", i);

        assert_int_equal(texts_intern(texts, name, (size_t)length), i + 1);
    }
    assert_int_equal(texts_intern(texts, "aten::op_77", 11), 78);
    assert_string_equal(texts_get(texts, 78), "aten::op_77");
    assert_string_equal(texts_get(texts, 0), "");
    assert_string_equal(texts_get(texts, 99999999), "");
    texts_release(texts);
}

static void foreign_bytes_come_out_as_clean_utf_8(void **state)
{
    (void)state;
    char clean[64];

    texts_clean("a\xff\nb\xc3\xa9\xed\xa0\x80", 9, clean, sizeof(clean));
    assert_string_equal(clean, "a\xef\xbf\xbd\xef\xbf\xbd"
                               "b\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    texts_clean("\xe2\x82", 2, clean, sizeof(clean));
    assert_string_equal(clean, "\xef\xbf\xbd\xef\xbf\xbd");
    texts_clean("abcdef\xc3\xa9", 8, clean, 8);
    assert_string_equal(clean, "abcdef");
}

static void a_full_table_gives_id_0_and_counts(void **state)
{
    (void)state;
    struct texts *texts = texts_new();
    char name[32];

    for (uint32_t i = 0; i < TEXTS_MAX + 100; i++) {
        int length = snprintf(name, sizeof(name), "%u", i);

        (void)texts_intern(texts, name, (size_t)length);
    }
    assert_int_equal(texts_refused(texts), 101);
    assert_int_equal(texts_intern(texts, "5", 1), 6);
    assert_int_equal(texts_intern(texts, "none", 4), 0);
    texts_release(texts);
}

static void names_of_ranges_and_steps_are_told_from_ops(void **state)
{
    (void)state;
    struct texts *texts = texts_new();
    uint32_t step = texts_intern(texts, "ProfilerStep#12", 15);
    uint32_t loader = texts_intern(texts, "enumerate(DataLoader)#x", 23);
    uint32_t op = texts_intern(texts, "aten::mm", 8);

    assert_int_equal(texts_class(texts, step), TEXT_STEP);
    assert_int_equal(texts_class(texts, loader), TEXT_ANNOTATION);
    assert_int_equal(texts_class(texts, op), TEXT_PLAIN);
    texts_release(texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_names_get_one_id_and_keep_their_text),
        cmocka_unit_test(foreign_bytes_come_out_as_clean_utf_8),
        cmocka_unit_test(a_full_table_gives_id_0_and_counts),
        cmocka_unit_test(names_of_ranges_and_steps_are_told_from_ops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
