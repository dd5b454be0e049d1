/* Trace files that are damaged, cut, odd, or no traces, and files that change while
 * they are read: whatever can be read is, and the rest is counted. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/trace/feed/feed.h"
#include "unit/damaged_trace.h"

static void everything_before_a_cut_at_any_byte_is_read(void **state)
{
    (void)state;
    struct traced whole = read_text(small);
    uint64_t begins[3], ends[3];

    assert_int_equal(whole.count, 3);
    for (int i = 0; i < 3; i++) {
        begins[i] = whole.events[i].offset;
        ends[i] = begins[i] + whole.events[i].length;
    }
    for (size_t length = 0; length < strlen(small); length++) {
        char *copy = malloc(length + 1); /* a byte too many is seen by sanitizers */

        memcpy(copy, small, length);
        struct traced traced = traced_bytes(copy, length, &options);
        uint32_t wanted =
            (uint32_t)((length >= ends[0]) + (length >= ends[1]) + (length >= ends[2]));
        bool within = wanted < 3 && length > begins[wanted];

        assert_int_equal(traced.count, wanted);
        assert_int_equal(trace_reader_skipped(traced.reader), within);
        assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_CUT], within);
        if (within)
            assert_int_equal(traced_report(&traced)->first_offset[TRACE_SKIP_CUT],
                             begins[wanted]);
        assert_int_equal(traced_report(&traced)->is_cut, length < strlen(small) - 2);
        for (uint32_t i = 0; i < wanted; i++)
            assert_memory_equal(traced.events[i].text, whole.events[i].text,
                                whole.events[i].length);
        traced_free(&traced);
        free(copy);
    }
    traced_free(&whole);
}

/* Everything but where it stands. */
static void assert_same_events(const struct traced *a, const struct traced *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        struct trace_event left = a->events[i], right = b->events[i];

        assert_int_equal(left.length, right.length);
        assert_memory_equal(left.text, right.text, left.length);
        left.text = right.text = NULL;
        left.offset = right.offset = 0;
        assert_memory_equal(&left, &right, sizeof(left));
    }
}

static void a_block_may_end_at_any_byte(void **state)
{
    (void)state;
    static char text[FEED_BLOCK_BYTES + sizeof(small)];
    struct traced whole = read_text(small);
    size_t length = strlen(small + 3);

    for (size_t before = 0; before <= length; before++) {
        size_t spaces = FEED_BLOCK_BYTES - before;

        memset(text, ' ', spaces);
        memcpy(text + spaces, small + 3, length);
        struct traced traced = traced_bytes(text, spaces + length, &options);

        assert_same_events(&traced, &whole);
        assert_int_equal(trace_reader_head(traced.reader)->base_time_ns, 12345);
        assert_string_equal(traced_report(&traced)->error, "");
        assert_false(traced_report(&traced)->is_cut);
        traced_free(&traced);
    }
    traced_free(&whole);
}

static void one_damaged_byte_costs_few_events_and_none_in_silence(void **state)
{
    (void)state;
    static const char bytes[] = "\"\\{}[]:,x \0\n";
    size_t length = strlen(small);

    for (size_t at = 3; at < length; at++) {
        for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
            char copy[sizeof(small)];

            memcpy(copy, small, length);
            copy[at] = bytes[i];
            struct traced traced = traced_bytes(copy, length, &options);
            const struct trace_report *report = traced_report(&traced);

            /* Fewer events, and nothing skipped, cut or complained of? */
            if (traced.count < 3 && trace_reader_skipped(traced.reader) == 0 &&
                !report->is_cut && report->error[0] == '\0')
                print_message("byte %zu as %c: %u events\n", at, bytes[i],
                              traced.count);
            assert_false(traced.count < 3 && trace_reader_skipped(traced.reader) == 0 &&
                         !report->is_cut && report->error[0] == '\0');
            assert_true(traced.count >= 1 ||
                        small + at < strstr(small, "traceEvents\": ") + 18);
            traced_free(&traced);
        }
    }
}

/* Behind it, what was scanned ahead holds again: its quotes are still in pairs. */
static void damage_before_any_end_of_a_window_costs_its_event_alone(void **state)
{
    (void)state;
    enum { EVENTS = 700, BYTES = 200 };
    static const char event[] = OP("a", "10");
    static char text[EVENTS * BYTES + 2];

    memset(text, ' ', sizeof(text));
    text[0] = '[';
    for (size_t i = 0; i < EVENTS; i++) {
        memcpy(text + 1 + i * BYTES, event, sizeof(event) - 1);
        text[i * BYTES + BYTES] = i < EVENTS - 1 ? ',' : ']';
    }
    for (size_t i = 0; i < EVENTS; i += 3) {
        char *colon = memchr(text + 1 + i * BYTES, ':', BYTES);

        *colon = ';';
        struct traced traced = traced_bytes(text, sizeof(text) - 1, &options);

        assert_int_equal(traced.count, EVENTS - 1);
        assert_int_equal(trace_reader_skipped(traced.reader), 1);
        traced_free(&traced);
        *colon = ':';
    }
}

/* ---- what is no trace ---- */

static void assert_refused(const void *bytes, size_t size, int result, const char *why)
{
    struct traced traced = traced_bytes(bytes, size, &options);

    if (strstr(traced_report(&traced)->error, why) == NULL)
        print_message("not \"%s\": %s\n", why, traced_report(&traced)->error);
    assert_int_equal(traced.result, result);
    assert_int_equal(traced.count, 0);
    assert_non_null(strstr(traced_report(&traced)->error, why));
    traced_free(&traced);
}

static void what_is_no_trace_is_named(void **state)
{
    (void)state;
    assert_refused("", 0, -ENODATA, "empty");
    assert_refused("PK\3\4rest", 8, -EBADMSG, "zip archive");
    assert_refused("\x28\xb5\x2f\xfd....", 8, -EBADMSG, "zstd");
    assert_refused("\xff\xfe{\0\"\0", 6, -EBADMSG, "UTF-16");
    assert_refused("\xff\xfe\0\0{\0\0\0", 8, -EBADMSG, "is UTF-32");
    assert_refused("\0\0\xfe\xff\0\0\0{", 8, -EBADMSG, "is UTF-32");
    assert_refused("\0{\0\"", 4, -EBADMSG, "UTF-16");
    assert_refused("[\0{\0", 4, -EBADMSG, "UTF-16");
    assert_refused("version https://git-lfs.github.com/spec/v1", 42, -EBADMSG,
                   "Git LFS");
    assert_refused("<!DOCTYPE html>", 15, -EBADMSG, "HTML");
    /* gzip of the two bytes that gzip begins with */
    assert_refused(
        "\x1f\x8b\x08\0\0\0\0\0\x02\xff\x93\xef\x06\0\xc9\x46\xe9\xf6\x02\0\0\0", 22,
        -EBADMSG, "gzip within gzip");
    assert_refused("   \n", 4, -EBADMSG, "no list of events");
    assert_refused("hello", 5, -EBADMSG, "no list of events");
    assert_refused("{\"a\": 1}", 8, -EBADMSG, "no list of events");
    assert_refused("[[1, 2], 3, \"x\", null]", 22, -EBADMSG, "none of its 4 items");
    assert_refused("SQLite format 3\0..", 18, -EBADMSG, "SQLite");
    assert_refused("\x80\4\x95..", 5, -EBADMSG, "pickle");
    assert_refused("<html><head>", 12, -EBADMSG, "export_memory_timeline");
    struct traced traced = read_text("{\"traceEvents\": []}");

    assert_int_equal(traced.result, 0); /* a trace, of nothing */
    assert_false(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void assert_stranger(const char *text, const char *why)
{
    assert_refused(text, strlen(text), -EBADMSG, why);
}

static void other_files_of_profilers_are_named_by_what_they_are(void **state)
{
    (void)state;
    assert_stranger(
        "{\"schema\": \"1.1.1-chakra\", \"pid\": 1, \"nodes\": [{\"id\": 2}]}",
        "execution trace");
    assert_stranger("{\"segments\": [], \"device_traces\": [[]]}", "memory snapshot");
    assert_stranger("{\"step_ms\": {\"mean\": 1}, \"step_rows\": []}", "compare");
    assert_stranger("{\"rocprofiler-sdk-tool\": [{\"metadata\": {}}]}", "rocprofv3");
    assert_stranger("{\"$schema\": \"https://www.speedscope.app\", \"profiles\": []}",
                    "speedscope");
    assert_stranger("[[1, 2], [[0, 0, 0], [5, 0, 0]]]", "export_memory_timeline");
    assert_stranger("[[-1, [1, 1], 64, 0]]", "export_memory_timeline");
}

static void a_file_that_ends_between_two_events_says_that_it_ends_early(void **state)
{
    static const char *const cuts[] = {
        "{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"a\", \"pid\": 1, \"tid\": 1}",
        "{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"\", \"pid\": 1, \"tid\": 1},\n",
        "{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"a\", \"pid\": 1, \"tid\": 1}]"};

    (void)state;
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct traced traced = read_text(cuts[i]);

        assert_int_equal(traced.result, 0);
        assert_int_equal(traced.count, 1);
        assert_int_equal(trace_reader_skipped(traced.reader), 0);
        assert_true(traced_report(&traced)->is_cut);
        assert_non_null(strstr(traced_report(&traced)->error, "ends early"));
        traced_free(&traced);
    }
}

static void a_folder_and_a_missing_file_are_errors_with_a_sentence(void **state)
{
    (void)state;
    struct traced traced = traced_file("/", NULL);

    assert_int_equal(traced.result, -EISDIR);
    assert_string_equal(traced_report(&traced)->error, "is a folder");
    traced_free(&traced);
    traced = traced_file("/nowhere/at/all.json", NULL);
    assert_int_equal(traced.result, -ENOENT);
    assert_string_equal(traced_report(&traced)->error, strerror(ENOENT));
    traced_free(&traced);
}

static void dense_damage_does_not_make_reading_slow(void **state)
{
    (void)state;
    static const char piece[] = "{\"ph\":x";
    size_t pieces = 200000, length = sizeof(piece) - 1;
    char *text = malloc(pieces * length + 1), *at = text;

    *at++ = '[';
    for (size_t i = 0; i < pieces; i++, at += length)
        memcpy(at, piece, length);
    struct traced traced = traced_bytes(text, pieces * length + 1, &options);

    /* Would be minutes if each of them had a whole window scanned again. */
    assert_int_equal(traced.result, -EBADMSG);
    assert_int_equal(trace_reader_skipped(traced.reader), pieces);
    traced_free(&traced);
    free(text);
}

/* ---- odd, but right ---- */

static void of_keys_that_come_twice_the_last_one_counts(void **state)
{
    (void)state;
    struct traced traced =
        read_text("[{\"ph\":\"i\",\"ts\":1,\"name\":\"a\",\"name\":\"b\",\"ts\":2,"
                  "\"args\":{\"bytes\":1,\"bytes\":2}}]");

    assert_int_equal(traced.count, 1);
    assert_string_equal(traced_text(&traced, traced.events[0].name), "b");
    assert_int_equal(traced.events[0].time_ns, 2000);
    assert_int_equal(traced.events[0].bytes, 2);
    traced_free(&traced);
}

static void wrong_types_are_unreadable_values(void **state)
{
    (void)state;
    struct traced traced = read_text(
        "[{\"ph\":\"i\",\"ts\":1,\"name\":5,\"pid\":[1],\"cat\":null,\"args\":"
        "{\"grid\":\"x\",\"block\":[1,2],\"device\":99999999999,\"stream\":[7],"
        "\"bytes\":{\"a\":1},\"correlation\":\"12\"}},"
        "{\"ph\":5,\"ts\":1},{\"ph\":\"X\",\"ts\":1},{\"ph\":\"X\"},"
        "{\"ph\":\"X\",\"ts\":[],\"dur\":1},{\"ph\":\"X\",\"ts\":-5,\"dur\":-1}]");
    const struct trace_report *report = traced_report(&traced);

    assert_int_equal(traced.count, 2);
    assert_string_equal(traced_text(&traced, traced.events[0].name), "5");
    assert_int_equal(traced.events[0].correlation, 12);
    assert_int_equal(report->values_unreadable, 5);
    assert_int_equal(report->skipped[TRACE_SKIP_NO_PHASE], 1);
    assert_int_equal(report->skipped[TRACE_SKIP_NO_DURATION], 1);
    assert_int_equal(report->skipped[TRACE_SKIP_NO_TIME], 1);
    assert_int_equal(report->skipped[TRACE_SKIP_TIME], 1);
    assert_int_equal(traced.events[1].duration_ns, -1000);
    traced_free(&traced);
}

static void a_phase_of_a_byte_that_no_text_keeps_is_none(void **state)
{
    (void)state;
    struct traced traced =
        read_text("[{\"ph\":\"\xbe\",\"ts\":1},{\"ph\":\"\x01\",\"ts\":1},"
                  "{\"ph\":\"i\",\"s\":\"\xbe\",\"ts\":1}]");

    assert_int_equal(traced.count, 1);
    assert_int_equal(traced.events[0].scope, '\0');
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_NO_PHASE], 2);
    traced_free(&traced);
}

static void what_stands_behind_the_end_is_said_and_its_events_read(void **state)
{
    (void)state;
    struct traced traced =
        read_text("{\"traceEvents\": [" OP("a", "1") "]}\nTerminated\n" OP("b", "2"));

    assert_int_equal(traced.count, 2);
    assert_non_null(strstr(traced_report(&traced)->error, "behind the end"));
    traced_free(&traced);
}

static void events_on_lines_are_read_from_the_first_one_on(void **state)
{
    static const char lines[] =
        OP("a", "1") "\n" OP("b", "2") "\r\n\n" OP("c", "3") "\n";
    size_t whole = sizeof(lines) - 1;

    (void)state;
    for (size_t size = whole; size > 0; size--) {
        struct traced traced = traced_bytes(lines, size, &options);
        const struct trace_report *report = traced_report(&traced);
        uint64_t begun = (uint64_t)(size > 0) + (size > strlen(OP("a", "1") "\n")) +
                         (size > strlen(OP("a", "1") "\n" OP("b", "2") "\r\n\n"));

        /* Of a piece as short as `{"name` nobody knows what it would have become. */
        if (report->events + trace_reader_skipped(traced.reader) > 0)
            assert_int_equal(report->events + trace_reader_skipped(traced.reader),
                             begun);
        else
            assert_true(size < strlen(OP("a", "1")));
        if (size == whole) {
            assert_int_equal(traced.count, 3);
            assert_string_equal(traced_text(&traced, traced.events[0].name), "a");
            assert_false(report->is_cut);
            assert_string_equal(report->error, "");
        }
        traced_free(&traced);
    }
}

static void an_object_whose_first_key_an_event_may_have_too_is_none(void **state)
{
    (void)state;
    struct traced traced =
        read_text("{\"name\": \"run 7\", \"traceEvents\": [" OP("a", "1") "]}");

    assert_int_equal(traced.count, 1);
    assert_int_equal(trace_reader_skipped(traced.reader), 0);
    assert_non_null(trace_reader_span(traced.reader, "name"));
    traced_free(&traced);
}

/* ---- pipes ---- */

static void *write_slowly(void *user)
{
    int descriptor = *(int *)user;

    for (const char *at = small; *at != '\0'; at += 1)
        if (write(descriptor, at, 1) != 1)
            break;
    close(descriptor);
    return NULL;
}

static void a_pipe_is_read_as_its_bytes_come(void **state)
{
    (void)state;
    int ends[2];
    pthread_t thread;
    struct traced traced = {.reader = trace_reader_new(&options)};

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, &ends[1]), 0);
    assert_int_equal(trace_reader_open_descriptor(traced.reader, ends[0]), 0);
    traced.result = trace_reader_run(traced.reader, traced_keep, &traced);
    pthread_join(thread, NULL);
    assert_int_equal(traced.result, 0);
    assert_int_equal(traced.count, 3);
    traced_free(&traced);
    close(ends[0]);
}

static void *cancel(void *user)
{
    trace_reader_cancel(user);
    return NULL;
}

static void waiting_for_a_fifo_can_be_cancelled(void **state)
{
    (void)state;
    char path[] = "/tmp/trainglass-fifo-XXXXXX";
    pthread_t thread;

    assert_non_null(mkdtemp(path));
    char fifo[64];

    snprintf(fifo, sizeof(fifo), "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct traced traced = {.reader = trace_reader_new(&options)};

    assert_int_equal(trace_reader_open(traced.reader, fifo), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel, traced.reader), 0);
    assert_int_equal(trace_reader_run(traced.reader, traced_keep, &traced), -ECANCELED);
    pthread_join(thread, NULL);
    traced_free(&traced);
    unlink(fifo);
    rmdir(path);
}

static bool shorten(void *user, struct trace_event *events, uint32_t count)
{
    (void)events;
    (void)count;
    return ftruncate(*(int *)user, 10) == 0;
}

#define OPS_WRITTEN 20000

/* A new file, open for writing, that holds the beginning of a list of so many ops. */
static int write_ops(char *path)
{
    int descriptor = mkstemp(path);

    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, "[", 1), 1);
    for (int i = 0; i < OPS_WRITTEN; i++)
        assert_true(write(descriptor, OP("a", "1") ",", sizeof(OP("a", "1"))) > 0);
    return descriptor;
}

static void a_file_that_shrinks_while_it_is_read_is_cut(void **state)
{
    (void)state;
    char path[] = "/tmp/trainglass-shrinks-XXXXXX";
    struct trace_reader *reader = trace_reader_new(&options);
    int descriptor = write_ops(path);

    assert_int_equal(trace_reader_open(reader, path), 0);
    assert_int_equal(trace_reader_run(reader, shorten, &descriptor), 0);
    assert_true(trace_reader_report(reader)->is_cut);
    assert_non_null(strstr(trace_reader_report(reader)->error, "shorter"));
    assert_true(trace_reader_report(reader)->events < OPS_WRITTEN);
    trace_reader_free(reader);
    close(descriptor);
    unlink(path);
}

static bool lengthen(void *user, struct trace_event *events, uint32_t count)
{
    (void)events;
    (void)count;
    return write(*(int *)user, OP("later", "1") ",", sizeof(OP("later", "1"))) > 0;
}

/* The job that writes it may go on for hours. */
static void a_file_that_grows_while_it_is_read_ends_where_it_did(void **state)
{
    (void)state;
    char path[] = "/tmp/trainglass-grows-XXXXXX";
    struct trace_reader *reader = trace_reader_new(&options);
    int descriptor = write_ops(path);

    assert_int_equal(trace_reader_open(reader, path), 0);
    assert_int_equal(trace_reader_run(reader, lengthen, &descriptor), 0);
    assert_int_equal(trace_reader_report(reader)->events, OPS_WRITTEN);
    assert_true(trace_reader_report(reader)->is_cut);
    trace_reader_free(reader);
    close(descriptor);
    unlink(path);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_before_a_cut_at_any_byte_is_read),
        cmocka_unit_test(a_block_may_end_at_any_byte),
        cmocka_unit_test(one_damaged_byte_costs_few_events_and_none_in_silence),
        cmocka_unit_test(damage_before_any_end_of_a_window_costs_its_event_alone),
        cmocka_unit_test(what_is_no_trace_is_named),
        cmocka_unit_test(other_files_of_profilers_are_named_by_what_they_are),
        cmocka_unit_test(a_file_that_ends_between_two_events_says_that_it_ends_early),
        cmocka_unit_test(dense_damage_does_not_make_reading_slow),
        cmocka_unit_test(a_folder_and_a_missing_file_are_errors_with_a_sentence),
        cmocka_unit_test(of_keys_that_come_twice_the_last_one_counts),
        cmocka_unit_test(wrong_types_are_unreadable_values),
        cmocka_unit_test(a_phase_of_a_byte_that_no_text_keeps_is_none),
        cmocka_unit_test(what_stands_behind_the_end_is_said_and_its_events_read),
        cmocka_unit_test(events_on_lines_are_read_from_the_first_one_on),
        cmocka_unit_test(an_object_whose_first_key_an_event_may_have_too_is_none),
        cmocka_unit_test(a_pipe_is_read_as_its_bytes_come),
        cmocka_unit_test(waiting_for_a_fifo_can_be_cancelled),
        cmocka_unit_test(a_file_that_shrinks_while_it_is_read_is_cut),
        cmocka_unit_test(a_file_that_grows_while_it_is_read_ends_where_it_did),
    };

    options.one_thread = count > 1 && strcmp(words[1], "alone") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
