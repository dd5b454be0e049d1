#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "query/window.h"

static struct window parsed(const char *text)
{
    struct window window;
    const char *reason;

    assert_int_equal(window_parse(text, &window, &reason), 0);
    assert_string_equal(reason, "");
    return window;
}

static void every_form_of_a_window_is_read(void **state)
{
    (void)state;
    assert_int_equal(parsed(NULL).kind, WINDOW_DEFAULT);
    assert_int_equal(parsed("run").kind, WINDOW_RUN);
    assert_int_equal(parsed("10s").a, INT64_C(10000000000));
    assert_int_equal(parsed("10min").a, INT64_C(600000000000));
    assert_int_equal(parsed("100steps").kind, WINDOW_LAST_STEPS);
    assert_int_equal(parsed("epoch:3").a, 3);
    struct window steps = parsed("12-15");

    assert_int_equal(steps.kind, WINDOW_STEPS);
    assert_int_equal(steps.a, 12);
    assert_int_equal(steps.b, 15);
    struct window time = parsed("1.5..20");

    assert_int_equal(time.kind, WINDOW_TIME);
    assert_int_equal(time.a, 1500000);
    assert_int_equal(time.b, 20000000);
}

static void what_is_no_window_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0s",       "-1s",      "s",
        "10",       "10 s",     "9-3",
        "5..5",     "a-b",      "epoch:0",
        "runs",     "1..",      "..2",
        "1-2-3",    "0steps",   "epoch:",
        "epoch:1x", "-",        "1..2..3",
        "epoch:-1", "10steps ", "99999999999999999999s",
    };
    struct window window;
    const char *reason;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(window_parse(bad[i], &window, &reason), -EINVAL);
        assert_true(strlen(reason) > 0);
    }
}

static void a_printed_window_reads_back_as_itself(void **state)
{
    (void)state;
    static const char *const texts[] = {"10s",  "1500ms",  "100steps", "7-7",
                                        "1..2", "epoch:2", "run",      "3h"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct window window = parsed(texts[i]);
        char text[64];

        window_print(&window, text, sizeof(text));
        struct window again = parsed(text);

        assert_int_equal(again.kind, window.kind);
        assert_int_equal(again.a, window.a);
        assert_int_equal(again.b, window.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_window_is_read),
        cmocka_unit_test(what_is_no_window_is_refused_with_a_sentence),
        cmocka_unit_test(a_printed_window_reads_back_as_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
