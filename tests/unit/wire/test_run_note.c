#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/run_note.h"

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    char python[] = "python", script[] = "my\nfoo.py",
         *words[] = {python, script, NULL};
    struct run_note note = {.pid = 4391, .realtime_ns = UINT64_C(1763725000123)}, read;
    char text[RUN_NOTE_BYTES_MAX];

    run_note_command(&note, words);
    assert_true(
        run_note_parse(text, run_note_format(&note, text, sizeof(text)), &read));
    assert_int_equal(read.pid, 4391);
    assert_int_equal(read.realtime_ns, note.realtime_ns);
    assert_string_equal(read.command, "python my?foo.py");
}

static void a_long_command_is_cut_and_its_note_fits(void **state)
{
    (void)state;
    char word[4 * RUN_NOTE_COMMAND], *words[] = {word, word, NULL};
    struct run_note note = {.pid = UINT32_MAX, .realtime_ns = UINT64_MAX}, read;
    char text[RUN_NOTE_BYTES_MAX];

    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    run_note_command(&note, words);
    assert_int_equal(strlen(note.command), RUN_NOTE_COMMAND - 1);
    assert_true(
        run_note_parse(text, run_note_format(&note, text, sizeof(text)), &read));
    assert_string_equal(read.command, note.command);
}

static void a_text_that_is_no_note_is_refused_and_bad_lines_are_skipped(void **state)
{
    (void)state;
    static const char text[] = "trainglass-run 1\npid 99999999999\ncolour red\n"
                               "realtime_ns 7x\ncommand a\tb";
    char large[RUN_NOTE_BYTES_MAX + 1] = "trainglass-run 1\n";
    struct run_note note;

    assert_false(run_note_parse("", 0, &note));
    assert_false(run_note_parse("trainglass-run 2\npid 9\n", 23, &note));
    assert_false(run_note_parse(large, sizeof(large), &note));
    assert_true(run_note_parse(text, sizeof(text) - 1, &note));
    assert_int_equal(note.pid, 0);
    assert_int_equal(note.realtime_ns, 0);
    assert_string_equal(note.command, "a?b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(a_long_command_is_cut_and_its_note_fits),
        cmocka_unit_test(a_text_that_is_no_note_is_refused_and_bad_lines_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
