#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "command/arguments.h"

static struct invocation invocation;
static char words[16][64];
static char *argv[18];

static int parse(const char *name, const char *const *given, int count)
{
    static char *const environment[] = {NULL};

    memset(&invocation, 0, sizeof(invocation));
    for (invocation.command = commands; invocation.command->name != NULL;
         invocation.command++)
        if (strcmp(invocation.command->name, name) == 0)
            break;
    assert_non_null(invocation.command->name);
    for (int i = 0; i < count; i++) {
        strncpy(words[i], given[i], sizeof(words[i]) - 1);
        argv[i + 1] = words[i];
    }
    argv[count + 1] = NULL;
    return arguments_parse(&invocation, count + 1, argv, NULL, environment);
}

#define PARSE(name, ...)                                                               \
    parse(name, (const char *const[]){__VA_ARGS__},                                    \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void what_follows_the_command_belongs_to_it(void **state)
{
    (void)state;
    assert_int_equal(PARSE("run", "--port", "90", "python", "--port", "7", "--", "-x"),
                     0);
    assert_int_equal(options_number(&invocation.options, OPTION_PORT), 90);
    assert_int_equal(invocation.argc, 5);
    assert_string_equal(invocation.argv[0], "python");
    assert_string_equal(invocation.argv[3], "--");
    assert_string_equal(invocation.argv[4], "-x");
    assert_null(invocation.argv[5]);
}

static void a_word_before_the_command_may_have_flags_behind_it(void **state)
{
    (void)state;
    assert_int_equal(
        PARSE("selftest", "overhead", "--pairs", "3", "python", "--pairs", "7"), 0);
    assert_string_equal(invocation.flags[0], "3");
    assert_int_equal(invocation.argc, 4);
    assert_string_equal(invocation.argv[1], "python");
    assert_int_equal(PARSE("selftest", "overhead", "--", "--odd-program"), 0);
    assert_string_equal(invocation.argv[1], "--odd-program");
    assert_int_equal(PARSE("selftest", "overhead"), -EINVAL);
}

static void a_double_dash_ends_the_flags(void **state)
{
    (void)state;
    assert_int_equal(PARSE("run", "--no-server", "--", "--odd-program", "--help"), 0);
    assert_non_null(invocation.flags[1]);
    assert_int_equal(invocation.argc, 2);
    assert_string_equal(invocation.argv[0], "--odd-program");
}

static void a_value_is_taken_with_an_equals_sign_or_from_the_next_word(void **state)
{
    (void)state;
    assert_int_equal(PARSE("run", "--name=a=b", "--base-path", "/p", "true"), 0);
    assert_string_equal(invocation.flags[0], "a=b");
    assert_string_equal(options_text(&invocation.options, OPTION_BASE_PATH), "/p");
}

static void flags_have_two_spellings_and_no_abbreviation(void **state)
{
    (void)state;
    assert_int_equal(PARSE("serve", "--base_path=/a"), 0);
    assert_int_equal(PARSE("serve", "--base-pa", "/a"), -EINVAL);
    assert_int_equal(PARSE("serve", "-port", "80"), -EINVAL);
    assert_int_equal(PARSE("cut", "a", "-o", "b"), 0);
    assert_int_equal(PARSE("cut", "a", "-ob"), -EINVAL);
    assert_int_equal(PARSE("cut", "a", "--o", "b"), -EINVAL);
}

static void help_is_answered_before_anything_is_checked(void **state)
{
    (void)state;
    assert_int_equal(PARSE("run", "--help"), 1);
    assert_int_equal(PARSE("serve", "--port", "99999", "-h"), 1);
}

static void usage_errors_say_what_and_where(void **state)
{
    (void)state;
    assert_int_equal(PARSE("run", "--no-server"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "CMD"));
    assert_int_equal(PARSE("serve", "--prot", "80"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "--prot"));
    assert_non_null(strstr(invocation.options.error, "trainglass serve --help"));
    assert_int_equal(PARSE("serve", "--port"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "wants a value"));
    assert_int_equal(PARSE("clean", "extra"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "extra"));
    assert_int_equal(PARSE("run", "--no-server=1", "true"), -EINVAL);
    assert_int_equal(PARSE("run", "--port", "99999", "true"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "from 0 to 65535"));
}

static void a_setting_that_a_command_does_not_heed_is_refused(void **state)
{
    (void)state;
    assert_int_equal(PARSE("clean", "--port", "80"), -EINVAL);
    assert_int_equal(PARSE("serve", "--budget", "2"), -EINVAL);
}

static void
a_flag_with_two_values_is_asked_back_and_one_that_repeats_keeps_all(void **state)
{
    const char *values[COMMAND_REPEATS];

    (void)state;
    assert_int_equal(PARSE("run", "--name", "a", "--name", "b", "x"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "--name 'a' and --name 'b'"));
    assert_int_equal(PARSE("run", "--name", "a", "--name=a", "x"), 0);
    assert_int_equal(PARSE("run", "--report", "a.md", "--fail-on", "step > 1 ms",
                           "--report", "b.json", "x"),
                     0);
    assert_int_equal(command_values(&invocation, "--report", values), 2);
    assert_string_equal(values[0], "a.md");
    assert_string_equal(values[1], "b.json");
    assert_int_equal(command_values(&invocation, "--fail-on", values), 1);
    assert_string_equal(values[0], "step > 1 ms");
}

static void a_config_file_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(PARSE("serve", "--config", "/nonexistent/x.conf"), -EINVAL);
    assert_non_null(strstr(invocation.options.error, "/nonexistent/x.conf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_the_command_belongs_to_it),
        cmocka_unit_test(a_word_before_the_command_may_have_flags_behind_it),
        cmocka_unit_test(a_double_dash_ends_the_flags),
        cmocka_unit_test(a_value_is_taken_with_an_equals_sign_or_from_the_next_word),
        cmocka_unit_test(flags_have_two_spellings_and_no_abbreviation),
        cmocka_unit_test(help_is_answered_before_anything_is_checked),
        cmocka_unit_test(usage_errors_say_what_and_where),
        cmocka_unit_test(a_setting_that_a_command_does_not_heed_is_refused),
        cmocka_unit_test(
            a_flag_with_two_values_is_asked_back_and_one_that_repeats_keeps_all),
        cmocka_unit_test(a_config_file_that_is_not_there_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
