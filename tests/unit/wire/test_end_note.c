#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/end_note.h"

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    struct end_note note = {.exit_code = 137,
                            .signal = 9,
                            .oom_kills = 2,
                            .monotonic_ns = UINT64_C(8123456789),
                            .realtime_ns = UINT64_C(1763725000123),
                            .pid = 4711,
                            .asked_signal = 15};
    struct end_note read;
    char text[END_NOTE_BYTES_MAX];
    size_t length = end_note_format(&note, text, sizeof(text));

    assert_true(length > 0);
    assert_true(end_note_parse(text, length, &read));
    assert_int_equal(read.exit_code, 137);
    assert_int_equal(read.signal, 9);
    assert_int_equal(read.oom_kills, 2);
    assert_int_equal(read.pid, 4711);
    assert_int_equal(read.asked_signal, 15);
    assert_int_equal(read.monotonic_ns, note.monotonic_ns);
    assert_int_equal(read.realtime_ns, note.realtime_ns);
}

static void a_text_that_is_no_note_is_refused(void **state)
{
    (void)state;
    struct end_note note;
    char large[END_NOTE_BYTES_MAX + 1] = "trainglass-end 1\n";

    assert_false(end_note_parse("", 0, &note));
    assert_false(end_note_parse("trainglass-end 2\nsignal 9\n", 26, &note));
    assert_false(end_note_parse(large, sizeof(large), &note));
}

static void bad_lines_are_skipped_and_the_others_hold(void **state)
{
    (void)state;
    static const char text[] = "trainglass-end 1\nsignal 99999999999\nexit_code -3\n"
                               "colour red\nmonotonic_ns 99999999999999999999\n"
                               "oom_kills 1x\n\nrealtime_ns 77";
    struct end_note note;

    assert_true(end_note_parse(text, sizeof(text) - 1, &note));
    assert_int_equal(note.signal, 0);
    assert_int_equal(note.exit_code, 0);
    assert_int_equal(note.monotonic_ns, 0);
    assert_int_equal(note.oom_kills, 0);
    assert_int_equal(note.realtime_ns, 77);
}

static void a_note_that_does_not_fit_is_not_written(void **state)
{
    (void)state;
    struct end_note note = {0};
    char text[20];

    assert_int_equal(end_note_format(&note, text, sizeof(text)), 0);
}

static void a_signal_that_was_asked_for_counts_where_the_command_failed_after_it(void **state)
{
    (void)state;
    assert_int_equal(end_note_stopped_by(&(struct end_note){.signal = 2}), 2);
    assert_int_equal(end_note_stopped_by(&(struct end_note){.signal = 9}), 0);
    assert_int_equal(end_note_stopped_by(&(struct end_note){.signal = 9,
                                                            .asked_signal = 15}),
                     0);
    assert_int_equal(end_note_stopped_by(&(struct end_note){.exit_code = 1,
                                                            .asked_signal = 15}),
                     15);
    assert_int_equal(end_note_stopped_by(&(struct end_note){.asked_signal = 15}), 0);
}

static void a_note_is_about_all_trainings_of_its_command_and_no_other(void **state)
{
    (void)state;
    assert_true(end_note_is_about("4f2a", "4f2a"));
    assert_true(end_note_is_about("4f2a", "4f2a.2"));
    assert_true(end_note_is_about("exp.3", "exp.3"));
    assert_false(end_note_is_about("4f2a", "4f2b"));
    assert_false(end_note_is_about("4f2a", "4f2a.x"));
    assert_false(end_note_is_about("4f2a", "4f2a."));
    assert_false(end_note_is_about("4f2a", "4f2ab"));
    assert_false(end_note_is_about("", ".2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(a_text_that_is_no_note_is_refused),
        cmocka_unit_test(bad_lines_are_skipped_and_the_others_hold),
        cmocka_unit_test(a_note_that_does_not_fit_is_not_written),
        cmocka_unit_test(
            a_signal_that_was_asked_for_counts_where_the_command_failed_after_it),
        cmocka_unit_test(a_note_is_about_all_trainings_of_its_command_and_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
