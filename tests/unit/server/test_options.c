#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "command/config.h"
#include "command/options.h"

static struct options options;

static int set_up(void **state)
{
    (void)state;
    options_init(&options);
    return 0;
}

static int set(enum option_id id, const char *text)
{
    return options_set(&options, id, text, OPTION_FROM_FLAG, "--flag");
}

static int read_text(const char *text)
{
    return config_read_text(&options, text, strlen(text), OPTION_FROM_FILE, "my.conf");
}

static void every_default_lies_in_its_own_range(void **state)
{
    (void)state;
    assert_int_equal(options_number(&options, OPTION_PORT), 8080);
    assert_int_equal(options_number(&options, OPTION_HISTORY), INT64_C(256) << 20);
    assert_int_equal(options_number(&options, OPTION_LINGER), 600000);
    assert_string_equal(options_text(&options, OPTION_LEVEL), "auto");
}

static void a_number_outside_of_its_range_is_refused_with_the_range(void **state)
{
    (void)state;
    assert_int_equal(set(OPTION_PORT, "65536"), -EINVAL);
    assert_string_equal(options.error,
                        "--flag: port is '65536', not a whole number from "
                        "0 to 65535");
    assert_int_equal(options_number(&options, OPTION_PORT), 8080);
    assert_int_equal(set(OPTION_BUDGET, "100.5"), -EINVAL);
    assert_non_null(strstr(options.error, "from 0 to 100 %"));
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "abc", "80x",   "0x50", "8e99",
                                        "nan", "inf", "1.5",   "-1",   " 80",
                                        "8 0", "+80", "80;90", "1e400"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(set(OPTION_PORT, wrong[i]), -EINVAL);
}

static void sizes_and_times_take_their_units(void **state)
{
    (void)state;
    assert_int_equal(set(OPTION_HISTORY, "1.5GiB"), 0);
    assert_int_equal(options_number(&options, OPTION_HISTORY), INT64_C(1536) << 20);
    assert_int_equal(set(OPTION_HISTORY, "2 mib"), 0);
    assert_int_equal(options_number(&options, OPTION_HISTORY), INT64_C(2) << 20);
    assert_int_equal(set(OPTION_LINGER, "90s"), 0);
    assert_int_equal(options_number(&options, OPTION_LINGER), 90000);
    assert_int_equal(set(OPTION_LINGER, "0"), 0);
    assert_int_equal(options_number(&options, OPTION_LINGER), 0);
    assert_int_equal(set(OPTION_LINGER, "forever"), 0);
    assert_true(options_number(&options, OPTION_LINGER) == OPTION_FOREVER);
    assert_int_equal(set(OPTION_LINGER, "10"), -EINVAL);
    assert_int_equal(set(OPTION_LINGER, "3 days"), -EINVAL);
    assert_int_equal(set(OPTION_HISTORY, "1PiB"), -EINVAL);
}

static void a_choice_is_one_of_its_words_and_no_part_of_one(void **state)
{
    (void)state;
    assert_int_equal(set(OPTION_LEVEL, "kernels"), 0);
    assert_int_equal(options_number(&options, OPTION_LEVEL), 4);
    assert_int_equal(set(OPTION_LEVEL, "ker"), -EINVAL);
    assert_int_equal(set(OPTION_LEVEL, "ops|all"), -EINVAL);
    assert_int_equal(set(OPTION_LEVEL, ""), -EINVAL);
}

static void control_characters_never_get_in(void **state)
{
    (void)state;
    assert_int_equal(set(OPTION_ALLOW_HOST, "a\r\nSet-Cookie: b"), -EINVAL);
    assert_int_equal(set(OPTION_ALLOW_HOST, "gpu7.example"), 0);
}

static void a_token_is_not_repeated_in_an_error(void **state)
{
    (void)state;
    assert_int_equal(set(OPTION_TOKEN, "secret\n"), -EINVAL);
    assert_null(strstr(options.error, "secret"));
}

static void a_flag_wins_over_environment_file_and_default(void **state)
{
    (void)state;
    static char port[] = "TRAINGLASS_PORT=2222", path[] = "TRAINGLASS_BASE_PATH=/x",
                session[] = "TRAINGLASS_SESSION=none of ours", other[] = "PORT=1";
    char *environment[] = {port, path, session, other, NULL};

    assert_int_equal(set(OPTION_PORT, "1111"), 0);
    assert_int_equal(options_read_environment(&options, environment), 0);
    assert_int_equal(read_text("port = 3333\nbase_path = /y\nruns = 7\n"), 0);
    assert_int_equal(options_number(&options, OPTION_PORT), 1111);
    assert_string_equal(options_text(&options, OPTION_BASE_PATH), "/x");
    assert_int_equal(options_number(&options, OPTION_RUNS), 7);
}

static void a_variable_that_is_set_but_empty_counts_as_not_set(void **state)
{
    (void)state;
    static char port[] = "TRAINGLASS_PORT=", bind[] = "TRAINGLASS_BIND=",
                dir[] = "TRAINGLASS_DIR=";
    char *environment[] = {port, bind, dir, NULL};

    assert_int_equal(options_read_environment(&options, environment), 0);
    assert_int_equal(read_text("port = 3333\ndir = /y\n"), 0);
    assert_int_equal(options_number(&options, OPTION_PORT), 3333);
    assert_string_equal(options_text(&options, OPTION_BIND), "127.0.0.1");
    assert_string_equal(options_text(&options, OPTION_DIR), "/y");
}

static void an_address_that_is_not_served_is_answered_with_one_that_is(void **state)
{
    (void)state;
    static const char *const wrong[] = {"::1", "localhost", "[::]", "1.2.3", ""};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(set(OPTION_BIND, wrong[i]), -EINVAL);
        assert_non_null(strstr(options.error, "127.0.0.1 (this machine alone)"));
    }
    assert_int_equal(set(OPTION_BIND, "auto"), 0);
    assert_int_equal(set(OPTION_BIND, "0.0.0.0"), 0);
}

static void a_bad_value_in_the_environment_names_its_variable(void **state)
{
    (void)state;
    static char budget[] = "TRAINGLASS_BUDGET=much";
    char *environment[] = {budget, NULL};

    assert_int_equal(options_read_environment(&options, environment), -EINVAL);
    assert_non_null(strstr(options.error, "TRAINGLASS_BUDGET"));
    assert_non_null(strstr(options.error, "from 0 to 100 %"));
}

static void an_unknown_key_names_file_and_line(void **state)
{
    (void)state;
    assert_int_equal(read_text("# a comment\n\nprot = 80\n"), -EINVAL);
    assert_non_null(strstr(options.error, "my.conf:3: unknown key 'prot'"));
}

static void a_bad_value_names_file_line_and_range(void **state)
{
    (void)state;
    assert_int_equal(read_text("budget = 2\nport = -1\nbudget = 300\n"), -EINVAL);
    assert_string_equal(options.error,
                        "my.conf:2: port is '-1', not a whole number from "
                        "0 to 65535");
}

static void lines_that_cannot_be_read_are_refused_with_their_number(void **state)
{
    (void)state;
    char line[300];

    assert_int_equal(read_text("port = 80\nnonsense\n"), -EINVAL);
    assert_non_null(strstr(options.error, "my.conf:2: "));
    assert_int_equal(read_text("[server]\nport = 80\n"), -EINVAL);
    assert_non_null(strstr(options.error, "[server]"));
    memset(line, 'x', sizeof(line));
    memcpy(line, "token = ", 8);
    assert_int_equal(
        config_read_text(&options, line, sizeof(line), OPTION_FROM_FILE, "my.conf"),
        -EINVAL);
    assert_non_null(strstr(options.error, "my.conf:1: a line longer than"));
    assert_int_equal(
        config_read_text(&options, "port = 8\0 0\n", 12, OPTION_FROM_FILE, "my.conf"),
        -EINVAL);
}

static void the_default_file_reads_back_as_the_defaults(void **state)
{
    (void)state;
    struct options fresh;
    size_t size = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);

    options_print_defaults(out);
    assert_int_equal(fclose(out), 0);
    options_init(&fresh);
    assert_int_equal(read_text(text), 0);
    for (int id = 0; id < options_count(); id++) {
        assert_string_equal(options.values[id].text, fresh.values[id].text);
        assert_int_equal(options.values[id].origin, OPTION_FROM_FILE);
    }
    free(text);
}

static void names_are_found_in_every_spelling_and_no_other(void **state)
{
    (void)state;
    assert_int_equal(options_find("--base-path", 11), OPTION_BASE_PATH);
    assert_int_equal(options_find("base_path", 9), OPTION_BASE_PATH);
    assert_int_equal(options_find("--port=80", 6), OPTION_PORT);
    assert_int_equal(options_find("por", 3), -1);
    assert_int_equal(options_find("", 0), -1);
}

static void thresholds_of_findings_are_settings_with_the_tables_ranges(void **state)
{
    struct findings_settings settings;

    (void)state;
    options_findings(&options, &settings);
    for (uint32_t i = 0; findings_rule(i) != NULL; i++)
        assert_float_equal(settings.thresholds[i], findings_rule(i)->threshold, 1e-12);
    assert_int_equal(read_text("finding_tiny_ops = 0.4\n"), 0);
    assert_int_equal(options_find("--finding-tiny-ops", 18),
                     options_find("finding_tiny_ops", 16));
    options_findings(&options, &settings);
    for (uint32_t i = 0; findings_rule(i) != NULL; i++)
        if (strcmp(findings_rule(i)->id, "tiny-ops") == 0)
            assert_float_equal(settings.thresholds[i], 0.4, 1e-12);
    assert_int_equal(read_text("finding_tiny_ops = 1.5\n"), -EINVAL);
    assert_non_null(strstr(options.error, "a number from 0 to 1"));
    assert_int_equal(read_text("finding_coffee = 1\n"), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            thresholds_of_findings_are_settings_with_the_tables_ranges, set_up),
        cmocka_unit_test_setup(every_default_lies_in_its_own_range, set_up),
        cmocka_unit_test_setup(a_number_outside_of_its_range_is_refused_with_the_range,
                               set_up),
        cmocka_unit_test_setup(what_is_no_number_is_refused, set_up),
        cmocka_unit_test_setup(sizes_and_times_take_their_units, set_up),
        cmocka_unit_test_setup(a_choice_is_one_of_its_words_and_no_part_of_one, set_up),
        cmocka_unit_test_setup(control_characters_never_get_in, set_up),
        cmocka_unit_test_setup(a_token_is_not_repeated_in_an_error, set_up),
        cmocka_unit_test_setup(a_flag_wins_over_environment_file_and_default, set_up),
        cmocka_unit_test_setup(a_variable_that_is_set_but_empty_counts_as_not_set,
                               set_up),
        cmocka_unit_test_setup(
            an_address_that_is_not_served_is_answered_with_one_that_is, set_up),
        cmocka_unit_test_setup(a_bad_value_in_the_environment_names_its_variable,
                               set_up),
        cmocka_unit_test_setup(an_unknown_key_names_file_and_line, set_up),
        cmocka_unit_test_setup(a_bad_value_names_file_line_and_range, set_up),
        cmocka_unit_test_setup(lines_that_cannot_be_read_are_refused_with_their_number,
                               set_up),
        cmocka_unit_test_setup(the_default_file_reads_back_as_the_defaults, set_up),
        cmocka_unit_test_setup(names_are_found_in_every_spelling_and_no_other, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
